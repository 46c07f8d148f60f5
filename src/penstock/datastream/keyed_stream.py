"""KeyedStream: one subtask processes all records of a key, and holds its state and timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from penstock.api.functions.failed_record import OnError
from penstock.common.functions.field_aggregates import MAX, MIN, SUM
from penstock.common.functions.field_key import FieldKey
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.common.values.ordered import is_greater, is_less
from penstock.datastream.arguments import as_function, checked_on_error, field_name_of, field_of, output_type_of
from penstock.datastream.data_stream import DataStream
from penstock.datastream.field_aggregation import field_aggregation, fields_of_key, running_aggregate_operator
from penstock.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from penstock.engine.plan.function_relations import GroupFunction
from penstock.engine.plan.relations import Aggregate, ForOperators, Rolled
from penstock.engine.plan.transformations import OperatorTransformation, Relation, Transformation
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.function_adapters import FilterAdapter, FlatMapAdapter, MapAdapter
from penstock.engine.runtime.operators.group_calls import REDUCE
from penstock.engine.runtime.operators.guarded import guarded
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.operators.reduce import BestReduce, FieldReduce, ReduceOperator, SumReduce

if TYPE_CHECKING:
    from penstock.api.state.ttl import StateTtlConfig
    from penstock.datastream.interval_join import IntervalJoin
    from penstock.datastream.partition_windowed_stream import KeyedPartitionWindowedStream
    from penstock.datastream.queryable_state_stream import QueryableStateStream
    from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.windowed_stream import WindowedStream

T = TypeVar("T")
K = TypeVar("K")
U = TypeVar("U")
K2 = TypeVar("K2")
R = TypeVar("R")


class KeyedStream(DataStream[T], Generic[T, K]):
    """A stream partitioned by key, created by `key_by`."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        before: Transformation,
        key_selector: Callable[[Any], Any],
        key_type: TypeInformation | None,
    ) -> None:
        super().__init__(environment, transformation)
        self._before = before
        self.key_selector = key_selector
        self._key_type = key_type

    def get_key_type(self) -> TypeInformation:
        """Return the type of the keys: declared, else from type hints, else PICKLED_BYTE_ARRAY."""
        return self._key_type or Types.PICKLED_BYTE_ARRAY()

    @overload
    def map(
        self, func: MapFunction[T, R], output_type: TypeInformation | None = None, *, on_error: OnError = "fail"
    ) -> DataStream[R]: ...
    @overload
    def map(
        self, func: Callable[[T], R], output_type: TypeInformation | None = None, *, on_error: OnError = "fail"
    ) -> DataStream[R]: ...
    def map(
        self, func: Any, output_type: TypeInformation | None = None, *, on_error: OnError = "fail"
    ) -> DataStream[Any]:
        """Emit one result per record. A MapFunction may use keyed state. `on_error`: see `DataStream.map`."""
        if not isinstance(func, MapFunction):
            return super().map(func, output_type, on_error=on_error)
        declared = output_type_of(func, "map", output_type)
        function = MapAdapter.adapted_function(as_function(func, "map", MapFunction))
        return self._keyed_process("Map", function, on_error, declared)

    @overload
    def flat_map(
        self, func: FlatMapFunction[T, R], output_type: TypeInformation | None = None, *, on_error: OnError = "fail"
    ) -> DataStream[R]: ...
    @overload
    def flat_map(
        self,
        func: Callable[[T], Iterable[R] | None],
        output_type: TypeInformation | None = None,
        *,
        on_error: OnError = "fail",
    ) -> DataStream[R]: ...
    def flat_map(
        self, func: Any, output_type: TypeInformation | None = None, *, on_error: OnError = "fail"
    ) -> DataStream[Any]:
        """Emit any number of results per record. A FlatMapFunction may use keyed state."""
        if not isinstance(func, FlatMapFunction):
            return super().flat_map(func, output_type, on_error=on_error)
        declared = output_type_of(func, "flat_map", output_type, elements=True)
        function = FlatMapAdapter.adapted_function(as_function(func, "flat_map", FlatMapFunction))
        return self._keyed_process("Flat Map", function, on_error, declared)

    def cache(self) -> NoReturn:
        """Raise ValueError, as in PyFlink: a keyed stream can't be cached."""
        raise ValueError("a keyed stream can't be cached: call cache() before key_by()")

    def filter(self, func: FilterFunction[T] | Callable[[T], Any], *, on_error: OnError = "fail") -> DataStream[T]:
        """Keep the records for which `func` returns true. A FilterFunction may use keyed state."""
        if not isinstance(func, FilterFunction):
            return super().filter(func, on_error=on_error)
        function = FilterAdapter.adapted_function(as_function(func, "filter", FilterFunction))
        return self._keyed_process("Filter", function, on_error, self._transformation.output_type)

    def reduce(self, func: ReduceFunction[T] | Callable[[T, T], T]) -> DataStream[T]:
        """Combine each value with the previous result of its key, and emit the new result.

        In BATCH mode only the last result of each key is emitted, with the timestamp of its last record. Source: Flink
        docs, "Operators", Reduce.
        """
        result = self._reduce("Reduce", as_function(func, "reduce", ReduceFunction))
        result._transformation.relation = self._of_groups(result, REDUCE, ends=False)
        return result

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T]:
        """Emit the running sum of a field, by position or name, or of the values if they have no fields.

        Raises TypeError or ValueError if the declared type of the stream has no such field. Without a declared type,
        the first record fails the job.
        """
        return self._rolling("Sum", SumReduce(self._field(position_to_sum)), SUM)

    def min(self, position_to_min: int | str = 0) -> DataStream[T]:
        """Emit the running minimum of a field, with the other fields of the key's first value."""
        return self._best("Min", position_to_min, MIN, whole=False)

    def max(self, position_to_max: int | str = 0) -> DataStream[T]:
        """Emit the running maximum of a field, with the other fields of the key's first value."""
        return self._best("Max", position_to_max, MAX, whole=False)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T]:
        """Emit the value with the lowest field so far; on ties the first one."""
        return self._best("Min By", position_to_min_by, MIN, whole=True)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T]:
        """Emit the value with the highest field so far; on ties the first one."""
        return self._best("Max By", position_to_max_by, MAX, whole=True)

    # The type is narrower than in DataStream.process, as in Flink: keyed streams need a KeyedProcessFunction.
    def aggregate(self, aggregates: Mapping[str, Any], *, ttl_config: StateTtlConfig | None = None) -> DataStream[Row]:
        """Emit for each record the aggregates of its key so far: `{"n": "count", "total": ("amount", "sum")}`.

        The key is made of fields: `key_by("airport")`. Of a field there are "count", "sum", "min", "max", "avg",
        "first" and "last"; others are fields and an ArrayAggregateFunction, `(("price", "amount"), WeightedMean())`.
        Results are Rows of the key's fields and these. None is ignored, and NaN is greater than all other numbers. On
        columns it computes whole batches of integers and floats. In BATCH mode only the last result of each key is
        emitted, as `reduce` does.

        `ttl_config`: a key without a record for its time to live begins again, and takes no memory; in BATCH it has no
        effect. Raises TypeError if the key is not made of fields, and ValueError for a field that the declared type
        lacks; either for an ArrayAggregateFunction that can't be used. This is not in PyFlink.
        """
        of_fields = field_aggregation(self._transformation, fields_of_key(self.key_selector), aggregates)
        operator = running_aggregate_operator("Aggregate", self.key_selector, of_fields, ttl_config)
        result = self._keyed_operator("Aggregate", operator, of_fields.result_type)
        result._transformation.relation = Aggregate((self._before,), of_fields.key_fields, of_fields.function.declared)
        return result

    def process(  # type: ignore[override]
        self,
        func: KeyedProcessFunction[K, T, R],
        output_type: TypeInformation | None = None,
        *,
        on_error: OnError = "fail",
    ) -> DataStream[R]:
        """Apply a KeyedProcessFunction: keyed state, timers, and any number of results.

        `on_error`: see `DataStream.map`; it also applies to timers. What was emitted or written to state before the
        error stays.
        """
        function = as_function(func, "process_element", KeyedProcessFunction)
        declared = output_type_of(func, "process_element", output_type, elements=True)
        return self._keyed_process("KeyedProcess", function, on_error, declared)

    def window(self, window_assigner: Any) -> WindowedStream[T, K]:
        """Group the records of each key into windows. Source: Flink docs, "Windows"."""
        from penstock.datastream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[T, K]:
        """Group records of each key into windows of `size` records that start every `slide` records (0: tumbling)."""
        from penstock.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        if slide:
            return self.window(CountSlidingWindowAssigner.of(size, slide))
        return self.window(CountTumblingWindowAssigner.of(size))

    def as_queryable_state(
        self,
        queryable_state_name: str,
        state_descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None,
    ) -> QueryableStateStream:
        """Make the newest value of each key queryable from outside, by a name that is unique in the job.

        With a ReducingStateDescriptor it is the reduced value of all. Answers come from the last completed checkpoint.
        The name is also the uid of the operator. Raises TypeError for another descriptor, ValueError if the name is
        empty or the descriptor already has one. Source: Flink docs, "Queryable State".
        """
        from penstock.datastream.queryable_state_stream import QueryableStateStream, QueryableUpdate
        from penstock.datastream.state import ReducingStateDescriptor, ValueStateDescriptor

        descriptor = state_descriptor or ValueStateDescriptor(queryable_state_name, self.get_type())
        if not isinstance(descriptor, (ValueStateDescriptor, ReducingStateDescriptor)):
            raise TypeError(f"expected a ValueStateDescriptor or a ReducingStateDescriptor, got {descriptor!r}")
        descriptor.set_queryable(queryable_state_name)
        title = f"Queryable state: {queryable_state_name}"
        end = self.process(QueryableUpdate(descriptor)).name(title).uid(queryable_state_name)
        self.environment.add_end(end._transformation)
        return QueryableStateStream(queryable_state_name, descriptor)

    def full_window_partition(self) -> KeyedPartitionWindowedStream[T, K]:  # type: ignore[override]
        """Collect all records of each key into one window: see `DataStream.full_window_partition`."""
        from penstock.datastream.partition_windowed_stream import KeyedPartitionWindowedStream

        return KeyedPartitionWindowedStream(self)

    def first(self, count: int) -> DataStream[T]:
        """Keep the first `count` records of each key: in STREAMING by arrival, in BATCH by time.

        State holds each key. Raises ValueError if `count` is negative. Source: Flink, Grouping.first.
        """
        from penstock.datastream.bounded import first_of_keys

        return first_of_keys(self, count)

    def interval_join(self, other_stream: KeyedStream[U, K]) -> IntervalJoin[T, U]:
        """Join with records of another stream with the same key and a close event time. Continue with `between`.

        Raises TypeError if `other_stream` has no key. Source: Flink docs, "Joining", Interval Join.
        """
        from penstock.datastream.interval_join import IntervalJoin

        return IntervalJoin(self, other_stream)

    @property
    def _without_key(self) -> Transformation:
        return self._before

    def _partition(self, partitioner: Partitioner) -> DataStream[T]:
        raise ValueError(
            f"a keyed stream is partitioned by its key, which {partitioner.ship_strategy.lower()} would override. "
            "Partition the stream before key_by, or the result of the operator after it"
        )

    def _keyed_process(
        self, name: str, function: UserFunction, on_error: OnError, output_type: TypeInformation | None
    ) -> DataStream[Any]:
        """Add the operator of a process function with keyed state."""
        operator = KeyedProcessOperator(name, self.key_selector, guarded(function, checked_on_error(on_error)))
        return self._keyed_operator(name, operator, output_type)

    def _of_groups(self, result: DataStream[Any], how: str, *, ends: bool) -> Relation:
        """Return the relation of the results of a function of groups: see GroupFunction."""
        end: Any = result._transformation
        if not isinstance(self.key_selector, FieldKey):
            return ForOperators((self._before,), "its key is a function")
        fields = self.key_selector.fields
        return GroupFunction(
            (self._before,), end.operator, how=how, key_fields=fields, given_type=end.output_type, ends=ends
        )

    def _reduce(self, name: str, function: UserFunction) -> DataStream[T]:
        return self._keyed_operator(
            name, ReduceOperator(name, self.key_selector, function), self._transformation.output_type
        )

    def _best(self, name: str, field: int | str, kind: str, whole: bool) -> DataStream[T]:
        better = is_less if kind == MIN else is_greater
        return self._rolling(name, BestReduce(self._field(field), better, whole), kind)

    def _rolling(self, name: str, reduce: FieldReduce, kind: str) -> DataStream[T]:
        function = UserFunction(reduce, "reduce")
        function.method = name.lower().replace(" ", "_")
        result = self._reduce(name, function)
        inputs, field = (self._before,), field_name_of(reduce.field, self._before.output_type)
        if field is None or not isinstance(self.key_selector, FieldKey):
            relation: Relation = ForOperators(inputs, "its key is a function, or its field has no name")
        else:
            is_whole = isinstance(reduce, BestReduce) and reduce.whole
            relation = Rolled(inputs, self.key_selector.fields, kind=kind, field=field, whole=is_whole)
        result._transformation.relation = relation
        return result

    def _field(self, position: int | str) -> int | str:
        return field_of(position, self._transformation.output_type)

    def _keyed_operator(
        self, name: str, operator: KeyedOperator, output_type: TypeInformation | None
    ) -> DataStream[Any]:
        """Add a keyed operator and return its output stream."""
        transformation = OperatorTransformation(
            id=self.environment.next_id(),
            name=name,
            inputs=[self._transformation],
            operator=operator,
            output_type=output_type,
        )
        return DataStream(self.environment, transformation)
