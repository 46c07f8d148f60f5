"""The options of penstock, with Flink's keys and defaults.

One default differs: `execution.buffer-timeout.interval` is 5 ms, because Flink's 100 ms would dominate the latency of
an exchange. Durations are read as ints of milliseconds. Source: Flink docs, "Configuration".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.common.checkpointing import CheckpointingMode, ExternalizedCheckpointRetention
from penstock.common.config_options import ConfigOption, ConfigOptions
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.common.execution_mode import RuntimeExecutionMode
from penstock.common.failover_strategy import FailoverStrategy
from penstock.common.log_level import LogLevel
from penstock.common.priority_queue_state_type import PriorityQueueStateType
from penstock.common.spark_transport import SparkTransport

_key = ConfigOptions.key

# The program

PARALLELISM = _key("parallelism.default").int_type(least=1).default_value(1)
MAX_PARALLELISM = (
    _key("pipeline.max-parallelism")
    .int_type(least=1)
    .no_default_value()
    .with_description("The number of key groups. Not set: derived from the parallelism, at least 128.")
)
PIPELINE_NAME = _key("pipeline.name").string_type().no_default_value()
AUTO_WATERMARK_INTERVAL = _key("pipeline.auto-watermark-interval").duration_type().default_value(200)
OPERATOR_CHAINING = (
    _key("pipeline.operator-chaining.enabled")
    .boolean_type()
    .default_value(True)
    .with_fallback_keys("pipeline.operator-chaining")
)
CHAIN_DIFFERENT_MAX_PARALLELISM = (
    _key("pipeline.operator-chaining.chain-operators-with-different-max-parallelism").boolean_type().default_value(True)
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
GLOBAL_JOB_PARAMETERS = _key("pipeline.global-job-parameters").map_type().default_value({})

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

TARGET = _key("execution.target").string_type().default_value("local")
RUNTIME_MODE = (
    _key("execution.runtime-mode").enum_type(RuntimeExecutionMode).default_value(RuntimeExecutionMode.STREAMING)
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
HEARTBEAT_INTERVAL = _key("heartbeat.interval").duration_type(least_ms=1).default_value(10_000)
HEARTBEAT_TIMEOUT = _key("heartbeat.timeout").duration_type(least_ms=1).default_value(50_000)
TASK_CANCELLATION_INTERVAL = _key("task.cancellation.interval").duration_type().default_value(30_000)
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
    _key("execution.checkpointing.mode").enum_type(CheckpointingMode).default_value(CheckpointingMode.EXACTLY_ONCE)
)
CHECKPOINT_TIMEOUT = _key("execution.checkpointing.timeout").duration_type(least_ms=1).default_value(600_000)
CHECKPOINT_MIN_PAUSE = _key("execution.checkpointing.min-pause").duration_type().default_value(0)
MAX_CONCURRENT_CHECKPOINTS = (
    _key("execution.checkpointing.max-concurrent-checkpoints").int_type(least=1).default_value(1)
)
TOLERABLE_FAILED_CHECKPOINTS = (
    _key("execution.checkpointing.tolerable-failed-checkpoints").int_type(least=0).default_value(0)
)
RETAINED_CHECKPOINTS = (
    _key("execution.checkpointing.num-retained")
    .int_type(least=1)
    .default_value(1)
    .with_fallback_keys("state.checkpoints.num-retained")
)
CHECKPOINT_RETENTION = (
    _key("execution.checkpointing.externalized-checkpoint-retention")
    .enum_type(ExternalizedCheckpointRetention)
    .default_value(ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
)
UNALIGNED_CHECKPOINTS = (
    _key("execution.checkpointing.unaligned.enabled")
    .boolean_type()
    .default_value(False)
    .with_fallback_keys("execution.checkpointing.unaligned")
)
FORCE_UNALIGNED_CHECKPOINTS = _key("execution.checkpointing.unaligned.forced").boolean_type().default_value(False)
ALIGNED_CHECKPOINT_TIMEOUT = _key("execution.checkpointing.aligned-checkpoint-timeout").duration_type().default_value(0)
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
SNAPSHOT_COMPRESSION = _key("execution.checkpointing.snapshot-compression").boolean_type().default_value(False)
CHECKPOINT_DIRECTORY = (
    _key("execution.checkpointing.dir").string_type().no_default_value().with_fallback_keys("state.checkpoints.dir")
)
SAVEPOINT_DIRECTORY = (
    _key("execution.checkpointing.savepoint-dir")
    .string_type()
    .no_default_value()
    .with_fallback_keys("state.savepoints.dir")
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
    .with_description("hashmap: Python objects in memory. rocksdb: on local disk, for state larger than memory.")
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

FAILOVER_STRATEGY = (
    _key("jobmanager.execution.failover-strategy")
    .enum_type(FailoverStrategy)
    .default_value(FailoverStrategy.REGION)
    .with_description(
        "region: only the pipelined region that failed is restarted, that is all tasks connected with the failed one. "
        "full: all tasks."
    )
)
RESTART_STRATEGY = (
    _key("restart-strategy.type")
    .string_type()
    .no_default_value()
    .with_fallback_keys("restart-strategy")
    .with_description(
        "none, fixed-delay, failure-rate or exponential-delay. "
        "Not set: exponential-delay if there are checkpoints, else none."
    )
)
FIXED_DELAY_ATTEMPTS = _key("restart-strategy.fixed-delay.attempts").int_type(least=0).default_value(1)
FIXED_DELAY = _key("restart-strategy.fixed-delay.delay").duration_type().default_value(1000)
FAILURE_RATE_MAX_FAILURES = (
    _key("restart-strategy.failure-rate.max-failures-per-interval").int_type(least=0).default_value(1)
)
FAILURE_RATE_INTERVAL = (
    _key("restart-strategy.failure-rate.failure-rate-interval").duration_type().default_value(60_000)
)
FAILURE_RATE_DELAY = _key("restart-strategy.failure-rate.delay").duration_type().default_value(1000)
EXPONENTIAL_DELAY_INITIAL_BACKOFF = (
    _key("restart-strategy.exponential-delay.initial-backoff").duration_type(least_ms=1).default_value(1000)
)
EXPONENTIAL_DELAY_MAX_BACKOFF = (
    _key("restart-strategy.exponential-delay.max-backoff").duration_type(least_ms=1).default_value(60_000)
)
EXPONENTIAL_DELAY_MULTIPLIER = (
    _key("restart-strategy.exponential-delay.backoff-multiplier").double_type(least=1).default_value(1.5)
)
EXPONENTIAL_DELAY_RESET_THRESHOLD = (
    _key("restart-strategy.exponential-delay.reset-backoff-threshold").duration_type().default_value(3_600_000)
)
EXPONENTIAL_DELAY_JITTER = (
    _key("restart-strategy.exponential-delay.jitter-factor").double_type(least=0).default_value(0.1)
)
EXPONENTIAL_DELAY_ATTEMPTS = (
    _key("restart-strategy.exponential-delay.attempts-before-reset-backoff").int_type(least=0).default_value(2**31 - 1)
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
    .with_description("When a job starts, folders of jobs that have ended are removed, but for so many newest ones.")
)

# penstock's own

SHOW_SPARK_STACK = (
    _key("penstock.errors.show-spark-stack")
    .boolean_type()
    .default_value(False)
    .with_description("Whether the error of a failed job includes Spark's stack trace below the user's traceback.")
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
    option for option in list(globals().values()) if isinstance(option, ConfigOption)
)
_OPTIONS_BY_KEY = {key: option for option in ALL_OPTIONS for key in (option.key, *option.fallback_keys)}

_TYPING_MISTAKES_MAX = 2
_SHORT_PART = 5
_FAR = 1_000


def closest(key: str, among: Iterable[str] = _OPTIONS_BY_KEY) -> list[str]:
    """Return the known keys of which `key` may be a misspelling, nearest first.

    These are within an edit distance of two, in the whole key or in each of its parts; in one, where a part is short.
    Case, and `_` in place of `-`, are ignored.
    """
    spelled = _spelled_plainly(key)
    distances = ((_distance(spelled, known), known) for known in among)
    return [known for distance, known in sorted(distances) if distance < _FAR]


def check_keys(configuration: Configuration) -> list[str]:
    """Find settings without effect. Returns the keys that are unknown.

    Keys of Spark (`spark.…`) are accepted. Raises ConfigurationError for a key that is close to a known one, and so
    probably misspelt; Flink's keys that penstock does not use are only reported.
    """
    unknown = []
    for key in sorted(configuration.key_set()):
        if key in _OPTIONS_BY_KEY or key.startswith("spark."):
            continue
        nearest = closest(key)
        if nearest:
            raise ConfigurationError(f"there is no option {key!r}. Did you mean {' or '.join(map(repr, nearest))}?")
        unknown.append(key)
    return unknown


def check_values(configuration: Configuration) -> None:
    """Parse every known option. Raises ConfigurationError for the first value that does not have its option's type."""
    for option in ALL_OPTIONS:
        configuration.get(option)


def _spelled_plainly(key: str) -> str:
    return key.strip().lower().replace("_", "-")


def _distance(left: str, right: str) -> int:
    whole = _typing_mistakes(left, right)
    if whole <= _TYPING_MISTAKES_MAX:
        return whole
    parts = left.split("."), right.split(".")
    if len(parts[0]) != len(parts[1]):
        return _FAR
    mistakes = [_typing_mistakes(one, other) for one, other in zip(*parts, strict=True)]
    allowed = [_TYPING_MISTAKES_MAX if len(part) > _SHORT_PART else 1 for part in parts[1]]
    return sum(mistakes) if all(m <= a for m, a in zip(mistakes, allowed, strict=True)) else _FAR


def _typing_mistakes(left: str, right: str) -> int:
    """Return the Levenshtein distance, or more than the maximum if it exceeds the maximum."""
    if abs(len(left) - len(right)) > _TYPING_MISTAKES_MAX:
        return _TYPING_MISTAKES_MAX + 1
    row = list(range(len(right) + 1))
    for i, character in enumerate(left, 1):
        above_left, row[0] = row[0], i
        for j, other in enumerate(right, 1):
            above_left, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above_left + (character != other))
    return row[-1]
