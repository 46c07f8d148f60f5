"""DataStream: the fluent API of programs. Each method validates its arguments and adds a transformation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from penstock.api.output_tag import OutputTag
from penstock.api.sink import Sink
from penstock.api.state.descriptors import MapStateDescriptor
from penstock.common.doors import pyflink_names
from penstock.common.errors import ProgramError
from penstock.common.execution_config import ExecutionConfig
from penstock.common.time import TimeLength
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.values.shallow_copy import shallow_copy
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.function_sink import FunctionSink
from penstock.datastream.arguments import (
    as_function,
    check_needs_no_key,
    check_output_tag,
    checked_count,
    key_selector_of,
    output_type_of,
    partitioner_of,
    projected_type,
)
from penstock.datastream.functions import FilterFunction, FlatMapFunction, KeySelector, MapFunction, ProcessFunction
from penstock.datastream.next_call import missing_method
from penstock.datastream.operator_settings import OperatorSettings, buffer_timeout
from penstock.datastream.program_ends import collected, printed, written
from penstock.datastream.program_graph import unbounded_source_of
from penstock.engine.plan.transformations import (
    Chaining,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.engine.runtime.network.partitioners import (
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
from penstock.engine.runtime.operators.process import ProcessOperator
from penstock.engine.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator, Projection
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.datastream.broadcast_streams import BroadcastConnectedStream, BroadcastStream
    from penstock.datastream.cached_stream import CachedDataStream
    from penstock.datastream.collected import CloseableIterator
    from penstock.datastream.connected_streams import ConnectedStreams
    from penstock.datastream.iterative_stream import IterativeStream
    from penstock.datastream.joined_streams import CoGroupedStreams, JoinedStreams
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.datastream.windowed_stream import AllWindowedStream
    from penstock.engine.runtime.operators.operator import Operator

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")
K = TypeVar("K")


class DataStream(OperatorSettings, Generic[T]):
    """A stream of values of one type."""

    def __init__(self, environment: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self.environment = environment
        self._transformation = transformation

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            from penstock.datastream.keyed_stream import KeyedStream

            raise missing_method(type(self), name, KeyedStream)

    def get_type(self) -> TypeInformation:
        """Return the type of the values: declared or from type hints, else pickled."""
        return self._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that created the stream."""
        return self.environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the execution settings of the environment."""
        return self.environment.get_config()

    def force_non_parallel(self) -> DataStream[T]:
        """Set parallelism 1, regardless of the environment."""
        operator = self._operator_for("force_non_parallel")
        operator.parallelism = 1
        operator.parallelism_fixed = "force_non_parallel() was called on it"
        return self

    def set_buffer_timeout(self, timeout_millis: TimeLength) -> DataStream[T]:
        """Flush incomplete buffers after this time (ms): 0 after each step, -1 after that of the environment.

        The time in which the task has work and waits for a core does not count, up to ten times this time.
        Source: PyFlink, DataStream.set_buffer_timeout. For the environment -1 means "only when full".
        """
        timeout_ms = buffer_timeout(timeout_millis)
        self._operator_for("set_buffer_timeout").buffer_timeout_ms = None if timeout_ms == -1 else timeout_ms
        return self

    def start_new_chain(self) -> DataStream[T]:
        """Do not chain the operator to its predecessors."""
        self._operator_for("start_new_chain").chaining = Chaining.HEAD
        return self

    # Transformations of single records.

    @overload
    def map(self, func: MapFunction[T, R], output_type: TypeInformation | None = None) -> DataStream[R]: ...
    @overload
    def map(self, func: Callable[[T], R], output_type: TypeInformation | None = None) -> DataStream[R]: ...
    def map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Emit one result per record: `func` is a callable or a MapFunction."""
        function = as_function(func, "map", MapFunction)
        return self._operator("Map", MapOperator("Map", function), output_type_of(func, "map", output_type))

    @overload
    def flat_map(self, func: FlatMapFunction[T, R], output_type: TypeInformation | None = None) -> DataStream[R]: ...
    @overload
    def flat_map(
        self, func: Callable[[T], Iterable[R] | None], output_type: TypeInformation | None = None
    ) -> DataStream[R]: ...
    def flat_map(self, func: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """Emit any number of results per record: `func` returns an iterable, is a generator, or returns None."""
        function = as_function(func, "flat_map", FlatMapFunction)
        return self._operator(
            "Flat Map",
            FlatMapOperator("Flat Map", function),
            output_type_of(func, "flat_map", output_type, elements=True),
        )

    def filter(self, func: FilterFunction[T] | Callable[[T], Any]) -> DataStream[T]:
        """Keep the records for which `func` returns true."""
        function = as_function(func, "filter", FilterFunction)
        return self._operator("Filter", FilterOperator("Filter", function), self._transformation.output_type)

    def process(self, func: ProcessFunction[T, R], output_type: TypeInformation | None = None) -> DataStream[R]:
        """Apply a ProcessFunction: any number of results, side outputs with `yield tag, value`.

        Raises TypeError for a KeyedProcessFunction: this stream has no key.
        """
        check_needs_no_key(func)
        function = as_function(func, "process_element", ProcessFunction)
        declared = output_type_of(func, "process_element", output_type, elements=True)
        return self._operator("Process", ProcessOperator("Process", function), declared)

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Select fields of tuples or rows by position, in the given order.

        Raises TypeError if another type is declared for the stream, ValueError for a position that can't be.
        """
        field_indexes = tuple(checked_count("a position of project", index, 0) for index in field_indexes or (None,))
        declared = self._transformation.output_type
        function = as_function(Projection(field_indexes), "map", MapFunction)
        projected = None if declared is None else projected_type(declared, field_indexes)
        return self._operator("Projection", MapOperator("Projection", function), projected)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Assign timestamps and generate watermarks from here on, replacing those from upstream.

        Raises ValueError for a strategy with watermark alignment: only a source can wait for others.
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"expected a WatermarkStrategy, got {watermark_strategy!r}")
        if watermark_strategy.alignment is not None:
            raise ValueError("watermark alignment lets sources wait for each other: pass the strategy to from_source")
        interval_ms = self.environment.get_config().get_auto_watermark_interval()
        strategy = shallow_copy(watermark_strategy)
        operator = TimestampsAndWatermarksOperator("Timestamps/Watermarks", strategy, interval_ms)
        return self._operator(operator.name, operator, self._transformation.output_type)

    def get_side_output(self, output_tag: OutputTag[R]) -> DataStream[R]:
        """Return the side output of this operator for `output_tag`."""
        check_output_tag(output_tag)
        if not isinstance(self._transformation, OperatorTransformation):
            raise ValueError(
                f"only an operator has side outputs: call it on the stream returned by process() for "
                f"'{output_tag.tag_id}', not on one that is partitioned, a union or a side output itself"
            )
        return DataStream(
            self.environment,
            SideOutputTransformation(self.environment.next_id(), self._transformation, output_tag),
        )

    # Transformations of several streams.

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Merge this stream with others of the same type, without an order between them."""
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise TypeError(f"union takes streams, got {stream!r}")
            check_one_environment("union", self, stream)
        inputs = [self._transformation, *(stream._transformation for stream in streams)]
        return DataStream(self.environment, UnionTransformation(self.environment.next_id(), inputs))

    @overload
    def connect(self, ds: BroadcastStream[U]) -> BroadcastConnectedStream[T, U]: ...
    @overload
    def connect(self, ds: DataStream[U]) -> ConnectedStreams[T, U]: ...
    def connect(self, ds: Any) -> ConnectedStreams[T, Any] | BroadcastConnectedStream[T, Any]:
        """Let one function read this stream and `ds`, which may be of another type, with shared state.

        With a BroadcastStream (`broadcast` with descriptors) the function has broadcast state. Raises TypeError if `ds`
        is no stream.
        """
        from penstock.datastream.broadcast_streams import BroadcastConnectedStream, BroadcastStream
        from penstock.datastream.connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        raise TypeError(f"connect takes a stream, got {ds!r}")

    def join(self, other_stream: DataStream[U]) -> JoinedStreams[T, U]:
        """Join with another stream by key and window: `join(other).where(f).equal_to(g).window(w).apply(function)`."""
        from penstock.datastream.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)

    def co_group(self, other_stream: DataStream[U]) -> CoGroupedStreams[T, U]:
        """Group with another stream by key and window: as `join`, but the function gets all records at once."""
        from penstock.datastream.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)

    def iterate(self, max_wait_time: TimeLength = 0) -> IterativeStream[T]:
        """Begin an iteration: a stream of these records and of what `close_with` feeds back to it.

        The loop ends when its inputs have ended and nothing is in flight in it; with `max_wait_time` (ms, or a length
        of time) also when its inputs have ended and nothing has come back for so long. In STREAMING mode only. Raises
        ValueError if `max_wait_time` is negative. Source: Flink, DataStream.iterate.
        """
        from penstock.datastream.iterative_stream import IterativeStream

        return IterativeStream(self, max_wait_time)

    def cache(self) -> CachedDataStream[T]:
        """The same stream, whose records the first job that reads it keeps for the jobs of this environment after it.

        In BATCH mode only: see CachedDataStream. Source: Flink docs, "Operators", Cache.
        """
        from penstock.datastream.cached_stream import CachedDataStream

        return CachedDataStream(self)

    # Partitioning.

    def key_by(
        self, key_selector: KeySelector[T, K] | Callable[[T], K], key_type: TypeInformation | None = None
    ) -> KeyedStream[T, K]:
        """Partition the stream by key: equal keys go to the same subtask. `key_selector` is a callable or KeySelector.

        A key that is a list or dict is copied, and can't be changed.
        """
        from penstock.datastream.keyed_stream import KeyedStream

        select, key_type = key_selector_of(key_selector, key_type)
        partitioned = self._partition(HashPartitioner(select))
        return KeyedStream(self.environment, partitioned._transformation, self._transformation, select, key_type)

    def shuffle(self) -> DataStream[T]:
        """Send each record to a random subtask."""
        return self._partition(ShufflePartitioner())

    def rebalance(self) -> DataStream[T]:
        """Distribute records round-robin over all subtasks."""
        return self._partition(RebalancePartitioner())

    def rescale(self) -> DataStream[T]:
        """Distribute records round-robin over a subset of subtasks, assigned to each sender."""
        return self._partition(RescalePartitioner())

    def forward(self) -> DataStream[T]:
        """Send records of subtask i to subtask i. Raises ProgramError at submission if the parallelisms differ."""
        return self._partition(ForwardPartitioner())

    @overload
    def broadcast(self) -> DataStream[T]: ...
    @overload
    def broadcast(
        self, broadcast_state_descriptor: MapStateDescriptor, *other_broadcast_state_descriptors: MapStateDescriptor
    ) -> BroadcastStream[T]: ...
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Send every record to every subtask.

        With descriptors, return a BroadcastStream: the function that another stream connects to it with has these
        states. Raises TypeError if one is no MapStateDescriptor, ValueError if two have one name.
        """
        partitioned = self._partition(BroadcastPartitioner())
        if broadcast_state_descriptor is None:
            return partitioned
        from penstock.datastream.broadcast_streams import BroadcastStream

        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(f"broadcast takes descriptors of map state, got {descriptor!r}")
        return BroadcastStream(partitioned, descriptors)

    def global_(self) -> DataStream[T]:
        """Send all records to the first subtask."""
        return self._partition(GlobalPartitioner())

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream[T]:
        """Send records to the subtask with the index `partitioner(key, number of subtasks)`."""
        select, _ = key_selector_of(key_selector, None)
        return self._partition(CustomPartitioner(partitioner_of(partitioner), select))

    # Non-keyed windows.

    def window_all(self, window_assigner: Any) -> AllWindowedStream[T]:
        """Group all records of the stream into windows, in one subtask."""
        from penstock.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    # Sinks.

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the values to the driver's standard output: `identifier:subtask> value`."""
        return DataStreamSink(printed(self.environment, self._transformation, sink_identifier))

    def sink_to(self, sink: Sink[T]) -> DataStreamSink:
        """Write the values to a Sink."""
        if not isinstance(sink, Sink):
            raise TypeError(f"sink_to takes a Sink, got {sink!r}; use add_sink for a function")
        return DataStreamSink(written(self.environment, self._transformation, sink))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Call `sink_func` for each value: a callable, or a SinkFunction. A Sink is taken as by `sink_to`."""
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        return DataStreamSink(written(self.environment, self._transformation, FunctionSink(sink_func)))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Run the job and iterate over its values on the driver; with `limit`, return a list of at most `limit` values.

        In pipelined mode values arrive while the job runs, in batched mode after it has succeeded. Close the iterator,
        or use it in a `with` statement, to end an unbounded job. A job that has more values than are taken, by `limit`
        or before the iterator is closed, ends as CANCELED (Flink: `executeAndCollect`).
        """
        if limit is not None:
            limit = checked_count("limit", limit, 0)
        values: CloseableIterator[T] = collected(self.environment, self._transformation, job_execution_name)
        if limit is None:
            return values
        with values:
            return [value for value, _ in zip(values, range(limit), strict=False)]

    def to_data_frame(self, job_execution_name: str | None = None, *, directory: str | None = None) -> DataFrame:
        """Run the job to its end and return its values as a DataFrame of Spark, with the columns of the stream's type.

        A stream of Rows, tuples, NamedTuples or dataclasses has their fields as columns, any other one a column `f0`.
        Tasks write the values to Parquet files, once each, and the frame reads those that were committed: below
        `directory`, which stays, or in a temporary folder, which goes with the process. Raises ProgramError for an
        unbounded stream, for one without a type, and if there is something in `directory`; what `execute` raises.
        PyFlink has `to_data_stream`, the other way round.
        """
        from penstock.hosts.spark.frames.written_frame import WrittenFrame, record_of

        unbounded = unbounded_source_of(self._transformation)
        if unbounded is not None:
            raise ProgramError(
                f"to_data_frame: the source '{unbounded}' is unbounded, so the frame would never be complete. Write a "
                "table, as with FileSink, and read that while the job runs"
            )
        environment = self.environment
        frame = WrittenFrame(self.get_type(), directory, environment._configuration, environment._spark)
        record = record_of(self.get_type())
        records = self if record is None else self.map(record)
        records.sink_to(frame.sink).name("DataFrame")
        environment.execute(job_execution_name)
        return frame.read()

    # Internal to the package.

    def _operator(self, name: str, operator: Operator, output_type: TypeInformation | None) -> DataStream[Any]:
        """Add an operator and return its output stream."""
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


def check_one_environment(method: str, first: DataStream[Any], second: DataStream[Any]) -> None:
    """Raise ValueError if two streams to be brought together by `method` belong to different programs."""
    if first.environment is not second.environment:
        raise ValueError(
            f"{method} takes streams of one StreamExecutionEnvironment, and these have two: each is a program of its "
            "own. Create both streams with the same one"
        )


pyflink_names.answer(__name__)
