"""StreamExecutionEnvironment: holds a program's configuration, creates its sources, and runs it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.api.source import Source
from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration, option_checks, options
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.configuration.configuration_file import default_configuration
from penstock.common.doors import pyflink_names
from penstock.common.errors import PenstockError
from penstock.common.execution_config import ExecutionConfig
from penstock.common.files import cached_files
from penstock.common.functions.driver_only import DriverOnly
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_listener import JobListener, JobListeners
from penstock.common.time import TimeLength
from penstock.common.typeinfo import TypeInformation
from penstock.common.types import Row
from penstock.common.types.declared_rows import row_converter
from penstock.common.types.declared_values import value_converter
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.connectors.socket import SocketTextSource
from penstock.datastream.arguments import check_time_field, described
from penstock.datastream.cached_stream import filling
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.data_frame_parts import ReadParts, parts_read, whole_frame
from penstock.datastream.data_stream import DataStream
from penstock.datastream.iteration_phases import Phase, phases_of
from penstock.datastream.operator_settings import buffer_timeout
from penstock.datastream.program_graph import execution_mode, stream_graph_of
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.frame_parts import PASS
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.plan import Change
from penstock.engine.plan.stream_graph import NOTHING_REPLACED, StreamGraph
from penstock.engine.plan.transformations import SourceTransformation, Transformation
from penstock.service.client.context_environment import context_environment
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.executor_loader import load_executor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connectors.frames.arrow_frame import ArrowFrame
    from penstock.hosts.spark.frames.part_frame import PartFrame

T = TypeVar("T")
_log = logging.getLogger(__name__)


class StreamExecutionEnvironment(DriverOnly):
    """Creates streams and runs the program.

    Settings come from `$PENSTOCK_CONF_DIR/config.yaml`, then from the command line (`penstock run -D key=value`), then
    from `configuration`, then from the methods of this class; later ones take precedence. Keys are Flink's; keys that
    begin with `spark.` are passed to Spark. `executor` runs the jobs; by default it is selected by `execution.target`.
    """

    def __init__(
        self,
        configuration: Configuration | None = None,
        spark: Any = None,
        *,
        executor: PipelineExecutor | None = None,
    ) -> None:
        self._configuration = default_configuration()
        self._configuration.add_all(context_environment().configuration)
        if configuration is not None:
            self.configure(configuration)
        self._executor = executor
        self._spark = spark
        self._listeners = JobListeners()
        self._sinks: list[Transformation] = []
        self._result_sinks: dict[int, ResultSink] = {}
        self._ids = 0
        self._plans_frame = False
        """Whether the next job, which is only planned, is a DataFrame."""
        self._compiled_plan = ""
        self._check_origin: Callable[[Any, bool], None] | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise pyflink_names.missing_method(type(self), name)

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None, spark: Any = None
    ) -> StreamExecutionEnvironment:
        """Return a new environment. `spark`: a running SparkSession, or None to start one when a job runs."""
        return StreamExecutionEnvironment(configuration, spark)

    # Settings.

    def configure(self, configuration: Configuration | Mapping[str, Any]) -> None:
        """Add all settings of `configuration`, which may be a dict. Raises ConfigurationError for a misspelled key."""
        if not isinstance(configuration, Configuration):
            configuration = Configuration.from_dict(configuration)
        option_checks.check_keys(configuration)
        self._configuration.add_all(configuration)

    def get_config(self) -> ExecutionConfig:
        """Return a view of the execution settings."""
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return a view of the checkpoint settings."""
        return CheckpointConfig(self._configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Set the default number of subtasks of operators, like `ExecutionConfig.set_parallelism`."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the default number of subtasks of operators."""
        return self._configuration.get(options.PARALLELISM)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups, the upper bound of the job's parallelism: 1 to 32,768."""
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups, or -1 if it is derived from the parallelism."""
        return self.get_config().get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """Set STREAMING, BATCH (bounded sources only), or AUTOMATIC (BATCH if all sources are bounded)."""
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise TypeError(f"expected a RuntimeExecutionMode, got {execution_mode!r}")
        self._configuration.set(options.RUNTIME_MODE, execution_mode)
        return self

    def set_buffer_timeout(self, timeout_millis: TimeLength) -> StreamExecutionEnvironment:
        """Flush incomplete buffers after this time (ms). 0: after each step. -1: only when full. Default: 5."""
        timeout_ms = buffer_timeout(timeout_millis)
        self._configuration.set(options.BUFFER_TIMEOUT_ENABLED, timeout_ms >= 0)
        if timeout_ms >= 0:
            self._configuration.set(options.BUFFER_TIMEOUT, timeout_ms)
        return self

    def get_buffer_timeout(self) -> int:
        """Return the buffer timeout in ms, or -1 if buffers are flushed only when full."""
        enabled = self._configuration.get(options.BUFFER_TIMEOUT_ENABLED)
        return self._configuration.get(options.BUFFER_TIMEOUT) if enabled else -1

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return True: the maximum parallelism has no influence on chains."""
        return True

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """Disable the chaining of operators."""
        self._configuration.set(options.OPERATOR_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Return whether operators are chained."""
        return self._configuration.get(options.OPERATOR_CHAINING)

    def enable_checkpointing(
        self, interval: TimeLength, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Take a checkpoint every `interval` ms. `mode`: None keeps the configured mode (default: EXACTLY_ONCE)."""
        config = self.get_checkpoint_config()
        config.set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the milliseconds from one checkpoint to the next, or -1 if they are disabled."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return EXACTLY_ONCE or AT_LEAST_ONCE."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        """Return the same as `get_checkpointing_mode`."""
        return self.get_checkpointing_mode()

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints may be unaligned, as `CheckpointConfig` says."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return whether unaligned checkpoints are forced, as `CheckpointConfig` says."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set the default directory of savepoints."""
        self._configuration.set(options.SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the default directory of savepoints."""
        return self._configuration.get(options.SAVEPOINT_DIRECTORY)

    def register_slot_sharing_group(self, slot_sharing_group: Any) -> StreamExecutionEnvironment:
        """Do nothing: Spark assigns the slots."""
        return self

    def add_python_file(self, file_path: str) -> None:
        """Send a module, a folder, or an archive or wheel of modules to the workers, which can import it.

        A folder is on their import path, as in Flink; if it is a package, its parent is as well. Sent modules take
        precedence over installed ones. It adds to the option `python.files`. Raises ValueError for a path with a comma;
        `execute` raises ConfigurationError if the file does not exist.
        """
        self._add_entry(options.PYTHON_FILES, file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Send a zip or tar file to the workers, which extract it in their working directory, to `target_dir`.

        Default: a folder with the archive's name. Functions open its files by relative paths:
        `open("rules.zip/rules.csv")`. It adds to the option `python.archives`. Raises ValueError for a path with a
        comma or `#`; `execute` raises ConfigurationError if the file does not exist. Source: PyFlink's method of this
        name.
        """
        if "#" in archive_path:
            raise ValueError(
                f"an archive's path must not contain '#', which separates it from its target, got {archive_path!r}"
            )
        target = "" if target_dir is None else f"#{target_dir}"
        self._add_entry(options.PYTHON_ARCHIVES, f"{archive_path}{target}")

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Let pip install the requirements in a file on each executor, only for this job.

        `requirements_cache_dir`: a folder of packages, created by `pip download -d DIR -r FILE` for the platform and
        Python version of the executors. It is sent with the job, and pip installs only from it, without a network. It
        sets the option `python.requirements`. Source: PyFlink's method of this name.
        """
        folder = "" if requirements_cache_dir is None else f"#{requirements_cache_dir}"
        self._configuration.set(options.PYTHON_REQUIREMENTS, f"{requirements_file_path}{folder}")

    def register_cached_file(self, file_path: str | os.PathLike[str], name: str, executable: bool = False) -> None:
        """Send a file or folder to the workers. Functions find it by `runtime_context.get_distributed_cache()`.

        `executable`: whether functions may run it as a program. It adds to the option `pipeline.cached-files`. Raises
        TypeError if the name is not a str, ValueError if name or path is empty or the name is in use; `execute` raises
        ConfigurationError if the file does not exist. In PyFlink, Python functions can't find the file. Source: Flink
        docs, "Distributed Cache".
        """
        before = self._configuration.get(options.CACHED_FILES)
        self._configuration.set(
            options.CACHED_FILES, cached_files.with_file(before or "", os.fspath(file_path), name, executable)
        )

    def _add_entry(self, option: ConfigOption[str | None], entry: str) -> None:
        if "," in entry:
            raise ValueError(
                f"a path must not contain a comma, which separates the entries of {option.key}, got {entry!r}"
            )
        before = self._configuration.get(option)
        self._configuration.set(option, f"{before},{entry}" if before else entry)

    def add_jars(self, *jars_path: str) -> None:
        """Log a warning and do nothing. PyFlink needs jars for its connectors; penstock's are Python."""
        _log.warning(
            "add_jars: jobs do not run Java code, so jars have no effect: %s. penstock's connectors are Python "
            "(penstock.datastream.connectors). Add jars for Spark to the setting spark.jars",
            ", ".join(jars_path),
        )

    def set_python_executable(self, python_exec: str) -> None:
        """Log a warning and do nothing. All jobs of a Spark session have one Python: `spark.pyspark.python`."""
        _log.warning(
            "set_python_executable(%r) has no effect: Spark starts the workers, with one Python for all jobs of a "
            "session. Set spark.pyspark.python in the environment's configuration, or PYSPARK_PYTHON",
            python_exec,
        )

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Log a warning and do nothing. The number of threads on one machine is Spark's: `spark.master: local[n]`."""
        _log.warning(
            "set_default_local_parallelism(%r) has no effect: set_parallelism sets the subtasks of operators, "
            "spark.master (local[n]) the threads of a local session",
            parallelism,
        )

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """Log a warning and do nothing. There is no changelog: checkpoints of both backends are incremental."""
        if enabled:
            _log.warning(
                "enable_changelog_state_backend(True) has no effect: checkpoints of both state backends are "
                "incremental, without a changelog"
            )
        return self

    def is_changelog_state_backend_enabled(self) -> bool:
        """Return False: there is no changelog."""
        return False

    def add_classpaths(self, *classpaths: str) -> None:
        """Log a warning and do nothing: see `add_jars`."""
        self.add_jars(*classpaths)

    # Sources.

    def from_source(
        self,
        source: Source[T],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream[T]:
        """Create a stream that reads `source`. `watermark_strategy` applies to each of its splits."""
        if not isinstance(source, Source):
            raise TypeError(f"expected a Source, got {source!r}")
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"expected a WatermarkStrategy, got {watermark_strategy!r}")
        declared = type_info or described(source.get_produced_type())
        check_time_field(watermark_strategy, declared)
        return DataStream(
            self,
            SourceTransformation(
                id=self.next_id(),
                name=source_name,
                source=source,
                strategy=watermark_strategy,
                output_type=declared,
                parallelism=None,
            ),
        )

    def add_source(
        self, source_func: Source[T], source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> DataStream[T]:
        """Create a stream that reads `source_func`, without event time."""
        return self.from_source(source_func, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def create_input(self, input_format: Source[T], type_info: TypeInformation | None = None) -> DataStream[T]:
        """Create a stream of the records of an input format, such as AvroInputFormat, without event time."""
        return self.add_source(input_format, "Input Format", type_info)

    def from_collection(self, collection: Iterable[T], type_info: TypeInformation | None = None) -> DataStream[T]:
        """Create a stream of the values of `collection`, in order, read by one subtask.

        Values are converted to `type_info`: for example, tuples, lists, dicts and objects become Rows if it has rows.
        Raises TypeError or ValueError if a value does not fit. Logs a warning for a dict, a DataFrame or a text, whose
        values are its keys, its columns' names or its characters, as in PyFlink.
        """
        if warning := _unusual_values(collection):
            _log.warning("%s", warning)
        values: Iterable[Any] = collection
        for convert in (row_converter(type_info), value_converter(type_info)):
            values = values if convert is None else map(convert, values)
        stream: DataStream[T] = self.add_source(CollectionSource(list(values)), "Collection Source", type_info)
        return _by_one_subtask(stream, "one subtask reads a collection, to keep its order")

    def from_sequence(self, start: int, end: int) -> DataStream[int]:
        """Create a stream of the integers from `start` to `end`, both included, read in parallel.

        Raises TypeError or ValueError for invalid bounds. In Java: `fromSequence`.
        """
        source = NumberSequenceSource(start, end)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Sequence Source")

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """Create a stream of the lines of a file, or of the files in a directory, each read once and in parallel.

        The method is from PyFlink 1. A FileSource can also monitor for new files and has more formats.
        """
        text = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(text, file_path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source")

    def socket_text_stream(self, host: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream[str]:
        """Create a stream of the text that a server sends, split at `delimiter`, read by one subtask.

        The stream ends when the server closes the connection. If a connection fails, the source makes up to `max_retry`
        further attempts, 500 ms apart (-1: no limit). With checkpoints, text is emitted exactly once, when a checkpoint
        that contains it completes: see SocketTextSource. Raises TypeError or ValueError for invalid arguments. In Java:
        `socketTextStream`.
        """
        source = SocketTextSource(host, port, delimiter, max_retry)
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Socket Stream")
        return _by_one_subtask(stream, "one subtask reads a socket")

    def get_spark_session(self, slots: int | None = None) -> SparkSession:
        """Return the running Spark session, or start one with the settings that jobs need. Not in Flink.

        `slots`: the number of slots that later jobs need; default: the slots of the running session, or four times the
        parallelism in a new one. Raises ConfigurationError if the running session lacks settings that jobs in STREAMING
        mode need, NotEnoughSlotsError if it has fewer slots.
        """
        from penstock.hosts.spark.frames.frame_session import session_for_frames

        return session_for_frames(self._configuration, self._spark, slots)

    def from_data_frame(
        self,
        frame: DataFrame | ArrowFrame,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "DataFrame Source",
        *,
        directory: str | None = None,
    ) -> DataStream[Row]:
        """Create a stream of the rows of a DataFrame, each once, as Rows with its names and types.

        A frame of pandas or Polars, or a table of Arrow, is sent to the workers with the program: see TableSource.
        A batch DataFrame is computed when the first job that reads it starts, and stored in files: see DataFrameSource.
        A streaming DataFrame is computed while the job runs, and the stream is unbounded: see StreamingDataFrameSource.
        `directory` is the place of the files; default: below `execution.checkpointing.dir` if that is set and the mode
        is not BATCH, else a temporary folder. Jobs run in the DataFrame's session unless the environment has one.
        """
        from penstock.connectors.frames.source import TableSource, table_of
        from penstock.datastream.connectors.data_frame import DataFrameSource, StreamingDataFrameSource
        from penstock.hosts.spark.frames.folders import durable_directory
        from penstock.hosts.spark.frames.frame_session import users_session_of

        watermarks = watermark_strategy or WatermarkStrategy.no_watermarks()
        table = table_of(frame)
        if table is not None:
            if directory is not None:
                raise ValueError(f"directory is for DataFrames of Spark, got {directory!r} for a frame in memory")
            return self.from_source(TableSource(table), watermarks, source_name)
        of_spark: Any = frame
        if not hasattr(of_spark, "sparkSession"):
            raise TypeError(f"expected a DataFrame of Spark, pandas or Polars, or a table of Arrow, got {frame!r:.200}")
        source_of = StreamingDataFrameSource if getattr(of_spark, "isStreaming", False) else DataFrameSource
        source = source_of(of_spark, directory or durable_directory(self._configuration), source_name)
        self._spark = self._spark or users_session_of(of_spark)
        return self.from_source(source, watermarks, source_name)

    # Running.

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program to its end. Ctrl-C cancels it.

        Raises ProgramError, ConfigurationError or NotEnoughSlotsError before the job runs, JobError if the job fails.
        """
        client = self.execute_async(job_name)
        try:
            result = client.get_job_execution_result().result()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                client.cancel_for(error)
            self._listeners.executed(None, error)
            if isinstance(error, PenstockError):
                # Without the frames of futures: the message of the error is complete.
                raise error.with_traceback(None) from None
            raise
        self._listeners.executed(result)
        return result

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Start the program and return a JobClient immediately.

        In BATCH mode a program with structured iterations runs as several jobs. This returns when the last one starts.
        """
        try:
            graph, phases, changes = self._job_graph(job_name)
            name = graph.name
            result_sinks, self._result_sinks, self._sinks = self._result_sinks, {}, []
            executor = self._pipeline_executor()
            for number, phase in enumerate(phases, start=1):
                graph = phase.job_graph(f"{name} (phase {number} of {len(phases)})")
                if number < len(phases):
                    earlier = Submission(graph, phase.results, self._configuration, self._spark)
                    self._run_phase(executor.execute(earlier))
            graph.changes[:0] = changes
            graph.compiled_plan, self._compiled_plan = self._compiled_plan, ""
            graph.check_origin, self._check_origin = self._check_origin, None
            # A copy: the job may be started by a thread, while the program configures its next one.
            configuration = Configuration(self._configuration)
            client = executor.execute(Submission(graph, result_sinks, configuration, self._spark))
        except BaseException as error:
            self._listeners.submitted(None, error)
            raise
        self._listeners.submitted(client)
        return client

    def register_job_listener(self, job_listener: JobListener) -> None:
        """Notify `job_listener` of each job of this environment. Raises TypeError if it is not a JobListener.

        In Java: `registerJobListener`.
        """
        self._listeners.add(job_listener)

    def clear_job_listeners(self) -> None:
        """Remove all job listeners. In Java: `clearJobListeners`."""
        self._listeners.clear()

    def get_execution_plan(self) -> str:
        """Return the program as Flink's JSON: nodes with parallelism, predecessors and ship strategies."""
        return json.dumps(self._stream_graph().as_plan(), indent=2)

    def close(self) -> None:
        """Discard the program. A Spark session that penstock has started stays until the process ends."""
        self._sinks.clear()
        self._result_sinks.clear()

    # Internal to the package.

    def next_id(self) -> int:
        """Return the id of a new transformation."""
        self._ids += 1
        return self._ids

    def add_end(self, transformation: Transformation, results: ResultSink | None = None) -> None:
        """Add the end of a stream. `results` receives the values that it sends to the program's process."""
        if results is not None:
            self._result_sinks[transformation.id] = results
        self._sinks.append(transformation)

    @contextmanager
    def separate_job(self) -> Iterator[None]:
        """Run what is added inside as a job of its own: ends of streams that are there are left to `execute`."""
        others = self._sinks, self._result_sinks
        self._sinks, self._result_sinks = [], {}
        try:
            yield
        finally:
            self._sinks, self._result_sinks = others

    def configuration_of_job(self) -> Configuration:
        """Return the configuration that the next job will have."""
        return self._configuration

    def keep_plan(self, compiled_plan: str, check_origin: Callable[[Any, bool], None]) -> None:
        """Let the checkpoints of the next job contain the plan of its SQL statements.

        `check_origin`: see JobGraph.
        """
        self._compiled_plan, self._check_origin = compiled_plan, check_origin

    def data_frame_of(self, stream: Transformation) -> PartFrame | None:
        """Return the DataFrame that is a stream, if a job of this stream alone needs no operator; None otherwise.

        None also if the environment has job listeners.
        """
        if (
            self._sinks
            or not self._listeners.is_empty
            or self._configuration.get(options.RUNTIME_MODE) is RuntimeExecutionMode.STREAMING
        ):
            return None
        part = whole_frame(stream, self._configuration, self._spark)
        if part is not None and not self._pipeline_executor().runs_jobs:
            self._plans_frame = True
            return None
        return part

    def _pipeline_executor(self) -> PipelineExecutor:
        return self._executor or context_environment().executor or load_executor(self._configuration)

    def _stream_graph(self, replaced: Mapping[int, Transformation] = NOTHING_REPLACED) -> StreamGraph:
        return stream_graph_of(self._sinks, self._configuration, self.get_buffer_timeout(), replaced)

    def _run_phase(self, client: JobClient) -> None:
        """Wait for a job that others follow."""
        try:
            client.get_job_execution_result().result()
        except KeyboardInterrupt as error:
            client.cancel_for(error)
            raise

    def _job_graph(self, job_name: str | None) -> tuple[JobGraph, list[Phase], Sequence[Change]]:
        """Return the job of the program, or its last one and the phases that it runs as, this one included.

        The third: what to tell about its parts that run as DataFrames.
        """
        graph = self._stream_graph()
        mode = execution_mode(graph, self._configuration)
        if graph.unfilled:
            for cache in graph.unfilled:
                sink, results = filling(cache, self.next_id, mode)
                self._sinks.append(sink)
                self._result_sinks[sink.id] = results
            graph = self._stream_graph()
        parts = ReadParts()
        if mode.blocking_exchanges:
            parts = parts_read(self._sinks, self._configuration, self._spark, self.next_id)
        if parts.streams:
            graph = self._stream_graph(parts.streams)
        changes = list(parts.changes)
        if self._plans_frame:
            changes.append(Change(PASS, "the DataFrame is the result: no operator runs"))
            self._plans_frame = False
        name = job_name or self._configuration.get(options.PIPELINE_NAME) or "penstock job"
        phases = phases_of(graph, self.next_id) if mode.blocking_exchanges else []
        # All, so that an error in a later one comes before the first one runs.
        jobs = [phase.job_graph(name) for phase in phases]
        return (jobs[-1] if jobs else JobGraph(name, graph, mode)), phases, changes


def _unusual_values(collection: Iterable[Any]) -> str:
    """Return a warning if iterating over this object yields what few programs want, otherwise an empty text."""
    if isinstance(collection, (str, bytes)):
        what, instead = "its characters" if isinstance(collection, str) else "its bytes", "[text]"
    elif isinstance(collection, Mapping):
        what, instead = "its keys", "[the_dict] for one record, or list(the_dict.items())"
    elif hasattr(collection, "columns") and hasattr(collection, "to_dict"):
        what, instead = "the names of its columns", 'frame.to_dict("records") for a dict per row'
    else:
        return ""
    return f"from_collection emits {what}, since it got a {type(collection).__name__}: pass {instead}"


def _by_one_subtask(stream: DataStream[T], reason: str) -> DataStream[T]:
    stream._transformation.parallelism = 1
    stream._transformation.parallelism_fixed = reason
    return stream


pyflink_names.resolve_missing_names(__name__)
