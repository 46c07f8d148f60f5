"""Full windows of bounded streams: all records of a subtask, or of a key, which end with the stream.

Source: Flink docs, "Full Window Partition Processing on DataStream"; FLIP-380. PyFlink does not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.api.order import Order
from penstock.api.windows.assigners import GlobalWindows
from penstock.common.errors import ProgramError
from penstock.common.functions.field_key import FieldKey
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.whole_numbers import as_int
from penstock.datastream.arguments import as_function, check_aggregate, field_name_of, field_of, output_type_of
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import AggregateFunction, KeySelector, MapPartitionFunction, ReduceFunction
from penstock.datastream.next_call import Unfinished
from penstock.datastream.windowed_stream import WindowedStream
from penstock.engine.plan.relations import ForOperators, SortGroups, SortPartition
from penstock.engine.plan.transformations import Transformation
from penstock.engine.plan.upstream import unbounded_source_of
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.group_calls import AGGREGATE, MAP_PARTITION, REDUCE
from penstock.engine.runtime.operators.map_partition import MapPartitionOperator, SortPartitionOperator
from penstock.engine.runtime.windows.contents import Aggregated, Contents, Reduced
from penstock.engine.runtime.windows.evaluation import MapPartition
from penstock.engine.runtime.windows.evaluation import SortPartition as SortOfKey
from penstock.engine.runtime.windows.partial_contents import KeyOfPartial, MergedContents
from penstock.engine.runtime.windows.partition_aggregate import PartitionAggregateOperator

if TYPE_CHECKING:
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.engine.runtime.operators.operator import Operator

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R")


def check_bounded(method: str, stream: Transformation) -> None:
    """Raise ProgramError if a stream for `method` is unbounded."""
    unbounded = unbounded_source_of(stream)
    if unbounded is not None:
        raise ProgramError(
            f"{method}: the source '{unbounded}' is unbounded, so the result would never come. Use windows that end, "
            "such as window(TumblingEventTimeWindows.of(Time.minutes(5))), or a bounded source"
        )


class PartitionWindowedStream(Unfinished, Generic[T]):
    """The records of each subtask in one window, which ends with the stream. Created by `full_window_partition`.

    The operator has the parallelism of its input, and subtasks without records give no result. Results have no
    timestamps. Records wait in memory, and beyond `execution.sorted-inputs.memory`, or the memory of the slot, on local
    disk. A checkpoint in STREAMING contains all of them.
    """

    next_call = "map_partition, sort_partition, reduce or aggregate"

    def __init__(self, stream: DataStream[T]) -> None:
        check_bounded("full_window_partition", stream._transformation)
        self._stream = stream

    def map_partition(
        self,
        func: MapPartitionFunction[T, R] | Callable[[Iterable[T]], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call `func` once with an iterator over all records, in the order of arrival. It emits any number of results.

        `func` is a generator, or returns an iterable or None. Raises TypeError if it is not a function. Source: Flink,
        PartitionWindowedStream.mapPartition.
        """
        function = as_function(func, "map_partition", MapPartitionFunction)
        declared = output_type_of(func, "map_partition", output_type, elements=True)
        return self._operator(MapPartitionOperator("Map Partition", function), declared)

    def sort_partition(
        self,
        key_selector: KeySelector[T, Any] | Callable[[T], Any] | str | int,
        order: Order = Order.ASCENDING,
    ) -> DataStream[T]:
        """Emit all records, sorted by key: a callable, a KeySelector, or the name or position of a field.

        Keys must be comparable with each other. Records with equal keys stay in the order of arrival. Raises TypeError
        if an argument is of another kind, ValueError for a field that the declared type lacks. Source: Flink,
        PartitionWindowedStream.sortPartition.
        """
        function, descending = _sort_key(key_selector, order, self._stream._transformation.output_type)
        operator = SortPartitionOperator("Sort Partition", function, descending)
        stream = self._stream._transformation
        result = self._operator(operator, stream.output_type)
        field = field_name_of(key_selector, stream.output_type)
        result._transformation.relation = (
            ForOperators((stream,), "its key is a function")
            if field is None
            else SortPartition((stream,), field, descending)
        )
        return result

    def reduce(self, reduce_function: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Reduce all records to one. Raises TypeError if it is not a function.

        Source: Flink, PartitionWindowedStream.reduce.
        """
        function = as_function(reduce_function, "reduce", ReduceFunction)
        input_type = self._stream._transformation.output_type
        return self._operator(PartitionAggregateOperator("Reduce Partition", Reduced(function, input_type)), input_type)

    def aggregate(
        self, aggregate_function: AggregateFunction[T, Any, R], output_type: TypeInformation | None = None
    ) -> DataStream[R]:
        """Aggregate all records. `merge` is called only after a change of the parallelism.

        Raises TypeError if it is not an AggregateFunction. Source: Flink, PartitionWindowedStream.aggregate.
        """
        check_aggregate(aggregate_function)
        contents = Aggregated(UserFunction(aggregate_function, "add"))
        declared = output_type_of(aggregate_function, "get_result", output_type)
        return self._operator(PartitionAggregateOperator("Aggregate Partition", contents), declared)

    def _operator(self, operator: Operator, output_type: TypeInformation | None) -> DataStream[Any]:
        stream = self._stream
        result = stream._operator(operator.name, operator, output_type)
        # The partitions are those of the input.
        result._transformation.parallelism = stream._transformation.parallelism
        return result


class KeyedPartitionWindowedStream(Unfinished, Generic[T, K]):
    """The records of each key in one window, which ends with the stream. Created by `full_window_partition`.

    Results have the last possible timestamp. In BATCH keys are sorted in bounded memory, and the records of one key are
    in memory; in STREAMING they are keyed state.
    """

    next_call = PartitionWindowedStream.next_call

    def __init__(self, stream: KeyedStream[T, K]) -> None:
        check_bounded("full_window_partition", stream._transformation)
        self._stream = stream

    def map_partition(
        self,
        func: MapPartitionFunction[T, R] | Callable[[Iterable[T]], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call `func` once per key with all of its records: see `PartitionWindowedStream.map_partition`.

        In BATCH records come in order of time, in STREAMING in order of arrival.
        """
        function = as_function(func, "map_partition", MapPartitionFunction)
        declared = output_type_of(func, "map_partition", output_type, elements=True)
        result = self._windows().evaluated(MapPartition(function), declared).name("Map Partition")
        return self._of_groups(result, MAP_PARTITION)

    def sort_partition(
        self,
        key_selector: KeySelector[T, Any] | Callable[[T], Any] | str | int,
        order: Order = Order.ASCENDING,
    ) -> DataStream[T]:
        """Emit the records of each key, sorted: see `PartitionWindowedStream.sort_partition`."""
        before, select = self._stream._without_key, self._stream.key_selector
        function, descending = _sort_key(key_selector, order, before.output_type)
        evaluation = SortOfKey(function, descending)
        result = self._windows().evaluated(evaluation, before.output_type).name("Sort Partition")
        field = field_name_of(key_selector, before.output_type)
        result._transformation.relation = (
            SortGroups((before,), select.fields, field, descending)
            if isinstance(select, FieldKey) and field is not None
            else ForOperators((before,), "its key is a function")
        )
        return result

    def reduce(self, reduce_function: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Reduce the records of each key to one. In BATCH before they are sent, too, if it is combinable.

        Raises TypeError if it is not a function. Source: Flink, PartitionWindowedStream.reduce.
        """
        return self._of_groups(self._windows().reduce(reduce_function).name("Reduce Partition"), REDUCE)

    def aggregate(
        self,
        aggregate_function: AggregateFunction[T, Any, R],
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Aggregate the records of each key. In BATCH before they are sent, too, if it has `shares_slices`.

        Raises TypeError if it is not an AggregateFunction. Source: Flink, PartitionWindowedStream.aggregate.
        """
        check_aggregate(aggregate_function)
        windows = self._windows()
        result: DataStream[R] = windows.aggregate(
            aggregate_function, accumulator_type=accumulator_type, output_type=output_type
        )
        return self._of_groups(result.name("Aggregate Partition"), AGGREGATE)

    def _of_groups(self, result: DataStream[R], how: str) -> DataStream[R]:
        result._transformation.relation = self._stream._of_groups(result, how, ends=True)
        return result

    def _windows(self) -> WindowedStream[T, K]:
        return _FullWindows(self._stream, GlobalWindows.create_with_end_of_stream_trigger())


class _FullWindows(WindowedStream[T, K]):
    """Full windows, whose contents can be combined before the exchange if their function allows it."""

    def _result(self, contents: Contents, *arguments: Any, **settings: Any) -> DataStream[Any]:
        if contents.combines:
            stream = self._keyed_stream
            self._keyed_stream = stream.key_by(KeyOfPartial(stream.key_selector), stream._key_type)
            contents = MergedContents(contents)
        return super()._result(contents, *arguments, **settings)


def _sort_key(key_selector: Any, order: Any, record_type: TypeInformation | None) -> tuple[UserFunction, bool]:
    """Return the function of a sort key, and whether the greatest comes first.

    Raises ValueError for a field that `record_type`, the declared type of the records, lacks.
    """
    if not isinstance(order, Order):
        raise TypeError(f"order must be Order.ASCENDING or Order.DESCENDING, got {order!r}")
    if isinstance(key_selector, str):
        field_of(key_selector, record_type)
        key_selector = FieldKey((key_selector,))
    elif (position := as_int(key_selector)) is not None:
        if position >= 0:
            field_of(position, record_type)
        key_selector = itemgetter(position)
    function = as_function(key_selector, "get_key", KeySelector)
    return function, order is Order.DESCENDING
