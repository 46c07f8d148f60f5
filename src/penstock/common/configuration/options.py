"""The options of penstock, with Flink's keys and defaults.

One default differs: `execution.buffer-timeout.interval` is 5 ms, because Flink's 100 ms would dominate the latency of
an exchange. Durations are read as ints of milliseconds. Source: Flink docs, "Configuration".
"""

from __future__ import annotations

from typing import Any, Final

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import (
    BooleanType,
    DurationType,
    EnumType,
    IntegerType,
    MapType,
    MemorySizeType,
    TextType,
)
from penstock.common.configuration import (
    Configuration,
    autoscaler_options,
    high_availability_options,
    rest_options,
    restart_options,
    scheduler_options,
)
from penstock.common.configuration.choices import (
    CheckpointingMode,
    ClosureCleanerLevel,
    ExternalizedCheckpointRetention,
    LogLevel,
    PriorityQueueStateType,
    RuntimeExecutionMode,
    SparkTransport,
)

# The program

PARALLELISM = option("parallelism.default", IntegerType(least=1), 1)
"""Number of subtasks of each operator that does not set its own."""

MAX_PARALLELISM = option("pipeline.max-parallelism", IntegerType(least=1), None)
"""Number of key groups. Not set: derived from the parallelism, at least 128."""

PIPELINE_NAME = option("pipeline.name", TextType(), None)
"""Name of the job. Not set: the name given to `execute`."""

AUTO_WATERMARK_INTERVAL = option("pipeline.auto-watermark-interval", DurationType(), 200)
"""Interval at which watermark generators emit watermarks."""

OPERATOR_CHAINING = option(
    "pipeline.operator-chaining.enabled", BooleanType(), True, fallback_keys=("pipeline.operator-chaining",)
)
"""Whether operators without an exchange between them run in one task."""

LOCAL_AGGREGATION = option("penstock.columns.local-aggregation", BooleanType(), True)
"""Whether windows of columns aggregate before the exchange as well, which sends a partial for each key."""

AUTOMATIC_COLUMNS = option("penstock.columns.automatic", BooleanType(), True)
"""Whether windows that aggregate fields of rows run on columns where these have declared types: see `explain`."""

BATCH_DATA_FRAMES = option("penstock.batch.data-frames", BooleanType(), True)
"""Whether joins, sorts, aggregates and the like of DataFrames run as DataFrames in BATCH mode: see `explain`."""

CHAIN_DIFFERENT_MAX_PARALLELISM = option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", BooleanType(), True
)
"""Whether operators with different maximum parallelism are chained."""

AUTO_GENERATE_UIDS = option("pipeline.auto-generate-uids", BooleanType(), True)
"""Whether operators may be without a uid; false: the job is refused."""

GENERIC_TYPES = option("pipeline.generic-types", BooleanType(), True)
"""Whether values without a declared type may be pickled."""

OBJECT_REUSE = option("pipeline.object-reuse", BooleanType(), False)
"""Whether chained operators share values. By default, mutable values are copied."""

GLOBAL_JOB_PARAMETERS = option("pipeline.global-job-parameters", MapType(), {})
"""Parameters that functions read with `get_job_parameter`."""


# Functions and values in Java. If they are set, penstock reports and ignores them, because all values are Python's.

CLOSURE_CLEANER_LEVEL = option(
    "pipeline.closure-cleaner-level", EnumType(ClosureCleanerLevel), ClosureCleanerLevel.RECURSIVE
)
"""Which fields of functions Flink clears. No effect: cloudpickle sends only what a function uses."""

FORCE_KRYO = option("pipeline.force-kryo", BooleanType(), False)
"""Whether Flink serializes POJOs with Kryo. No effect: values are pickled."""

FORCE_AVRO = option("pipeline.force-avro", BooleanType(), False)
"""Whether Flink serializes POJOs with Avro. No effect: values are pickled."""


# What travels with the program

PYTHON_FILES = option("python.files", TextType(), None)
"""Modules, folders, and archives or wheels of modules, separated by commas. They are sent to the workers, where they
can be imported. `env.add_python_file` adds to the list."""

PYTHON_ARCHIVES = option("python.archives", TextType(), None)
"""Archives, separated by commas, that are extracted in the working directory of the workers. Each gets a folder with
its own name, or TARGET if it is written ARCHIVE#TARGET. `env.add_python_archive` adds to the list."""

PYTHON_REQUIREMENTS = option("python.requirements", TextType(), None)
"""A file of requirements that workers install with pip. FILE#FOLDER: pip uses only the packages in that folder, which
is sent with the job. `env.set_python_requirements` sets this option."""

CACHED_FILES = option("pipeline.cached-files", TextType(), None)
"""Named files and folders that are sent with the job for its functions: `env.register_cached_file`. Written as in
Flink: `name:rules,path:'/data/rules.csv'`; separate several by `;`."""


# Execution

TARGET = option("execution.target", TextType(), "local")
"""Name of the executor that runs the jobs of a program."""

RUNTIME_MODE = option("execution.runtime-mode", EnumType(RuntimeExecutionMode), RuntimeExecutionMode.STREAMING)
"""AUTOMATIC: BATCH if all sources are bounded, else STREAMING."""

SORTED_INPUTS_MEMORY = option("execution.sorted-inputs.memory", MemorySizeType(), 128 << 20)
"""Estimated size up to which a task sorts its input in memory in BATCH. Larger inputs are sorted on local disk."""

BUFFER_TIMEOUT_ENABLED = option("execution.buffer-timeout.enabled", BooleanType(), True)
"""Whether a buffer is sent after the interval; false: it is sent only when it is full."""

BUFFER_TIMEOUT = option(
    "execution.buffer-timeout.interval", DurationType(), 5, fallback_keys=("execution.buffer-timeout",)
)
"""Longest time until a buffer is sent. 0: a buffer leaves after each record."""

DEBLOAT_ENABLED = option("taskmanager.network.memory.buffer-debloat.enabled", BooleanType(), True)
"""Whether the data in flight between tasks is limited by the time to process it, in addition to the size of Spark's
buffers. Flink's default is false."""

DEBLOAT_TARGET = option("taskmanager.network.memory.buffer-debloat.target", DurationType(), 1_000)
"""Time in which the data in flight should be processed, for all exchanges on the way of a record together (Flink: for
each)."""

HEARTBEAT_INTERVAL = option("heartbeat.interval", DurationType(least_ms=1), 10_000)
"""Interval at which workers report that they are alive."""

HEARTBEAT_TIMEOUT = option("heartbeat.timeout", DurationType(least_ms=1), 50_000)
"""A worker without a heartbeat for this time counts as lost."""

TASK_CANCELLATION_INTERVAL = option(
    "task.cancellation.interval", DurationType(), 30_000, fallback_keys=("task.cancellation-interval",)
)
"""Interval at which the cancellation of a task is repeated."""

TASK_CANCELLATION_TIMEOUT = option("task.cancellation.timeout", DurationType(), 180_000)
"""Time after which workers with tasks still running are killed. 0: never."""

LATENCY_INTERVAL = option("metrics.latency.interval", DurationType(), 0)
"""Interval at which sources send latency markers. 0: never."""

TASK_SLOTS = option("taskmanager.numberOfTaskSlots", IntegerType(least=1), None)
"""Number of slots of a level that share a worker process in streaming mode. By default, each slot has its own process;
on a local master with more slots per level than 16 or the number of cores, the slots share that many processes. Slots
of a structured iteration share as many processes as there are cores, because they wait for each other."""

MANAGED_MEMORY_SIZE = option("taskmanager.memory.managed.size", MemorySizeType(), None)
"""Memory of each worker process for state of columns, their caches in front of RocksDB, and the sorters of BATCH. Slots
that share a process have equal parts. Sorters and caches that need more use local disk; other state fails the job. Not
set: state may grow as long as the machine or container has memory (Flink: a fraction of the process's memory)."""

RECORD_SIZE_MAX = option("penstock.network.max-record-size", MemorySizeType(), 64 << 20)
"""Largest size of a pickled record. A larger record fails the job when it leaves its task, because Spark's JVM would
allocate nine times its size, and keep that memory."""

SHARED_MEMORY_SIZE = option("penstock.network.shared-memory.size", MemorySizeType(), 8 << 20)
"""Memory of each worker process in which it passes large rows on to workers on the same machine in streaming mode, at a
fraction of the cost of Spark's JVM. Reserved with the first large row. At least 64 kb, or 0: all rows travel through
Spark."""

SHARED_MEMORY_DIRECTORY = option("penstock.network.shared-memory.directory", TextType(), None)
"""Directory of that memory, an absolute path. By default `/dev/shm`, or the system's temporary directory if there is
too little room."""

SLOT_REQUEST_TIMEOUT = option("slot.request.timeout", DurationType(), 300_000)
"""How long a job on a cluster waits for slots when it starts or restarts. Executors register some time after the
request, and a lost one may be replaced."""


# Checkpoints

CHECKPOINT_INTERVAL = option("execution.checkpointing.interval", DurationType(), None)
"""Interval of checkpoints. Not set, or 0: no checkpoints."""

CHECKPOINTING_MODE = option("execution.checkpointing.mode", EnumType(CheckpointingMode), CheckpointingMode.EXACTLY_ONCE)
"""AT_LEAST_ONCE: barriers are not aligned; after a failure records may be processed twice."""

CHECKPOINT_TIMEOUT = option("execution.checkpointing.timeout", DurationType(least_ms=1), 600_000)
"""A checkpoint that is not complete after this time is aborted."""

CHECKPOINT_MIN_PAUSE = option("execution.checkpointing.min-pause", DurationType(), 0)
"""Shortest time from the end of a checkpoint to the start of the next. Above 0, one checkpoint runs at a time."""

MAX_CONCURRENT_CHECKPOINTS = option("execution.checkpointing.max-concurrent-checkpoints", IntegerType(least=1), 1)
"""How many checkpoints may run at the same time."""

CHECKPOINT_EACH_SUPERSTEP = option("penstock.checkpointing.each-superstep", BooleanType(), False)
"""Whether supersteps of iterations over bounded streams wait for checkpoints, so that each has one: a restart then
repeats at most one superstep that was complete."""

TOLERABLE_FAILED_CHECKPOINTS = option("execution.checkpointing.tolerable-failed-checkpoints", IntegerType(least=0), 0)
"""How many checkpoints in a row may fail without failing the job."""

RETAINED_CHECKPOINTS = option(
    "execution.checkpointing.num-retained", IntegerType(least=1), 1, fallback_keys=("state.checkpoints.num-retained",)
)
"""How many completed checkpoints are kept."""

CHECKPOINT_RETENTION = option(
    "execution.checkpointing.externalized-checkpoint-retention",
    EnumType(ExternalizedCheckpointRetention),
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
)
"""Whether checkpoints are retained when the job is canceled. A failed job always retains its checkpoints."""

UNALIGNED_CHECKPOINTS = option(
    "execution.checkpointing.unaligned.enabled",
    BooleanType(),
    False,
    fallback_keys=("execution.checkpointing.unaligned",),
)
"""Whether barriers overtake records."""

FORCE_UNALIGNED_CHECKPOINTS = option("execution.checkpointing.unaligned.forced", BooleanType(), False)
"""Whether barriers overtake records even where order matters."""

ALIGNED_CHECKPOINT_TIMEOUT = option(
    "execution.checkpointing.aligned-checkpoint-timeout",
    DurationType(),
    0,
    fallback_keys=("execution.checkpointing.alignment-timeout",),
)
"""Age at which a checkpoint whose barriers still wait for alignment becomes unaligned."""

ALIGNMENT_MEMORY = option("task.checkpoint.alignment.max-memory", MemorySizeType(), 64 << 20)
"""Memory for the buffers that barrier alignment holds back. Further buffers are written to local disk."""

ALIGNMENT_MAX_SIZE = option("task.checkpoint.alignment.max-size", MemorySizeType(), 4 << 30)
"""A task declines a checkpoint whose alignment would hold back more than this."""

SNAPSHOT_COMPRESSION = option("execution.checkpointing.snapshot-compression", BooleanType(), False)
"""Whether snapshots are compressed."""

CHECKPOINT_DIRECTORY = option(
    "execution.checkpointing.dir",
    TextType(),
    None,
    fallback_keys=("state.checkpoints.dir", "state.backend.fs.checkpointdir"),
)
"""A path or URL that driver and executors can reach. Not set: a temporary directory on a local master."""

SAVEPOINT_DIRECTORY = option(
    "execution.checkpointing.savepoint-dir",
    TextType(),
    None,
    fallback_keys=("state.savepoints.dir", "savepoints.state.backend.fs.dir"),
)
"""Directory of savepoints, unless the command names one."""

STATE_RECOVERY_PATH = option(
    "execution.state-recovery.path", TextType(), None, fallback_keys=("execution.savepoint.path",)
)
"""The checkpoint or savepoint from which the job starts: a path, or `latest`, the newest of a job of this name."""

IGNORE_UNCLAIMED_STATE = option(
    "execution.state-recovery.ignore-unclaimed-state",
    BooleanType(),
    False,
    fallback_keys=("execution.savepoint.ignore-unclaimed-state",),
)
"""Whether the state of operators that the program does not have is ignored."""

ALLOW_DUPLICATES = option("execution.state-recovery.allow-duplicates", BooleanType(), False)
"""Whether a job whose newest checkpoint is damaged starts from the one before, although sinks write the output
committed since then a second time. A job in AT_LEAST_ONCE mode always does."""


# Keyed state

STATE_BACKEND = option("state.backend.type", TextType(), "hashmap", fallback_keys=("state.backend",))
"""hashmap: Python objects in memory. rocksdb: on local disk, for state larger than memory. postgres: in a PostgreSQL
database, where each checkpoint is a version. redis: in a Redis server, with a write-ahead log."""

ROCKSDB_DIRECTORY = option("state.backend.rocksdb.localdir", TextType(), None)
"""Directory on the workers. Not set: the system's temporary directory."""

ROCKSDB_MEMORY = option("state.backend.rocksdb.memory.fixed-per-slot", MemorySizeType(), 64 << 20)
"""Buffers and cache of RocksDB for each subtask of an operator with keyed state (Flink: for all in a slot)."""

ROCKSDB_CACHED_ENTRIES = option("state.backend.rocksdb.cached-entries", IntegerType(least=0), 50_000)
"""Number of changed entries of a state that are held in memory before they are written to RocksDB."""

ROCKSDB_TIMERS = option(
    "state.backend.rocksdb.timer-service.factory", EnumType(PriorityQueueStateType), PriorityQueueStateType.ROCKSDB
)
"""Where timers are. ROCKSDB: in RocksDB. HEAP: in memory, which is faster if they fit."""

POSTGRES_URL = option("state.backend.postgres.url", TextType(), None)
"""The database: postgresql://host:5432/database. Workers and the driver connect to it."""

POSTGRES_USER = option("state.backend.postgres.user", TextType(), None)
"""The user that connects. Not set: taken from the URL or the environment of the processes."""

POSTGRES_PASSWORD = option("state.backend.postgres.password", TextType(), None)
"""The user's password. Not set: taken from the environment or a password file of the processes."""

POSTGRES_CACHED_ENTRIES = option("state.backend.postgres.cached-entries", IntegerType(least=0), 50_000)
"""Number of changed entries of a state that are held in memory before they are written to PostgreSQL. The cache of an
operator holds up to twice as many recently used entries."""

REDIS_URL = option("state.backend.redis.url", TextType(), None)
"""The server: redis://host:6379/0. Workers and the driver connect to it."""

REDIS_USER = option("state.backend.redis.user", TextType(), None)
"""The user that connects."""

REDIS_PASSWORD = option("state.backend.redis.password", TextType(), None)
"""The user's password."""

REDIS_CACHED_ENTRIES = option("state.backend.redis.cached-entries", IntegerType(least=0), 50_000)
"""Number of changed entries of a state that are held as Python objects. Further entries wait for their checkpoint as
bytes. The cache of an operator holds up to twice as many recently used entries."""


# Logs, errors and traces

LOG_DIRECTORY = option("env.log.dir", TextType(), None)
"""Directory in which each job has a folder of logs. Not set: below the user's cache directory."""

LOG_LEVEL = option("env.log.level", EnumType(LogLevel), LogLevel.INFO)
"""Level of the logs of functions and penstock. For Spark's JVM: `spark.log.level`, WARN by default."""

LOG_MAX = option("env.log.max", IntegerType(least=1), 10)
"""Number of old files that are kept of each log."""

LOG_MAX_SIZE = option("env.log.max-size", MemorySizeType(), 1 << 20)
"""Size at which a log becomes an old file, and a new one begins."""

LOG_RETAINED_JOBS = option("env.log.retained-jobs", IntegerType(least=0), 20)
"""Number of log folders of ended jobs that are kept. Older ones are removed when a job starts."""

SHOW_SPARK_STACK = option("penstock.errors.show-spark-stack", BooleanType(), False)
"""Whether the error of a failed job includes Spark's stack trace below the user's traceback."""

TRACE_REPORTERS = option("traces.reporters", TextType(), "")
"""otel: each checkpoint and each start of the tasks of a job is sent as an OpenTelemetry span."""

OTEL_ENDPOINT = option("traces.reporter.otel.exporter.endpoint", TextType(), "http://127.0.0.1:4318")
"""Address of the collector to which spans are sent by OTLP over HTTP, without /v1/traces."""

OTEL_SERVICE_NAME = option("traces.reporter.otel.service.name", TextType(), "penstock")
"""The attribute service.name of the spans."""


# Spark

KEEP_SESSION = option("penstock.spark.keep-session", BooleanType(), None)
"""Whether Spark's JVM on this machine is kept for ten minutes, so that the next program starts in one or two seconds:
`penstock run --keep-session`, or `--no-keep-session`. PENSTOCK_KEEP_SESSION=true or false in the environment does the
same. Default: true for programs at a terminal and in notebooks, on Linux."""

SPARK_TRANSPORT = option("penstock.spark.transport", EnumType(SparkTransport), SparkTransport.PIPES)
"""pipes: tasks read and write the pipes of their workers directly. iterators: PySpark does it for them, which is slower
but uses only its public interface."""

SPARK_START_TIMEOUT = option("penstock.spark.start-timeout", DurationType(), 120_000)
"""Longest time for the start of Spark's JVM, or of a Spark context in it. After that time the JVM is ended, and the
restart that needs it fails. There is no limit while the JVM fetches packages or waits for resources of YARN or
Kubernetes."""

_GROUPS = (rest_options, restart_options, autoscaler_options, scheduler_options, high_availability_options)
"""Modules with the options of one subject."""

ALL_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = tuple(
    option
    for group in (globals(), *map(vars, _GROUPS))
    for option in list(group.values())
    if isinstance(option, ConfigOption)
)


def checkpoint_interval_ms(configuration: Configuration) -> int | None:
    """Return the milliseconds from the start of one checkpoint to the start of the next, or None without checkpoints.

    An interval of 0 means no checkpoints, as in Flink: CheckpointConfig.isCheckpointingEnabled.
    """
    return configuration.get(CHECKPOINT_INTERVAL) or None
