"""The options of penstock, with Flink's keys and defaults.

One default differs: `execution.buffer-timeout.interval` is 5 ms, because Flink's 100 ms would dominate the latency of
an exchange. Durations are read as ints of milliseconds. Source: Flink docs, "Configuration".
"""

from __future__ import annotations

from typing import Any, Final

from penstock.common.config_options import ConfigOption, ConfigOptions
from penstock.common.configuration.checkpointing import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.common.configuration.log_level import LogLevel
from penstock.common.configuration.option_groups import GROUPS
from penstock.common.configuration.priority_queue_state_type import PriorityQueueStateType
from penstock.common.configuration.spark_transport import SparkTransport
from penstock.common.execution_mode import RuntimeExecutionMode

_key = ConfigOptions.key

# The program

PARALLELISM = (
    _key("parallelism.default")
    .int_type(least=1)
    .default_value(1)
    .with_description("Subtasks of each operator that does not set its own number.")
)
MAX_PARALLELISM = (
    _key("pipeline.max-parallelism")
    .int_type(least=1)
    .no_default_value()
    .with_description("The number of key groups. Not set: derived from the parallelism, at least 128.")
)
PIPELINE_NAME = (
    _key("pipeline.name")
    .string_type()
    .no_default_value()
    .with_description("Name of the job. Not set: the one that `execute` is given.")
)
AUTO_WATERMARK_INTERVAL = (
    _key("pipeline.auto-watermark-interval")
    .duration_type()
    .default_value(200)
    .with_description("How often watermark generators are asked for a watermark.")
)
OPERATOR_CHAINING = (
    _key("pipeline.operator-chaining.enabled")
    .boolean_type()
    .default_value(True)
    .with_fallback_keys("pipeline.operator-chaining")
    .with_description("Whether operators without an exchange between them run in one task.")
)
CHAIN_DIFFERENT_MAX_PARALLELISM = (
    _key("pipeline.operator-chaining.chain-operators-with-different-max-parallelism")
    .boolean_type()
    .default_value(True)
    .with_description("Whether operators with different maximum parallelism are chained.")
)
AUTO_GENERATE_UIDS = (
    _key("pipeline.auto-generate-uids")
    .boolean_type()
    .default_value(True)
    .with_description("false: a job with an operator without a uid is refused.")
)
GENERIC_TYPES = (
    _key("pipeline.generic-types")
    .boolean_type()
    .default_value(True)
    .with_description("Whether values without a declared type may be pickled.")
)
OBJECT_REUSE = (
    _key("pipeline.object-reuse")
    .boolean_type()
    .default_value(False)
    .with_description(
        "Whether chained operators pass values on as they are. By default, what can be changed is copied."
    )
)
GLOBAL_JOB_PARAMETERS = (
    _key("pipeline.global-job-parameters")
    .map_type()
    .default_value({})
    .with_description("What functions read with `get_job_parameter`.")
)

# What travels with it

PYTHON_FILES = (
    _key("python.files")
    .string_type()
    .no_default_value()
    .with_description(
        "Modules, folders, and archives or wheels of modules, separated by commas: they are sent to the workers, which "
        "can import them. env.add_python_file adds to it."
    )
)
PYTHON_ARCHIVES = (
    _key("python.archives")
    .string_type()
    .no_default_value()
    .with_description(
        "Archives, separated by commas, that are extracted in the workers' working directory, each to a folder of its "
        "own name, or to TARGET if it is written ARCHIVE#TARGET. env.add_python_archive adds to it."
    )
)
PYTHON_REQUIREMENTS = (
    _key("python.requirements")
    .string_type()
    .no_default_value()
    .with_description(
        "A file of requirements that workers install by pip; FILE#FOLDER: from the packages in that folder, which is "
        "sent along, and from nowhere else. env.set_python_requirements sets it."
    )
)

# Execution

TARGET = (
    _key("execution.target")
    .string_type()
    .default_value("local")
    .with_description("Name of the executor that runs the jobs of a program.")
)
RUNTIME_MODE = (
    _key("execution.runtime-mode")
    .enum_type(RuntimeExecutionMode)
    .default_value(RuntimeExecutionMode.STREAMING)
    .with_description("AUTOMATIC: BATCH if all sources are bounded, else STREAMING.")
)
SORTED_INPUTS_MEMORY = (
    _key("execution.sorted-inputs.memory")
    .memory_type()
    .default_value(128 << 20)
    .with_description("In BATCH: what each task sorts in memory, by estimate; beyond it, sorted runs go to local disk.")
)
BUFFER_TIMEOUT_ENABLED = (
    _key("execution.buffer-timeout.enabled")
    .boolean_type()
    .default_value(True)
    .with_description("false: a buffer leaves only when it is full.")
)
BUFFER_TIMEOUT = (
    _key("execution.buffer-timeout.interval")
    .duration_type()
    .default_value(5)
    .with_fallback_keys("execution.buffer-timeout")
    .with_description("0: a buffer leaves after each record.")
)
DEBLOAT_ENABLED = (
    _key("taskmanager.network.memory.buffer-debloat.enabled")
    .boolean_type()
    .default_value(True)
    .with_description(
        "Whether what is in flight between tasks is bounded by the time it takes to process, and not only by the size "
        "of Spark's buffers. Flink's default is false."
    )
)
DEBLOAT_TARGET = (
    _key("taskmanager.network.memory.buffer-debloat.target")
    .duration_type()
    .default_value(1_000)
    .with_description(
        "How long what is in flight should take to process. For all exchanges that a record passes (Flink: for each)."
    )
)
HEARTBEAT_INTERVAL = (
    _key("heartbeat.interval")
    .duration_type(least_ms=1)
    .default_value(10_000)
    .with_description("How often workers report that they are alive.")
)
HEARTBEAT_TIMEOUT = (
    _key("heartbeat.timeout")
    .duration_type(least_ms=1)
    .default_value(50_000)
    .with_description("A worker that was silent for this time counts as lost.")
)
TASK_CANCELLATION_INTERVAL = (
    _key("task.cancellation.interval")
    .duration_type()
    .default_value(30_000)
    .with_fallback_keys("task.cancellation-interval")
    .with_description("How often a task that does not end is asked again.")
)
TASK_CANCELLATION_TIMEOUT = (
    _key("task.cancellation.timeout")
    .duration_type()
    .default_value(180_000)
    .with_description("Time after which workers with tasks still running are killed. 0: never.")
)
LATENCY_INTERVAL = (
    _key("metrics.latency.interval")
    .duration_type()
    .default_value(0)
    .with_description("Interval at which sources send latency markers. 0: never.")
)

# Checkpoints and state

CHECKPOINT_INTERVAL = (
    _key("execution.checkpointing.interval")
    .duration_type()
    .no_default_value()
    .with_description("Not set, or 0: no checkpoints.")
)
CHECKPOINTING_MODE = (
    _key("execution.checkpointing.mode")
    .enum_type(CheckpointingMode)
    .default_value(CheckpointingMode.EXACTLY_ONCE)
    .with_description("AT_LEAST_ONCE: barriers are not aligned; after a failure records may be processed twice.")
)
CHECKPOINT_TIMEOUT = (
    _key("execution.checkpointing.timeout")
    .duration_type(least_ms=1)
    .default_value(600_000)
    .with_description("A checkpoint that is not complete after this time is aborted.")
)
CHECKPOINT_MIN_PAUSE = (
    _key("execution.checkpointing.min-pause")
    .duration_type()
    .default_value(0)
    .with_description(
        "The least time from the end of a checkpoint to the start of the next one. Above 0 there is one at a time."
    )
)
MAX_CONCURRENT_CHECKPOINTS = (
    _key("execution.checkpointing.max-concurrent-checkpoints")
    .int_type(least=1)
    .default_value(1)
    .with_description("How many checkpoints may be under way at once.")
)
TOLERABLE_FAILED_CHECKPOINTS = (
    _key("execution.checkpointing.tolerable-failed-checkpoints")
    .int_type(least=0)
    .default_value(0)
    .with_description("How many checkpoints in a row may fail without failing the job.")
)
RETAINED_CHECKPOINTS = (
    _key("execution.checkpointing.num-retained")
    .int_type(least=1)
    .default_value(1)
    .with_fallback_keys("state.checkpoints.num-retained")
    .with_description("How many completed checkpoints are kept.")
)
CHECKPOINT_RETENTION = (
    _key("execution.checkpointing.externalized-checkpoint-retention")
    .enum_type(ExternalizedCheckpointRetention)
    .default_value(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    .with_description("Whether checkpoints stay when the job is cancelled. They always do when it fails.")
)
UNALIGNED_CHECKPOINTS = (
    _key("execution.checkpointing.unaligned.enabled")
    .boolean_type()
    .default_value(False)
    .with_fallback_keys("execution.checkpointing.unaligned")
    .with_description("Whether barriers overtake records.")
)
FORCE_UNALIGNED_CHECKPOINTS = (
    _key("execution.checkpointing.unaligned.forced")
    .boolean_type()
    .default_value(False)
    .with_description("Whether barriers overtake records even where order matters.")
)
ALIGNED_CHECKPOINT_TIMEOUT = (
    _key("execution.checkpointing.aligned-checkpoint-timeout")
    .duration_type()
    .default_value(0)
    .with_fallback_keys("execution.checkpointing.alignment-timeout")
    .with_description("The age at which a checkpoint becomes unaligned where its barriers still wait.")
)
ALIGNMENT_MEMORY = (
    _key("task.checkpoint.alignment.max-memory")
    .memory_type()
    .default_value(64 << 20)
    .with_description("Buffers held back by barrier alignment beyond this size are written to local disk.")
)
ALIGNMENT_MAX_SIZE = (
    _key("task.checkpoint.alignment.max-size")
    .memory_type()
    .default_value(4 << 30)
    .with_description("A task declines a checkpoint whose alignment would hold back more than this.")
)
SNAPSHOT_COMPRESSION = (
    _key("execution.checkpointing.snapshot-compression")
    .boolean_type()
    .default_value(False)
    .with_description("Whether snapshots are compressed.")
)
CHECKPOINT_DIRECTORY = (
    _key("execution.checkpointing.dir")
    .string_type()
    .no_default_value()
    .with_fallback_keys("state.checkpoints.dir", "state.backend.fs.checkpointdir")
    .with_description("A path or URL that driver and executors see. Not set: on a local master a temporary directory.")
)
SAVEPOINT_DIRECTORY = (
    _key("execution.checkpointing.savepoint-dir")
    .string_type()
    .no_default_value()
    .with_fallback_keys("state.savepoints.dir", "savepoints.state.backend.fs.dir")
    .with_description("Where savepoints go if the command names no directory.")
)
STATE_RECOVERY_PATH = (
    _key("execution.state-recovery.path")
    .string_type()
    .no_default_value()
    .with_fallback_keys("execution.savepoint.path")
    .with_description(
        "The checkpoint from which the job starts: a path, or `latest`, the newest of a job of this name."
    )
)
IGNORE_UNCLAIMED_STATE = (
    _key("execution.state-recovery.ignore-unclaimed-state")
    .boolean_type()
    .default_value(False)
    .with_fallback_keys("execution.savepoint.ignore-unclaimed-state")
    .with_description("Whether state of operators that the program does not have is ignored.")
)
ALLOW_DUPLICATES = (
    _key("execution.state-recovery.allow-duplicates")
    .boolean_type()
    .default_value(False)
    .with_description(
        "Whether a job whose newest checkpoint is damaged starts from the one before, though sinks have committed "
        "output since, which is then written a second time. In AT_LEAST_ONCE mode it always does."
    )
)
STATE_BACKEND = (
    _key("state.backend.type")
    .string_type()
    .default_value("hashmap")
    .with_fallback_keys("state.backend")
    .with_description(
        "hashmap: Python objects in memory. rocksdb: on local disk, for state larger than memory. postgres: in a "
        "PostgreSQL database, where each checkpoint is a version of it. redis: in a Redis server, behind a log."
    )
)
ROCKSDB_DIRECTORY = (
    _key("state.backend.rocksdb.localdir")
    .string_type()
    .no_default_value()
    .with_description("On the workers; not set: the system's temporary directory.")
)
ROCKSDB_MEMORY = (
    _key("state.backend.rocksdb.memory.fixed-per-slot")
    .memory_type()
    .default_value(64 << 20)
    .with_description(
        "Buffers and cache of RocksDB, for each subtask of an operator with keyed state (Flink: for all in a slot)."
    )
)
ROCKSDB_CACHED_ENTRIES = (
    _key("state.backend.rocksdb.cached-entries")
    .int_type(least=0)
    .default_value(50_000)
    .with_description("Number of changed entries of a state held in memory before they are written to RocksDB.")
)
ROCKSDB_TIMERS = (
    _key("state.backend.rocksdb.timer-service.factory")
    .enum_type(PriorityQueueStateType)
    .default_value(PriorityQueueStateType.ROCKSDB)
    .with_description("ROCKSDB: timers are in RocksDB. HEAP: in memory, which is quicker if they fit.")
)

# Restarts

SLOT_REQUEST_TIMEOUT = (
    _key("slot.request.timeout")
    .duration_type()
    .default_value(300_000)
    .with_description(
        "How long a job on a cluster waits for slots, when it is submitted and when it restarts: executors register "
        "some time after they are asked for, and a lost one may be replaced."
    )
)

# Logs

LOG_DIRECTORY = (
    _key("env.log.dir")
    .string_type()
    .no_default_value()
    .with_description("Where each job has a folder of logs. Not set: below the user's cache directory.")
)
LOG_LEVEL = (
    _key("env.log.level")
    .enum_type(LogLevel)
    .default_value(LogLevel.INFO)
    .with_description("Of what functions and penstock log. For Spark's JVM: spark.log.level, WARN by default.")
)
LOG_MAX = (
    _key("env.log.max")
    .int_type(least=1)
    .default_value(10)
    .with_description("So many old files of each log are kept beside the one that is written.")
)
LOG_MAX_SIZE = (
    _key("env.log.max-size")
    .memory_type()
    .default_value(1 << 20)
    .with_description("A log that has reached this size becomes an old one, and a new one begins.")
)
LOG_RETAINED_JOBS = (
    _key("env.log.retained-jobs")
    .int_type(least=0)
    .default_value(20)
    .with_description("Number of log folders of ended jobs to keep. Older ones are removed when a job starts.")
)

# penstock's own

SHOW_SPARK_STACK = (
    _key("penstock.errors.show-spark-stack")
    .boolean_type()
    .default_value(False)
    .with_description("Whether the error of a failed job includes Spark's stack trace below the user's traceback.")
)

KEEP_SESSION = (
    _key("penstock.spark.keep-session")
    .boolean_type()
    .default_value(False)
    .with_description(
        "Whether Spark's JVM on this machine stays for the next program, for ten minutes, which then starts in a "
        "second or two: `penstock run --keep-session`. PENSTOCK_KEEP_SESSION=true in the environment does the same."
    )
)

SPARK_TRANSPORT = (
    _key("penstock.spark.transport")
    .enum_type(SparkTransport)
    .default_value(SparkTransport.PIPES)
    .with_description(
        "pipes: tasks read and write the pipes of their workers themselves. "
        "iterators: PySpark does it for them, slower, by its public interface."
    )
)

ALL_OPTIONS: Final[tuple[ConfigOption[Any], ...]] = tuple(
    option
    for group in (globals(), *map(vars, GROUPS))
    for option in list(group.values())
    if isinstance(option, ConfigOption)
)
