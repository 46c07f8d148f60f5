"""DataStream: what a program is written with. Each method checks its arguments and adds a transformation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.common.execution_config import ExecutionConfig
from penstock.common.output_tag import OutputTag
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.arguments import as_function, key_selector_of, output_type_of, partitioner_of
from penstock.datastream.functions import FilterFunction, FlatMapFunction, KeySelector, MapFunction, ProcessFunction
from penstock.plan.transformations import (
    Chaining,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.runtime.network.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from penstock.runtime.operators.process import ProcessOperator
from penstock.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from penstock.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from penstock.runtime.sink import Sink

if TYPE_CHECKING:
    from penstock.datastream.collected import CloseableIterator
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.windowed_stream import AllWindowedStream
    from penstock.runtime.operators.operator import Operator

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
K = TypeVar("K")


class OperatorSettings:
    """What can be said of the operator that a stream or sink ends in."""

    _transformation: Transformation

    def name(self: S, name: str) -> S:
        """Call the operator so in plans, metrics and errors."""
        self._transformation.name = name
        return self

    def get_name(self) -> str:
        """Name of the operator."""
        return self._transformation.name

    def uid(self: S, uid: str) -> S:
        """Tie the operator's state to `uid`: a changed program finds it by that name. Must be unique in the program."""
        if not uid:
            raise ValueError("a uid can't be empty")
        self._transformation.uid = uid
        return self

    def set_uid_hash(self: S, uid_hash: str) -> S:
        """Accepted for Flink's sake: the 32 hexadecimal digits by which a savepoint of Flink names an operator."""
        if len(uid_hash) != 32 or not all(digit in "0123456789abcdefABCDEF" for digit in uid_hash):
            raise ValueError(f"a uid hash has 32 hexadecimal digits, not {uid_hash!r}")
        self._transformation.uid_hash = uid_hash
        return self

    def set_parallelism(self: S, parallelism: int) -> S:
        """Run the operator in that many subtasks. Raises ValueError if below 1, or if it can't be parallel."""
        check_parallelism("parallelism", parallelism)
        fixed = self._transformation.parallelism_fixed
        if fixed is not None and parallelism != 1:
            raise ValueError(f"'{self._transformation.name}' can't have parallelism {parallelism}: {fixed}")
        self._transformation.parallelism = parallelism
        return self

    def set_max_parallelism(self: S, max_parallelism: int) -> S:
        """Number of key groups of the operator: how far it can ever be scaled out."""
        check_parallelism("maximum parallelism", max_parallelism)
        self._transformation.max_parallelism = max_parallelism
        return self

    def set_description(self: S, description: str) -> S:
        """A longer text for plans."""
        self._transformation.description = description
        return self

    def disable_chaining(self: S) -> S:
        """Never fuse the operator with its neighbours."""
        self._transformation.chaining = Chaining.NEVER
        return self

    def slot_sharing_group(self: S, slot_sharing_group: Any) -> S:
        """Accepted: operators of different groups are not fused; slots themselves are Spark's to give."""
        group = slot_sharing_group
        self._transformation.slot_sharing_group = group if isinstance(group, str) else group.get_name()
        return self


S = TypeVar("S", bound=OperatorSettings)


class DataStream(OperatorSettings, Generic[T]):
    """A stream of values of one type."""

    def __init__(self, environment: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self.environment = environment
        self._transformation = transformation

    def get_type(self) -> TypeInformation:
        """Type of the values: as declared or read from type hints, else pickled."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment in which the stream was made."""
        return self.environment

    def get_execution_config(self) -> ExecutionConfig:
        """Settings of that environment."""
        return self.environment.get_config()

    def force_non_parallel(self) -> DataStream[T]:
        """One subtask, whatever the environment says."""
        self._transformation.parallelism = 1
        self._transformation.parallelism_fixed = "force_non_parallel() was called on it"
        return self

    def set_buffer_timeout(self, timeout_millis: TimeLength) -> DataStream[T]:
        """Send partly filled buffers after that time (ms): 0 after each step, -1 only when full."""
        self._transformation.buffer_timeout_ms = buffer_timeout(timeout_millis)
        return self

    def start_new_chain(self) -> DataStream[T]:
        """Do not fuse the operator with those before it."""
        self._transformation.chaining = Chaining.HEAD
        return self

    # One value after the other.

    @overload
    def map(self, func: MapFunction[T, R], output_type: TypeInformation | None = None) -> DataStream[R]: ...
    @overload
    def map(self, func: Callable[[T], R], output_type: TypeInformation | None = None) -> DataStream[R]: ...
    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """One value in, one out: `func` is a callable or a MapFunction."""
        function = as_function(func, "map", MapFunction)
        return self._operator("Map", MapOperator("Map", function), output_type_of(func, "map", output_type))

    @overload
    def flat_map(self, func: FlatMapFunction[T, R], output_type: TypeInformation | None = None) -> DataStream[R]: ...
    @overload
    def flat_map(
        self, func: Callable[[T], Iterable[R] | None], output_type: TypeInformation | None = None
    ) -> DataStream[R]: ...
    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """One value in, any number out: `func` returns an iterable or is a generator; None stands for nothing."""
        function = as_function(func, "flat_map", FlatMapFunction)
        return self._operator(
            "Flat Map",
            FlatMapOperator("Flat Map", function),
            output_type_of(func, "flat_map", output_type, elements=True),
        )

    def filter(self, func: FilterFunction[T] | Callable[[T], Any]) -> DataStream[T]:
        """Keep the values for which `func` is true."""
        function = as_function(func, "filter", FilterFunction)
        return self._operator("Filter", FilterOperator("Filter", function), self._transformation.output_type)

    def process(self, func: ProcessFunction[T, R], output_type: TypeInformation | None = None) -> DataStream[R]:
        """Run a ProcessFunction: any number of values out, side outputs by `yield tag, value`."""
        function = as_function(func, "process_element", ProcessFunction)
        declared = output_type_of(func, "process_element", output_type, elements=True)
        return self._operator("Process", ProcessOperator("Process", function), declared)

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Of tuples, keep the fields with these positions, in this order."""
        if not field_indexes or min(field_indexes) < 0:
            raise ValueError(f"project takes positions of fields, 0 or more, not {field_indexes}")
        function = as_function(_Project(field_indexes), "map", MapFunction)
        return self._operator("Projection", MapOperator("Projection", function), None)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Give records timestamps and generate watermarks from here on; what came from upstream is replaced."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"expected a WatermarkStrategy, got {watermark_strategy!r}")
        interval_ms = self.environment.get_config().get_auto_watermark_interval()
        operator = TimestampsAndWatermarksOperator("Timestamps/Watermarks", watermark_strategy, interval_ms)
        return self._operator(operator.name, operator, self._transformation.output_type)

    def get_side_output(self, output_tag: OutputTag[R]) -> DataStream[R]:
        """The stream of what this operator yielded with `output_tag`."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"expected an OutputTag, got {output_tag!r}")
        if not isinstance(self._transformation, OperatorTransformation):
            raise ValueError(
                f"only an operator has side outputs: ask the stream that process() gave for '{output_tag.tag_id}', "
                "not one that was partitioned, united or is a side output itself"
            )
        return DataStream(
            self.environment,
            SideOutputTransformation(self.environment.next_id(), self._transformation, output_tag),
        )

    # Several streams.

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """This stream and others of the same type as one; no order between them."""
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise TypeError(f"union takes streams, not {stream!r}")
        inputs = [self._transformation, *(stream._transformation for stream in streams)]
        return DataStream(self.environment, UnionTransformation(self.environment.next_id(), inputs))

    # Partitioning.

    def key_by(
        self, key_selector: KeySelector[T, K] | Callable[[T], K], key_type: TypeInformation | None = None
    ) -> KeyedStream[T, K]:
        """Records of equal keys to the same subtask. `key_selector` is a callable or KeySelector.

        Raises ValueError if `key_type` can't be a key (a list or map).
        """
        from penstock.datastream.keyed_stream import KeyedStream

        select, key_type = key_selector_of(key_selector, key_type)
        partitioned = self._partition(HashPartitioner(select))
        return KeyedStream(self.environment, partitioned._transformation, self._transformation, select, key_type)

    def shuffle(self) -> DataStream[T]:
        """Each record to a subtask by chance."""
        return self._partition(ShufflePartitioner())

    def rebalance(self) -> DataStream[T]:
        """Records to all subtasks in turn."""
        return self._partition(RebalancePartitioner())

    def rescale(self) -> DataStream[T]:
        """Records in turn to those subtasks that are this sender's share."""
        return self._partition(RescalePartitioner())

    def forward(self) -> DataStream[T]:
        """Subtask i to subtask i. A ProgramError at submission if the parallelisms differ."""
        return self._partition(ForwardPartitioner())

    def broadcast(self) -> DataStream[T]:
        """Every record to every subtask."""
        return self._partition(BroadcastPartitioner())

    def global_(self) -> DataStream[T]:
        """All records to the first subtask."""
        return self._partition(GlobalPartitioner())

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream[T]:
        """Records to the subtask that `partitioner(key, number of subtasks)` names."""
        select, _ = key_selector_of(key_selector, None)
        return self._partition(CustomPartitioner(partitioner_of(partitioner), select))

    # Windows over the whole stream.

    def window_all(self, window_assigner: Any) -> AllWindowedStream[T]:
        """Windows over all records of the stream, in one subtask."""
        from penstock.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    # Results.

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write the values to the driver's standard output: `identifier:subtask> value`."""
        return self.environment._add_print(self._transformation, sink_identifier)

    def sink_to(self, sink: Sink[T]) -> DataStreamSink:
        """Write the values to a Sink."""
        if not isinstance(sink, Sink):
            raise TypeError(f"sink_to takes a Sink, not {sink!r}: add_sink takes a function")
        sink.validate()
        return self.environment._add_sink(self._transformation, sink)

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Call `sink_func` for each value: a callable, or a SinkFunction."""
        from penstock.connectors.base.function_sink import FunctionSink

        return self.environment._add_sink(self._transformation, FunctionSink(sink_func))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Run the job and iterate over this stream's values on the driver; with `limit`, a list of at most that many.

        In pipelined mode values come while the job runs, in batched mode once it has succeeded. Close the iterator, or
        use it in a `with`, to end an unbounded job.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit can't be negative: {limit}")
        collected: CloseableIterator[T] = self.environment._collect(self._transformation, job_execution_name)
        if limit is None:
            return collected
        with collected:
            return [value for value, _ in zip(collected, range(limit), strict=False)]

    # Within the package.

    def _operator(self, name: str, operator: Operator, output_type: TypeInformation | None) -> DataStream[Any]:
        """A stream of what `operator` makes of this one."""
        transformation = OperatorTransformation(
            self.environment.next_id(), name, [self._transformation], operator, output_type
        )
        return DataStream(self.environment, transformation)

    def _partition(self, partitioner: Partitioner) -> DataStream[T]:
        return DataStream(
            self.environment, PartitionTransformation(self.environment.next_id(), self._transformation, partitioner)
        )


class DataStreamSink(OperatorSettings):
    """The end of a stream."""

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation


class _Project:
    def __init__(self, indexes: tuple[int, ...]) -> None:
        self.indexes = indexes

    def map(self, value: Any) -> Any:
        fields = [value[index] for index in self.indexes]
        return Row(*fields) if isinstance(value, Row) else tuple(fields)


def check_parallelism(what: str, value: Any) -> None:
    """Raise ValueError if `value` can't be a parallelism."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{what} must be a whole number of 1 or more, not {value!r}")


def buffer_timeout(timeout: TimeLength) -> int:
    """A buffer timeout in ms. Raises ValueError if below -1."""
    timeout_ms = to_milliseconds(timeout)
    if timeout_ms < -1:
        raise ValueError(f"the buffer timeout is a number of ms, or -1 for 'only when full', not {timeout_ms}")
    return timeout_ms
