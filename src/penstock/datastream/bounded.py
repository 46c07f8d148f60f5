"""Operations of Flink's DataSet API on bounded streams: distinct, first, sample, zip_with_index, cross, ranges.

Source: Flink 1.20, DataSet and DataSetUtils. `distinct`, `first` and `sample` also run on unbounded streams.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.api.output_tag import OutputTag
from penstock.common.functions.field_key import FieldKey
from penstock.common.typeinfo import TypeInformation
from penstock.common.types import Row
from penstock.datastream.arguments import as_function, checked_count, field_of, output_type_of
from penstock.datastream.connected_streams import two_input_stream
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.field_join import fields_of_pairs
from penstock.datastream.functions import (
    CrossFunction,
    FlatMapFunction,
    KeySelector,
)
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.next_call import Unfinished
from penstock.datastream.partition_windowed_stream import PartitionWindowedStream, check_bounded
from penstock.datastream.sampling import KeySample, Sample, SampleWithReplacement
from penstock.engine.plan.relations import Cross, Distinct, First, ForOperators, PartitionByRange
from penstock.engine.plan.transformations import Relation, Transformation
from penstock.engine.runtime.operators.after_broadcast import (
    AfterBroadcastOperator,
    BroadcastUse,
    GlobalIndex,
    RangeOfKey,
)
from penstock.engine.runtime.operators.after_broadcast import Cross as CrossedPairs
from penstock.engine.runtime.operators.first import FirstOperator, KeyedFirstOperator
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.numbering import NumberingOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.stateless import FlatMapOperator, MapOperator

T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")


def distinct(stream: DataStream[T], key: Any, *fields: str) -> DataStream[T]:
    """See `DataStream.distinct`."""
    select: Any = _itself if key is None else key
    result = first_of_keys(stream.key_by(select, *fields), 1).name("Distinct")
    if key is None:
        result._transformation.relation = Distinct((stream._without_key,))
    return result


def first(stream: DataStream[T], count: int) -> DataStream[T]:
    """See `DataStream.first`. Each subtask sends at most so many records to the last one."""
    count = checked_count("count", count, 0)
    of_subtasks = _beside(stream, FirstOperator("First", count), stream._transformation.output_type)
    result = of_subtasks._operator(
        "First", FirstOperator("First", count), of_subtasks._transformation.output_type
    ).force_non_parallel()
    result._transformation.relation = First((stream._without_key,), count)
    return result


def first_of_keys(stream: KeyedStream[T, Any], count: int) -> DataStream[T]:
    """See `KeyedStream.first`."""
    operator = KeyedFirstOperator("First", stream.key_selector, checked_count("count", count, 0))
    result = stream._keyed_operator("First", operator, stream._transformation.output_type)
    inputs, select = (stream._without_key,), stream.key_selector
    if not isinstance(select, FieldKey):
        result._transformation.relation = ForOperators(inputs, "its key is a function")
    elif count == 1:
        result._transformation.relation = Distinct(inputs, select.fields)
    else:
        result._transformation.relation = ForOperators(inputs, "it keeps several records of a key")
    return result


def sample(stream: DataStream[T], fraction: Any, *, with_replacement: bool, seed: int | None) -> DataStream[T]:
    """See `DataStream.sample`."""
    most = sys.float_info.max if with_replacement else 1
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= most:
        limits = "of 0 or more" if with_replacement else "from 0 to 1"
        raise ValueError(f"fraction must be a number {limits}, got {fraction!r}")
    if seed is None:
        seed = random.randrange(1 << 32)
    kind = SampleWithReplacement if with_replacement else Sample
    function = as_function(kind(fraction, seed), "flat_map", FlatMapFunction)
    return _beside(stream, FlatMapOperator("Sample", function), stream._transformation.output_type)


def zip_with_index(stream: DataStream[T]) -> DataStream[tuple[int, T]]:
    """See `DataStream.zip_with_index`: subtasks number their records, and tell each other how many they have."""
    check_bounded("zip_with_index", stream._transformation)
    counts: OutputTag[tuple[int, int]] = OutputTag("counts of subtasks")
    numbered = _beside(stream, NumberingOperator("Number Records", counts), None)
    told = numbered.get_side_output(counts).broadcast()
    return _after_broadcast("Zip With Index", numbered, told, function=UserFunction(_itself, "map"), use=GlobalIndex())


def partition_by_range(stream: DataStream[T], key_selector: Any) -> DataStream[T]:
    """See `DataStream.partition_by_range`."""
    check_bounded("partition_by_range", stream._transformation)
    output_type = stream._without_key.output_type
    if isinstance(key_selector, str):
        field_of(key_selector, output_type)
        key_selector = FieldKey((key_selector,))
    keys = _beside(stream, MapOperator("Range Key", as_function(key_selector, "get_key", KeySelector)), None)
    sampled = PartitionWindowedStream(keys).aggregate(KeySample()).name("Sample Keys").broadcast()
    function = as_function(key_selector, "get_key", KeySelector)
    placed = _after_broadcast(
        "Find Range", DataStream(stream.environment, stream._without_key), sampled, function=function, use=RangeOfKey()
    )
    ranges = placed.partition_custom(_subtask_of_place, _place)
    result = ranges._operator(
        "Range Partition", MapOperator("Range Partition", UserFunction(_record, "map")), output_type
    )
    inputs = (stream._without_key,)
    result._transformation.relation = (
        PartitionByRange(inputs, key_selector.fields)
        if isinstance(key_selector, FieldKey)
        else ForOperators(inputs, "its key is a function")
    )
    return result


class CrossedStreams(Unfinished, Generic[T, U]):
    """Two streams, of which each record of one is paired with each of the other. Created by `cross`."""

    next_call = "apply(function)"

    def __init__(self, stream1: DataStream[T], stream2: DataStream[U]) -> None:
        if not isinstance(stream2, DataStream):
            raise TypeError(f"expected a stream for cross, got {stream2!r}")
        check_one_environment("cross", stream1, stream2)
        check_bounded("cross", stream2._transformation)
        self._stream1 = stream1
        self._stream2 = stream2

    def apply(
        self,
        function: CrossFunction[T, U, R] | Callable[[T, U], R] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Emit the result of `function` for each pair; by default the pair itself.

        Results have the timestamp of the first stream's record. Raises TypeError if it is not a function.
        """
        func: Any = _pair if function is None else function
        crossed = as_function(func, "cross", CrossFunction)
        return self._crossed(crossed, output_type_of(func, "cross", output_type), ForOperators(self._inputs))

    def select(
        self, left: Sequence[str] | Mapping[str, str] = (), right: Sequence[str] | Mapping[str, str] = ()
    ) -> DataStream[Row]:
        """Emit for each pair a Row of fields of both records, like `select` of a join.

        Raises ValueError for a field that the declared type lacks and for a name of two results, TypeError for what is
        not a name. This is not in Flink.
        """
        fields, result_type = fields_of_pairs(self._inputs, left, right)
        return self._crossed(UserFunction(fields, "join"), result_type, Cross(self._inputs, fields.fields))

    @property
    def _inputs(self) -> tuple[Transformation, Transformation]:
        return self._stream1._without_key, self._stream2._without_key

    def _crossed(
        self, function: UserFunction, output_type: TypeInformation | None, relation: Relation
    ) -> DataStream[Any]:
        first_stream, others = _without_key(self._stream1), _without_key(self._stream2).broadcast()
        result = _after_broadcast("Cross", first_stream, others, function=function, use=CrossedPairs())
        result._transformation.output_type = output_type
        result._transformation.relation = relation
        return result


def _beside(stream: DataStream[Any], operator: Operator, output_type: TypeInformation | None) -> DataStream[Any]:
    """Add an operator to a stream without its key, with the parallelism of the stream."""
    before = _without_key(stream)
    result = before._operator(operator.name, operator, output_type)
    result._transformation.parallelism = before._transformation.parallelism
    return result


def _without_key(stream: DataStream[Any]) -> DataStream[Any]:
    return DataStream(stream.environment, stream._without_key)


def _after_broadcast(
    name: str, stream: DataStream[Any], broadcast: DataStream[Any], *, function: UserFunction, use: BroadcastUse
) -> DataStream[Any]:
    """Add the operator that processes `stream` when `broadcast` has ended, with the parallelism of `stream`."""
    operator = AfterBroadcastOperator(name, function, use)
    result = two_input_stream(name=name, stream1=stream, stream2=broadcast, operator=operator, output_type=None)
    result._transformation.parallelism = stream._transformation.parallelism
    return result


def _itself(value: Any) -> Any:
    return value


def _pair(val1: Any, val2: Any) -> tuple[Any, Any]:
    return val1, val2


def _place(placed: tuple[float, Any]) -> float:
    return placed[0]


def _record(placed: tuple[float, Any]) -> Any:
    return placed[1]


def _subtask_of_place(place: float, count: int) -> int:
    return min(count - 1, int(place * count))
