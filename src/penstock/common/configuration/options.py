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
"""Subtasks of each operator that does not set its own number."""

MAX_PARALLELISM = option("pipeline.max-parallelism", IntegerType(least=1), None)
"""The number of key groups. Not set: derived from the parallelism, at least 128."""

PIPELINE_NAME = option("pipeline.name", TextType(), None)
"""Name of the job. Not set: the one that `execute` is given."""

AUTO_WATERMARK_INTERVAL = option("pipeline.auto-watermark-interval", DurationType(), 200)
"""How often watermark generators are asked for a watermark."""

OPERATOR_CHAINING = option("pipeline.operator-chaining.enabled", BooleanType(), True, "pipeline.operator-chaining")
"""Whether operators without an exchange between them run in one task."""

CHAIN_DIFFERENT_MAX_PARALLELISM = option(
    "pipeline.operator-chaining.chain-operators-with-different-max-parallelism", BooleanType(), True
)
"""Whether operators with different maximum parallelism are chained."""

AUTO_GENERATE_UIDS = option("pipeline.auto-generate-uids", BooleanType(), True)
"""false: a job with an operator without a uid is refused."""

GENERIC_TYPES = option("pipeline.generic-types", BooleanType(), True)
"""Whether values without a declared type may be pickled."""

OBJECT_REUSE = option("pipeline.object-reuse", BooleanType(), False)
"""Whether chained operators pass values on as they are. By default, what can be changed is copied."""

GLOBAL_JOB_PARAMETERS = option("pipeline.global-job-parameters", MapType(), {})
"""What functions read with `get_job_parameter`."""


# Functions and values in Java: known, and reported when they are set; they have no effect, as all values are Python's

CLOSURE_CLEANER_LEVEL = option(
    "pipeline.closure-cleaner-level", EnumType(ClosureCleanerLevel), ClosureCleanerLevel.RECURSIVE
)
"""Which fields of functions Flink empties. No effect: cloudpickle takes along what is used."""

FORCE_KRYO = option("pipeline.force-kryo", BooleanType(), False)
"""Whether Flink serializes POJOs by Kryo. No effect: values are pickled."""

FORCE_AVRO = option("pipeline.force-avro", BooleanType(), False)
"""Whether Flink serializes POJOs by Avro. No effect: values are pickled."""


# What travels with the program

PYTHON_FILES = option("python.files", TextType(), None)
"""Modules, folders, and archives or wheels of modules, separated by commas: they are sent to the workers, which can
import them. env.add_python_file adds to it."""

PYTHON_ARCHIVES = option("python.archives", TextType(), None)
"""Archives, separated by commas, that are extracted in the workers' working directory, each to a folder of its own
name, or to TARGET if it is written ARCHIVE#TARGET. env.add_python_archive adds to it."""

PYTHON_REQUIREMENTS = option("python.requirements", TextType(), None)
"""A file of requirements that workers install by pip; FILE#FOLDER: from the packages in that folder, which is sent
along, and from nowhere else. env.set_python_requirements sets it."""

CACHED_FILES = option("pipeline.cached-files", TextType(), None)
"""Files and folders that travel with the job, for functions, by names: `env.register_cached_file`. As Flink writes it:
`name:rules,path:'/data/rules.csv'`; several are separated by `;`."""


# Execution

TARGET = option("execution.target", TextType(), "local")
"""Name of the executor that runs the jobs of a program."""

RUNTIME_MODE = option("execution.runtime-mode", EnumType(RuntimeExecutionMode), RuntimeExecutionMode.STREAMING)
"""AUTOMATIC: BATCH if all sources are bounded, else STREAMING."""

SORTED_INPUTS_MEMORY = option("execution.sorted-inputs.memory", MemorySizeType(), 128 << 20)
"""In BATCH: what each task sorts in memory, by estimate; beyond it, sorted runs go to local disk."""

BUFFER_TIMEOUT_ENABLED = option("execution.buffer-timeout.enabled", BooleanType(), True)
"""false: a buffer leaves only when it is full."""

BUFFER_TIMEOUT = option("execution.buffer-timeout.interval", DurationType(), 5, "execution.buffer-timeout")
"""0: a buffer leaves after each record."""

DEBLOAT_ENABLED = option("taskmanager.network.memory.buffer-debloat.enabled", BooleanType(), True)
"""Whether what is in flight between tasks is bounded by the time it takes to process, and not only by the size of
Spark's buffers. Flink's default is false."""

DEBLOAT_TARGET = option("taskmanager.network.memory.buffer-debloat.target", DurationType(), 1_000)
"""How long what is in flight should take to process. For all exchanges that a record passes (Flink: for each)."""

HEARTBEAT_INTERVAL = option("heartbeat.interval", DurationType(least_ms=1), 10_000)
"""How often workers report that they are alive."""

HEARTBEAT_TIMEOUT = option("heartbeat.timeout", DurationType(least_ms=1), 50_000)
"""A worker that was silent for this time counts as lost."""

TASK_CANCELLATION_INTERVAL = option("task.cancellation.interval", DurationType(), 30_000, "task.cancellation-interval")
"""How often a task that does not end is asked again."""

TASK_CANCELLATION_TIMEOUT = option("task.cancellation.timeout", DurationType(), 180_000)
"""Time after which workers with tasks still running are killed. 0: never."""

LATENCY_INTERVAL = option("metrics.latency.interval", DurationType(), 0)
"""Interval at which sources send latency markers. 0: never."""

TASK_SLOTS = option("taskmanager.numberOfTaskSlots", IntegerType(least=1), None)
"""How many slots of a level share a worker process in streaming mode. By default a slot has a process of its own; on a
local master with more slots than 16, or cores, per level, the slots share that many processes."""

RECORD_SIZE_MAX = option("penstock.network.max-record-size", MemorySizeType(), 64 << 20)
"""A record that is larger when it is pickled fails the job where it leaves its task: Spark's JVM would take nine times
its size, and keep that."""

SLOT_REQUEST_TIMEOUT = option("slot.request.timeout", DurationType(), 300_000)
"""How long a job on a cluster waits for slots, when it is submitted and when it restarts: executors register some time
after they are asked for, and a lost one may be replaced."""


# Checkpoints

CHECKPOINT_INTERVAL = option("execution.checkpointing.interval", DurationType(), None)
"""Not set, or 0: no checkpoints."""

CHECKPOINTING_MODE = option("execution.checkpointing.mode", EnumType(CheckpointingMode), CheckpointingMode.EXACTLY_ONCE)
"""AT_LEAST_ONCE: barriers are not aligned; after a failure records may be processed twice."""

CHECKPOINT_TIMEOUT = option("execution.checkpointing.timeout", DurationType(least_ms=1), 600_000)
"""A checkpoint that is not complete after this time is aborted."""

CHECKPOINT_MIN_PAUSE = option("execution.checkpointing.min-pause", DurationType(), 0)
"""The least time from the end of a checkpoint to the start of the next one. Above 0 there is one at a time."""

MAX_CONCURRENT_CHECKPOINTS = option("execution.checkpointing.max-concurrent-checkpoints", IntegerType(least=1), 1)
"""How many checkpoints may be under way at once."""

TOLERABLE_FAILED_CHECKPOINTS = option("execution.checkpointing.tolerable-failed-checkpoints", IntegerType(least=0), 0)
"""How many checkpoints in a row may fail without failing the job."""

RETAINED_CHECKPOINTS = option(
    "execution.checkpointing.num-retained", IntegerType(least=1), 1, "state.checkpoints.num-retained"
)
"""How many completed checkpoints are kept."""

CHECKPOINT_RETENTION = option(
    "execution.checkpointing.externalized-checkpoint-retention",
    EnumType(ExternalizedCheckpointRetention),
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
)
"""Whether checkpoints stay when the job is cancelled. They always do when it fails."""

UNALIGNED_CHECKPOINTS = option(
    "execution.checkpointing.unaligned.enabled", BooleanType(), False, "execution.checkpointing.unaligned"
)
"""Whether barriers overtake records."""

FORCE_UNALIGNED_CHECKPOINTS = option("execution.checkpointing.unaligned.forced", BooleanType(), False)
"""Whether barriers overtake records even where order matters."""

ALIGNED_CHECKPOINT_TIMEOUT = option(
    "execution.checkpointing.aligned-checkpoint-timeout", DurationType(), 0, "execution.checkpointing.alignment-timeout"
)
"""The age at which a checkpoint becomes unaligned where its barriers still wait."""

ALIGNMENT_MEMORY = option("task.checkpoint.alignment.max-memory", MemorySizeType(), 64 << 20)
"""Buffers held back by barrier alignment beyond this size are written to local disk."""

ALIGNMENT_MAX_SIZE = option("task.checkpoint.alignment.max-size", MemorySizeType(), 4 << 30)
"""A task declines a checkpoint whose alignment would hold back more than this."""

SNAPSHOT_COMPRESSION = option("execution.checkpointing.snapshot-compression", BooleanType(), False)
"""Whether snapshots are compressed."""

CHECKPOINT_DIRECTORY = option(
    "execution.checkpointing.dir", TextType(), None, "state.checkpoints.dir", "state.backend.fs.checkpointdir"
)
"""A path or URL that driver and executors see. Not set: on a local master a temporary directory."""

SAVEPOINT_DIRECTORY = option(
    "execution.checkpointing.savepoint-dir", TextType(), None, "state.savepoints.dir", "savepoints.state.backend.fs.dir"
)
"""Where savepoints go if the command names no directory."""

STATE_RECOVERY_PATH = option("execution.state-recovery.path", TextType(), None, "execution.savepoint.path")
"""The checkpoint from which the job starts: a path, or `latest`, the newest of a job of this name."""

IGNORE_UNCLAIMED_STATE = option(
    "execution.state-recovery.ignore-unclaimed-state",
    BooleanType(),
    False,
    "execution.savepoint.ignore-unclaimed-state",
)
"""Whether state of operators that the program does not have is ignored."""

ALLOW_DUPLICATES = option("execution.state-recovery.allow-duplicates", BooleanType(), False)
"""Whether a job whose newest checkpoint is damaged starts from the one before, though sinks have committed output
since, which is then written a second time. In AT_LEAST_ONCE mode it always does."""


# Keyed state

STATE_BACKEND = option("state.backend.type", TextType(), "hashmap", "state.backend")
"""hashmap: Python objects in memory. rocksdb: on local disk, for state larger than memory. postgres: in a PostgreSQL
database, where each checkpoint is a version of it. redis: in a Redis server, behind a log."""

ROCKSDB_DIRECTORY = option("state.backend.rocksdb.localdir", TextType(), None)
"""On the workers; not set: the system's temporary directory."""

ROCKSDB_MEMORY = option("state.backend.rocksdb.memory.fixed-per-slot", MemorySizeType(), 64 << 20)
"""Buffers and cache of RocksDB, for each subtask of an operator with keyed state (Flink: for all in a slot)."""

ROCKSDB_CACHED_ENTRIES = option("state.backend.rocksdb.cached-entries", IntegerType(least=0), 50_000)
"""Number of changed entries of a state held in memory before they are written to RocksDB."""

ROCKSDB_TIMERS = option(
    "state.backend.rocksdb.timer-service.factory", EnumType(PriorityQueueStateType), PriorityQueueStateType.ROCKSDB
)
"""ROCKSDB: timers are in RocksDB. HEAP: in memory, which is quicker if they fit."""

POSTGRES_URL = option("state.backend.postgres.url", TextType(), None)
"""The database: postgresql://host:5432/database. Workers and the driver connect to it."""

POSTGRES_USER = option("state.backend.postgres.user", TextType(), None)
"""Who connects. Not set: as the url, or the environment of the processes, says."""

POSTGRES_PASSWORD = option("state.backend.postgres.password", TextType(), None)
"""The user's password. Not set: from the environment, or a password file, of the processes."""

POSTGRES_CACHED_ENTRIES = option("state.backend.postgres.cached-entries", IntegerType(least=0), 50_000)
"""Number of changed entries of a state held in memory before they are written to PostgreSQL, and of the entries of an
operator used last that are known without asking it; it may know twice as many."""

REDIS_URL = option("state.backend.redis.url", TextType(), None)
"""The server: redis://host:6379/0. Workers and the driver connect to it."""

REDIS_USER = option("state.backend.redis.user", TextType(), None)
"""Who connects."""

REDIS_PASSWORD = option("state.backend.redis.password", TextType(), None)
"""The user's password."""

REDIS_CACHED_ENTRIES = option("state.backend.redis.cached-entries", IntegerType(least=0), 50_000)
"""Number of changed entries of a state held as Python objects, more of them wait as bytes for their checkpoint, and of
the entries of an operator used last that are known without asking Redis; it may know twice as many."""


# Logs, errors and traces

LOG_DIRECTORY = option("env.log.dir", TextType(), None)
"""Where each job has a folder of logs. Not set: below the user's cache directory."""

LOG_LEVEL = option("env.log.level", EnumType(LogLevel), LogLevel.INFO)
"""Of what functions and penstock log. For Spark's JVM: spark.log.level, WARN by default."""

LOG_MAX = option("env.log.max", IntegerType(least=1), 10)
"""So many old files of each log are kept beside the one that is written."""

LOG_MAX_SIZE = option("env.log.max-size", MemorySizeType(), 1 << 20)
"""A log that has reached this size becomes an old one, and a new one begins."""

LOG_RETAINED_JOBS = option("env.log.retained-jobs", IntegerType(least=0), 20)
"""Number of log folders of ended jobs to keep. Older ones are removed when a job starts."""

SHOW_SPARK_STACK = option("penstock.errors.show-spark-stack", BooleanType(), False)
"""Whether the error of a failed job includes Spark's stack trace below the user's traceback."""

TRACE_REPORTERS = option("traces.reporters", TextType(), "")
"""otel: each checkpoint and each start of a job's tasks is sent as an OpenTelemetry span."""

OTEL_ENDPOINT = option("traces.reporter.otel.exporter.endpoint", TextType(), "http://127.0.0.1:4318")
"""Where spans are sent to by OTLP over HTTP: the address of a collector, without /v1/traces."""

OTEL_SERVICE_NAME = option("traces.reporter.otel.service.name", TextType(), "penstock")
"""service.name of the spans."""


# Spark

KEEP_SESSION = option("penstock.spark.keep-session", BooleanType(), False)
"""Whether Spark's JVM on this machine stays for the next program, for ten minutes, which then starts in a second or
two: `penstock run --keep-session`. PENSTOCK_KEEP_SESSION=true in the environment does the same."""

SPARK_TRANSPORT = option("penstock.spark.transport", EnumType(SparkTransport), SparkTransport.PIPES)
"""pipes: tasks read and write the pipes of their workers themselves. iterators: PySpark does it for them, slower, by
its public interface."""

SPARK_START_TIMEOUT = option("penstock.spark.start-timeout", DurationType(), 120_000)
"""A JVM of Spark's, or a Spark context in it, that takes longer to start is ended: the restart of a job that needs it
has failed. There is no limit while the JVM fetches packages, or waits for room on YARN or Kubernetes."""

_GROUPS = (rest_options, restart_options, autoscaler_options, scheduler_options, high_availability_options)
"""The modules of options that have a subject of their own."""

ALL_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = tuple(
    option
    for group in (globals(), *map(vars, _GROUPS))
    for option in list(group.values())
    if isinstance(option, ConfigOption)
)


def checkpoint_interval_ms(configuration: Configuration) -> int | None:
    """Return the milliseconds from the start of one checkpoint to the start of the next; None: no checkpoints.

    An interval of 0 means no checkpoints, as in Flink: CheckpointConfig.isCheckpointingEnabled.
    """
    return configuration.get(CHECKPOINT_INTERVAL) or None
