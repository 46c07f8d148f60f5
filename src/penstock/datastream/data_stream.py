"""DataStream: the API of programs. Each method validates its arguments and adds a transformation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, overload

from penstock.api.functions.failed_record import OnError
from penstock.api.output_tag import OutputTag
from penstock.api.sink import Sink
from penstock.api.state.descriptors import MapStateDescriptor
from penstock.common.doors import pyflink_names
from penstock.common.doors.extras import POLARS, package_of
from penstock.common.errors import ProgramError
from penstock.common.execution_config import ExecutionConfig
from penstock.common.time import TimeLength
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types.composite_types import RowTypeInfo
from penstock.common.values.shallow_copy import shallow_copy
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.function_sink import FunctionSink
from penstock.datastream.arguments import (
    as_function,
    check_needs_no_key,
    check_output_tag,
    check_time_field,
    checked_count,
    checked_on_error,
    described,
    key_of,
    key_selector_of,
    output_type_of,
    partitioner_of,
    projected_type,
)
from penstock.datastream.column_types import (
    BatchFormatName,
    UnionOfStreams,
    check_rejected,
    columns_of,
    columns_to_read,
    given_columns,
)
from penstock.datastream.functions import (
    FilterBatchesFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapBatchesFunction,
    MapFunction,
    ProcessFunction,
)
from penstock.datastream.next_call import missing_method
from penstock.datastream.operator_settings import OperatorSettings, buffer_timeout
from penstock.datastream.program_ends import collected, printed, written
from penstock.engine.plan.column_operators import on_columns
from penstock.engine.plan.function_relations import ColumnFunction
from penstock.engine.plan.relations import ForOperators, Project
from penstock.engine.plan.transformations import (
    Chaining,
    DeployedTransformation,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
)
from penstock.engine.plan.upstream import unbounded_source_of
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
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.function_adapters import FilterAdapter, FlatMapAdapter, MapAdapter
from penstock.engine.runtime.operators.guarded import guarded
from penstock.engine.runtime.operators.process import ProcessOperator
from penstock.engine.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator, Projection
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

    from penstock.common.columns.record_columns import RecordColumns
    from penstock.datastream.bounded import CrossedStreams
    from penstock.datastream.broadcast_streams import BroadcastConnectedStream, BroadcastStream
    from penstock.datastream.cached_stream import CachedDataStream
    from penstock.datastream.collected import CloseableIterator
    from penstock.datastream.connected_streams import ConnectedStreams
    from penstock.datastream.iterative_stream import IterativeStream
    from penstock.datastream.joined_streams import CoGroupedStreams, JoinedStreams, SemiJoinedStreams
    from penstock.datastream.keyed_stream import KeyedStream
    from penstock.datastream.partition_windowed_stream import PartitionWindowedStream
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
        """Return the type of the values: declared, else from type hints, else PICKLED_BYTE_ARRAY."""
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
        """Flush incomplete buffers after this time (ms). 0: after each step. -1: after the environment's timeout.

        Time during which the task has work and waits for a core does not count, up to ten times the timeout. (For the
        environment, -1 means "only when full".) Source: PyFlink, DataStream.set_buffer_timeout.
        """
        timeout_ms = buffer_timeout(timeout_millis)
        self._operator_for("set_buffer_timeout").buffer_timeout_ms = None if timeout_ms == -1 else timeout_ms
        return self

    def start_new_chain(self) -> DataStream[T]:
        """Don't chain the operator to its predecessors."""
        self._operator_for("start_new_chain").chaining = Chaining.HEAD
        return self

    # Transformations of single records.

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
        """Emit one result per record. `func` is a callable or a MapFunction.

        `on_error`: what happens to a record on which `func` fails. "fail": the job fails. "skip": the record is
        skipped and counted. An OutputTag: the same, and its side output gets a FailedRecord. This argument, here and in
        `flat_map`, `filter` and `process`, is penstock's own.
        """
        function = as_function(func, "map", MapFunction)
        declared = output_type_of(func, "map", output_type)
        if checked_on_error(on_error) == "fail":
            return self._operator("Map", MapOperator("Map", function), declared)
        return self._process("Map", MapAdapter.adapted_function(function), on_error, declared)

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
        """Emit any number of results per record. `func` is a generator, or returns an iterable or None.

        `on_error`: see `map`. Results that were emitted before the error stay.
        """
        function = as_function(func, "flat_map", FlatMapFunction)
        declared = output_type_of(func, "flat_map", output_type, elements=True)
        if checked_on_error(on_error) == "fail":
            return self._operator("Flat Map", FlatMapOperator("Flat Map", function), declared)
        return self._process("Flat Map", FlatMapAdapter.adapted_function(function), on_error, declared)

    def filter(self, func: FilterFunction[T] | Callable[[T], Any], *, on_error: OnError = "fail") -> DataStream[T]:
        """Keep the records for which `func` returns true. `on_error`: see `map`."""
        function = as_function(func, "filter", FilterFunction)
        same_type = self._transformation.output_type
        if checked_on_error(on_error) == "fail":
            return self._operator("Filter", FilterOperator("Filter", function), same_type)
        return self._process("Filter", FilterAdapter.adapted_function(function), on_error, same_type)

    def process(
        self, func: ProcessFunction[T, R], output_type: TypeInformation | None = None, *, on_error: OnError = "fail"
    ) -> DataStream[R]:
        """Apply a ProcessFunction: any number of results, and side outputs with `yield tag, value`.

        `on_error`: see `map`. What was emitted or written to state before the error stays.

        Raises TypeError for a KeyedProcessFunction: this stream has no key.
        """
        check_needs_no_key(func)
        function = as_function(func, "process_element", ProcessFunction)
        declared = output_type_of(func, "process_element", output_type, elements=True)
        return self._process("Process", function, on_error, declared)

    def project(self, *field_indexes: int | str) -> DataStream[Any]:
        """Select fields of tuples or rows by position, or columns by position or name, in the given order.

        With names, a stream of records is converted to columns by its declared type; names are not in PyFlink. Raises
        TypeError for names on a stream whose fields are not known (call `as_columns` first) and for a declared type
        without fields, ValueError for a field that it lacks.
        """
        has_names = any(isinstance(field, str) for field in field_indexes)
        if has_names or given_columns(self._transformation) is not None:
            return self._project_columns(field_indexes)
        if not field_indexes:
            raise ValueError("project needs the positions or names of fields, e.g. project(0, 2)")
        indexes = tuple(checked_count("a position of project", index, 0) for index in field_indexes)
        declared = self._transformation.output_type
        function = as_function(Projection(indexes), "map", MapFunction)
        projected = None if declared is None else projected_type(declared, indexes)
        return self._operator("Projection", MapOperator("Projection", function), projected)

    def _columns(self) -> RecordColumns:
        """Return the columns of this stream, or those of its declared type. Raises TypeError without such a type."""
        return columns_to_read(self._transformation)

    def _project_columns(self, fields: tuple[int | str, ...]) -> DataStream[Any]:
        from penstock.engine.runtime.columns.operators import PROJECT, ProjectOperator

        columns = self._columns()
        names = columns.names
        kept = columns.only(
            [names[field] if isinstance(field, int) and 0 <= field < len(names) else field for field in fields]
        )
        result = self._operator(PROJECT, ProjectOperator(columns, kept), kept.row_type)
        result._transformation.relation = Project((self._transformation,), kept.names)
        return result

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Assign timestamps and generate watermarks, which replace those from upstream.

        Raises ValueError for a strategy with watermark alignment, because only a source can wait for others, and for
        a field that the declared type of the records does not have.
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"expected a WatermarkStrategy, got {watermark_strategy!r}")
        if watermark_strategy.alignment is not None:
            raise ValueError("watermark alignment lets sources wait for each other: pass the strategy to from_source")
        check_time_field(watermark_strategy, self._transformation.output_type)
        interval_ms = self.environment.get_config().get_auto_watermark_interval()
        strategy = shallow_copy(watermark_strategy)
        on_rows = TimestampsAndWatermarksOperator("Timestamps/Watermarks", strategy, interval_ms)
        columns = given_columns(self._transformation)
        operator = (columns and on_columns(on_rows, columns)) or on_rows
        return self._operator(operator.name, operator, self._transformation.output_type)

    def get_side_output(self, output_tag: OutputTag[R]) -> DataStream[R]:
        """Return the side output of this operator, or of this source, for `output_tag`."""
        check_output_tag(output_tag)
        if not isinstance(self._transformation, DeployedTransformation):
            raise ValueError(
                f"only an operator and a source have side outputs: call it on the stream returned by process() for "
                f"'{output_tag.tag_id}', not on a partitioned stream, a union or a side output"
            )
        return DataStream(
            self.environment,
            SideOutputTransformation(self.environment.next_id(), self._transformation, output_tag),
        )

    # Transformations of several streams.

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Merge this stream with others of the same type. The order between them is not defined.

        Streams of columns (`as_columns`) must have the same columns. Raises TypeError if they differ in names or types.
        """
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise TypeError(f"expected streams for union, got {stream!r}")
            check_one_environment("union", self, stream)
        inputs = [self._transformation, *(stream._transformation for stream in streams)]
        return DataStream(self.environment, UnionOfStreams(self.environment.next_id(), inputs))

    @overload
    def connect(self, ds: BroadcastStream[U]) -> BroadcastConnectedStream[T, U]: ...
    @overload
    def connect(self, ds: DataStream[U]) -> ConnectedStreams[T, U]: ...
    def connect(self, ds: Any) -> ConnectedStreams[T, Any] | BroadcastConnectedStream[T, Any]:
        """Let one function read this stream and `ds`, which may be of another type, with shared state.

        With a BroadcastStream (`broadcast` with descriptors) the function has broadcast state. Raises TypeError if `ds`
        is not a stream.
        """
        from penstock.datastream.broadcast_streams import BroadcastConnectedStream, BroadcastStream
        from penstock.datastream.connected_streams import ConnectedStreams

        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        raise TypeError(f"expected a stream for connect, got {ds!r}")

    def join(self, other_stream: DataStream[U]) -> JoinedStreams[T, U]:
        """Join with another stream by key and window: `join(other).where(f).equal_to(g).window(w).apply(function)`.

        Without `window`, bounded streams are joined as a whole, at their end.
        """
        from penstock.datastream.joined_streams import JoinedStreams

        return JoinedStreams(self, other_stream)

    def left_outer_join(self, other_stream: DataStream[U]) -> JoinedStreams[T, U | None]:
        """Join like `join`, and pair each record of this stream without a partner with None.

        Source: Flink, DataSet.leftOuterJoin.
        """
        return self._outer_join(other_stream, "LEFT_OUTER")

    def right_outer_join(self, other_stream: DataStream[U]) -> JoinedStreams[T | None, U]:
        """Join like `join`, and pair each record of `other_stream` without a partner with None.

        Source: Flink, DataSet.rightOuterJoin.
        """
        return self._outer_join(other_stream, "RIGHT_OUTER")

    def full_outer_join(self, other_stream: DataStream[U]) -> JoinedStreams[T | None, U | None]:
        """Join like `join`, and pair each record of either stream without a partner with None.

        Source: Flink, DataSet.fullOuterJoin.
        """
        return self._outer_join(other_stream, "FULL_OUTER")

    def semi_join(self, other_stream: DataStream[U]) -> SemiJoinedStreams[T, U]:
        """Keep the records that have a partner in another bounded stream: `semi_join(other).where(f).equal_to(g)`.

        Results come when both streams have ended. This is not in Flink's DataStream and DataSet APIs.
        """
        from penstock.datastream.joined_streams import SemiJoinedStreams

        return SemiJoinedStreams(self, other_stream, anti=False)

    def anti_join(self, other_stream: DataStream[U]) -> SemiJoinedStreams[T, U]:
        """Keep the records that have no partner in another bounded stream: `anti_join(other).where(f).equal_to(g)`.

        Results come when both streams have ended. This is not in Flink's DataStream and DataSet APIs.
        """
        from penstock.datastream.joined_streams import SemiJoinedStreams

        return SemiJoinedStreams(self, other_stream, anti=True)

    def co_group(self, other_stream: DataStream[U]) -> CoGroupedStreams[T, U]:
        """Group with another stream by key and window: like `join`, but a call receives all records of both.

        Without `window`, bounded streams are grouped as a whole, at their end.
        """
        from penstock.datastream.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, other_stream)

    # Bounded streams.

    def full_window_partition(self) -> PartitionWindowedStream[T]:
        """Collect all records of each subtask into one window, which ends with the stream.

        On a keyed stream it is all records of each key. Raises ProgramError if the stream is unbounded. Source: Flink
        docs, "Full Window Partition Processing on DataStream"; DataStream.fullWindowPartition.
        """
        from penstock.datastream.partition_windowed_stream import PartitionWindowedStream

        return PartitionWindowedStream(self)

    def distinct(
        self, key: KeySelector[T, Any] | Callable[[T], Any] | str | None = None, *fields: str
    ) -> DataStream[T]:
        """Keep one record of each key, which is one for `key_by`; by default the whole record is the key.

        In STREAMING it is the first to arrive, emitted at once; state holds each key. In BATCH it is the first in time.
        Raises what `key_by` raises. Source: Flink, DataSet.distinct.
        """
        from penstock.datastream.bounded import distinct

        return distinct(self, key, *fields)

    def first(self, count: int) -> DataStream[T]:
        """Keep any `count` records of the stream; on a keyed stream the first `count` of each key.

        The rest of the stream is read, too. Raises ValueError if `count` is negative. Source: Flink, DataSet.first.
        """
        from penstock.datastream.bounded import first

        return first(self, count)

    def sample(self, fraction: float, *, with_replacement: bool = False, seed: int | None = None) -> DataStream[T]:
        """Keep each record with the probability `fraction`, from 0 to 1.

        `with_replacement`: emit each record as often as a Poisson distribution says, on average `fraction` times, which
        may be more than 1. The same `seed`, order and parallelism give the same sample; by default it is drawn in this
        call. Raises ValueError for another `fraction`. Source: Flink, DataSetUtils.sample.
        """
        from penstock.datastream.bounded import sample

        return sample(self, fraction, with_replacement=with_replacement, seed=seed)

    def zip_with_index(self) -> DataStream[tuple[int, T]]:
        """Number the records: emit (index, record), with the indexes 0, 1, 2 and so on, without a gap.

        Those of one subtask follow each other. In STREAMING results wait for the end of the stream. Raises ProgramError
        if it is unbounded. Source: Flink, DataSetUtils.zipWithIndex.
        """
        from penstock.datastream.bounded import zip_with_index

        return zip_with_index(self)

    def cross(self, other_stream: DataStream[U]) -> CrossedStreams[T, U]:
        """Pair each record with each record of a bounded stream: `cross(other).apply(function)`.

        Every subtask holds all of `other_stream` in memory: it should be the smaller one. In STREAMING the records of
        this stream wait for its end. Raises ProgramError if `other_stream` is unbounded. Source: Flink, DataSet.cross.
        """
        from penstock.datastream.bounded import CrossedStreams

        return CrossedStreams(self, other_stream)

    def iterate(self, max_wait_time: TimeLength = 0) -> IterativeStream[T]:
        """Begin an iteration: a stream of these records and of the records that `close_with` feeds back.

        The loop ends when its inputs have ended and no record is in flight in it; with `max_wait_time` (ms, or a
        duration) also when no record has come back for that time since. It needs STREAMING mode. Raises ValueError if
        `max_wait_time` is negative. Source: Flink, DataStream.iterate.
        """
        from penstock.datastream.iterative_stream import IterativeStream

        return IterativeStream(self, max_wait_time)

    def cache(self) -> CachedDataStream[T]:
        """Return the same stream with a cache: the first job that reads it stores its records for later jobs.

        It needs BATCH mode: see CachedDataStream. Source: Flink docs, "Operators", Cache.
        """
        from penstock.datastream.cached_stream import CachedDataStream

        return CachedDataStream(self)

    # Partitioning.

    @overload
    def key_by(
        self, key_selector: KeySelector[T, K] | Callable[[T], K], key_type: TypeInformation | None = None
    ) -> KeyedStream[T, K]: ...
    @overload
    def key_by(
        self, key_selector: str, *fields: str, key_type: TypeInformation | None = None
    ) -> KeyedStream[T, Any]: ...
    def key_by(self, key_selector: Any, *fields: Any, key_type: TypeInformation | None = None) -> KeyedStream[T, Any]:
        """Partition the stream by key: records with equal keys go to the same subtask.

        `key_selector` is a callable or a KeySelector, or the name of a field: `key_by("airport")`. Several names make a
        tuple the key: `key_by("airport", "day")`. Fields are those of a dict, of a Row with field names, or attributes.
        A tuple or list of names is the same: `key_by(("airport", "day"))`. A list or dict as a key is copied and can't
        be changed. Raises ValueError if the declared type of the stream lacks a field. Source: Flink docs,
        "Operators", KeyBy.
        """
        from penstock.datastream.keyed_stream import KeyedStream

        before = self._without_key
        select, key_type = key_of(key_selector, fields, key_type=key_type, record_type=before.output_type)
        return KeyedStream(
            environment=self.environment,
            transformation=PartitionTransformation(self.environment.next_id(), before, HashPartitioner(select)),
            before=before,
            key_selector=select,
            key_type=key_type,
        )

    def as_columns(self, record_type: RowTypeInfo | pyarrow.Schema | type[Any] | None = None) -> DataStream[T]:
        """Convert the records to columns: batches of Arrow, which `map_batches` passes to functions. Not in PyFlink.

        `record_type`: a Types.ROW_NAMED, a dataclass or NamedTuple with type hints, or a pyarrow.Schema; the stream's
        declared type by default. Records are dicts, Rows, tuples or objects with these fields; other fields are left
        out. Operators that need records get them: Rows, dicts for a schema, or objects of the class, as they were
        (`__init__` does not run again).

        Raises TypeError for a type without columns, and for Types.BIG_INT and Types.BIG_DEC: use pyarrow.decimal128 in
        a schema. Columns of Rows keep their kinds, such as DELETE. These records fail the job: one that lacks a field,
        a Row that is not an INSERT in a schema, an object of a subclass, and one with a time that has a zone where the
        column lacks one, or the reverse.
        """
        from penstock.engine.runtime.columns.conversions import TO_COLUMNS, ToColumnsOperator

        columns = columns_of(record_type if record_type is not None else self._transformation.output_type)
        result = self._operator(TO_COLUMNS, ToColumnsOperator(columns), columns.row_type)
        if columns.row_type is not None and columns.row_type == self._transformation.output_type:
            result._transformation.relation = Project((self._transformation,), columns.names)
        return result

    def as_rows(self) -> DataStream[T]:
        """Convert columns to records here, and not where an operator needs them; a stream of records stays as it is."""
        from penstock.engine.runtime.columns.conversions import TO_ROWS, ToRowsOperator

        columns = given_columns(self._transformation)
        if columns is None:
            return self
        result = self._operator(TO_ROWS, ToRowsOperator(columns), described(columns.row_type))
        if columns.row_type is not None and columns.row_type == self._transformation.output_type:
            result._transformation.relation = Project((self._transformation,), columns.names)
        return result

    def map_batches(
        self,
        func: MapBatchesFunction | Callable[[Any], Any],
        batch_format: BatchFormatName = "arrow",
        *,
        output_type: RowTypeInfo | pyarrow.Schema | type[Any] | None = None,
    ) -> DataStream[Any]:
        """Call `func` with the columns of several records at a time, and emit the columns that it returns.

        `batch_format`: what `func` receives and returns. "arrow": a pyarrow.RecordBatch (it may return a Table);
        "pandas": a DataFrame; "numpy": a dict from name to array; "polars": a DataFrame (`penstock-streams[polars]`).
        `output_type`: the columns that it returns, as in `as_columns`; by default those that it receives. A stream of
        records is converted by its declared type, see `as_columns`.

        The dtypes of columns do not depend on nulls: in pandas, nullable integers and booleans, and
        `pandas.ArrowDtype`; in NumPy, masked arrays for numbers and booleans that have nulls. What `func` returns may
        be of another type if each value fits: an int for a float, but not a text for a number. Otherwise, or if `func`
        raises, the job fails: `on_error` of `map` would need a single record to leave out.

        A batch is a chunk: some records at a low rate, up to 32,768 at a high one. In a stream with timestamps and for
        Rows that are not all INSERT, `func` must return a row for each row, in order, and the row keeps its timestamp
        and kind; a frame of pandas must keep its index. To drop rows, use `filter_batches`. This is not in PyFlink.
        """
        from penstock.engine.runtime.columns.operators import MapBatchesOperator

        _check_batch_format(batch_format)
        function = as_function(func, "map_batches", MapBatchesFunction)
        columns = self._columns()
        returned = columns if output_type is None else columns_of(output_type)
        operator = MapBatchesOperator("Map Batches", function, batch_format, received=columns, returned=returned)
        result = self._operator("Map Batches", operator, returned.row_type)
        result._transformation.relation = ColumnFunction((self._transformation,), operator)
        return result

    def filter_batches(
        self,
        func: FilterBatchesFunction | Callable[[Any], Any],
        batch_format: BatchFormatName = "arrow",
        *,
        rejected: OutputTag[T] | None = None,
    ) -> DataStream[T]:
        """Keep the rows for which `func`, called with the columns of several records, returns true.

        It returns a boolean for each row, as an array of Arrow or NumPy or a Series of pandas or Polars; null is false.
        `batch_format`: what it receives, as in `map_batches`. A Series of pandas must keep the index of the frame. Rows
        keep their timestamps. If it raises, the job fails, without `on_error`. This is not in PyFlink.

        `rejected`: the side output that gets the other rows, as columns too, and with their timestamps. Raises
        TypeError if its type has other columns than the stream.
        """
        from penstock.engine.runtime.columns.operators import FilterBatchesOperator

        _check_batch_format(batch_format)
        function = as_function(func, "filter_batches", FilterBatchesFunction)
        columns = self._columns()
        if rejected is not None:
            check_output_tag(rejected)
            check_rejected(rejected, columns)
        operator = FilterBatchesOperator("Filter Batches", function, batch_format, columns=columns, rejected=rejected)
        result = self._operator("Filter Batches", operator, self._transformation.output_type)
        of = (self._transformation,)
        relation = ColumnFunction(of, operator) if rejected is None else ForOperators(of, "it has a side output")
        result._transformation.relation = relation
        return result

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

        With descriptors, return a BroadcastStream: a function that reads it and a connected stream has these broadcast
        states. Raises TypeError if one is not a MapStateDescriptor, ValueError if two have the same name.
        """
        partitioned = self._partition(BroadcastPartitioner())
        if broadcast_state_descriptor is None:
            return partitioned
        from penstock.datastream.broadcast_streams import BroadcastStream

        descriptors = (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(f"expected a MapStateDescriptor for broadcast, got {descriptor!r}")
        return BroadcastStream(partitioned, descriptors)

    def global_(self) -> DataStream[T]:
        """Send all records to the first subtask."""
        return self._partition(GlobalPartitioner())

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream[T]:
        """Send records to the subtask with the index `partitioner(key, number of subtasks)`."""
        select, _ = key_selector_of(key_selector, None, self._without_key.output_type)
        return self._partition(CustomPartitioner(partitioner_of(partitioner), select))

    def partition_by_range(self, key_selector: KeySelector[T, Any] | Callable[[T], Any] | str) -> DataStream[T]:
        """Send records to subtasks by ranges of their keys, which can be compared: the least to the first subtask.

        Ranges come from a sample of 1,000 keys of each subtask, so that subtasks get about the same number of records.
        Records with equal keys go to one subtask. In STREAMING records wait for the end of the stream. Raises
        ProgramError if it is unbounded, ValueError if its type lacks the field. Source: Flink, partitionByRange.
        """
        from penstock.datastream.bounded import partition_by_range

        return partition_by_range(self, key_selector)

    # Non-keyed windows.

    def window_all(self, window_assigner: Any) -> AllWindowedStream[T]:
        """Group all records of the stream into windows, in one subtask."""
        from penstock.datastream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self, window_assigner)

    # Sinks.

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the values to the standard output of the program's process: `identifier:subtask> value`."""
        return DataStreamSink(printed(self.environment, self._transformation, sink_identifier))

    def sink_to(self, sink: Sink[T]) -> DataStreamSink:
        """Write the values to a Sink."""
        if not isinstance(sink, Sink):
            raise TypeError(f"expected a Sink for sink_to, got {sink!r}. Use add_sink for a function")
        return DataStreamSink(written(self.environment, self._transformation, sink))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Call `sink_func`, a callable or a SinkFunction, for each value. A Sink is passed to `sink_to`."""
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

        In pipelined mode values arrive while the job runs, in batched mode after it has succeeded. To end an unbounded
        job, close the iterator or use it in a `with` statement. A job with more values than the program reads, by
        `limit` or by closing the iterator, ends as CANCELED. Source: Flink, DataStream.executeAndCollect.
        """
        if limit is not None:
            limit = checked_count("limit", limit, 0)
        values: CloseableIterator[T] = collected(self.environment, self._transformation, job_execution_name)
        if limit is None:
            return values
        with values:
            return [value for value, _ in zip(values, range(limit), strict=False)]

    def to_data_frame(self, job_execution_name: str | None = None, *, directory: str | None = None) -> DataFrame:
        """Run the job to its end and return its values as a Spark DataFrame, with the columns of the stream's type.

        The fields of Rows, tuples, NamedTuples and dataclasses become columns; other values become a column `f0`. Tasks
        write each value once to Parquet files, and the DataFrame reads the committed files. They are in `directory`, or
        in a temporary folder, which is removed with the process. Raises ProgramError if the stream is unbounded or has
        no type, or `directory` is not empty, and the errors of `execute`. Not in PyFlink.
        """
        from penstock.hosts.spark.frames.written_frame import WrittenFrame, record_of

        unbounded = unbounded_source_of(self._transformation)
        if unbounded is not None:
            raise ProgramError(
                f"to_data_frame: the source '{unbounded}' is unbounded, so the DataFrame would never be complete. "
                "Write a table, for example with FileSink, and read it while the job runs"
            )
        environment = self.environment
        frame = WrittenFrame(self.get_type(), directory, environment._configuration, environment._spark)
        computed = environment.data_frame_of(self._transformation)
        if computed is not None and frame.compute(computed, job_execution_name):
            return frame.read()
        record = record_of(self.get_type())
        records = self if record is None else self.map(record)
        records.sink_to(frame.sink).name("DataFrame")
        environment.execute(job_execution_name)
        return frame.read()

    # Internal to the package.

    def _process(
        self, name: str, function: UserFunction, on_error: OnError, output_type: TypeInformation | None
    ) -> DataStream[Any]:
        """Add the operator of a process function."""
        operator = ProcessOperator(name, guarded(function, checked_on_error(on_error)))
        return self._operator(name, operator, output_type)

    def _outer_join(self, other_stream: DataStream[Any], kind: str) -> JoinedStreams[Any, Any]:
        from penstock.datastream.joined_streams import JoinedStreams
        from penstock.engine.runtime.windows.two_streams import JoinKind

        return JoinedStreams(self, other_stream, JoinKind[kind])

    def _operator(self, name: str, operator: Operator, output_type: TypeInformation | None) -> DataStream[Any]:
        """Add an operator and return its output stream."""
        transformation = OperatorTransformation(
            id=self.environment.next_id(),
            name=name,
            inputs=[self._transformation],
            operator=operator,
            output_type=output_type,
        )
        return DataStream(self.environment, transformation)

    @property
    def _without_key(self) -> Transformation:
        """The stream before a partitioning by key, which another key replaces."""
        return self._transformation

    def _partition(self, partitioner: Partitioner) -> DataStream[T]:
        return DataStream(
            self.environment, PartitionTransformation(self.environment.next_id(), self._transformation, partitioner)
        )


class DataStreamSink(OperatorSettings):
    """The end of a stream."""

    def __init__(self, transformation: Transformation) -> None:
        self._transformation = transformation


def check_one_environment(method: str, first: DataStream[Any], second: DataStream[Any]) -> None:
    """Raise ValueError if the two streams of `method` belong to different environments."""
    if first.environment is not second.environment:
        raise ValueError(
            f"{method} needs streams of one StreamExecutionEnvironment, but these have two. Create both streams with "
            "the same environment"
        )


pyflink_names.resolve_missing_names(__name__)


def _check_batch_format(batch_format: str) -> None:
    """Raise ValueError for an unknown format, and ProgramError for one whose package is missing."""
    if batch_format not in get_args(BatchFormatName):
        formats = ", ".join(map(repr, get_args(BatchFormatName)))
        raise ValueError(f"batch_format must be one of {formats}, got {batch_format!r}")
    if batch_format == "polars":
        package_of(POLARS, "batch_format='polars' needs Polars", "polars")
