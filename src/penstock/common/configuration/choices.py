"""Values of options that accept a fixed set: one enum for each option."""

from __future__ import annotations

import enum


class RuntimeExecutionMode(enum.Enum):
    """Execution mode of a DataStream program. Source: Flink docs, "Execution Mode (Batch/Streaming)"."""

    STREAMING = 0
    """All tasks run at the same time, results are emitted continuously, watermarks advance event time, and the job can
    take checkpoints."""
    BATCH = 1
    """Stages run one after another; bounded sources only; event time does not advance before the end of the input."""
    AUTOMATIC = 2
    """BATCH if all sources are bounded, else STREAMING."""


class CheckpointingMode(enum.Enum):
    """Consistency of state after a recovery. Source: Flink docs, "Checkpointing"."""

    EXACTLY_ONCE = 0
    """Each record affects state exactly once. Tasks with several inputs align barriers, and buffer inputs meanwhile."""
    AT_LEAST_ONCE = 1
    """Records may affect state twice after a recovery. Barriers are not aligned, so no input is buffered."""


class ExternalizedCheckpointRetention(enum.Enum):
    """Retention of the checkpoints of a canceled job. Unlike in Flink, a failed job always keeps its checkpoints."""

    DELETE_ON_CANCELLATION = 0
    """Checkpoints are deleted."""
    RETAIN_ON_CANCELLATION = 1
    """Checkpoints are retained until you delete them, and the job can be restored from the latest."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Checkpoints are deleted, as with DELETE_ON_CANCELLATION. The default."""


class PriorityQueueStateType(enum.Enum):
    """Where the RocksDB backend keeps timers. Source: Flink, EmbeddedRocksDBStateBackend.PriorityQueueStateType."""

    HEAP = "HEAP"
    """In memory, as Python objects."""
    ROCKSDB = "ROCKSDB"
    """In RocksDB, except the timers that fire next."""


class FailoverStrategy(enum.Enum):
    """The option `jobmanager.execution.failover-strategy`. Source: Flink docs, "Task Failure Recovery"."""

    REGION = "region"
    """Restart the pipelined region that failed: all tasks connected with the failed one. Other regions keep running."""
    FULL = "full"
    """Restart all tasks of the job."""


class SchedulerType(enum.Enum):
    """The option `jobmanager.scheduler`. Source: Flink docs, "Elastic Scaling"."""

    DEFAULT = "default"
    """The job runs only with the parallelism of its program."""
    ADAPTIVE = "adaptive"
    """The job runs with fewer subtasks if there are fewer slots."""
    ADAPTIVEBATCH = "adaptivebatch"
    """Flink's scheduler for batch jobs; here the same as DEFAULT."""


class SchedulerExecutionMode(enum.Enum):
    """The option `scheduler-mode`. Source: Flink docs, "Elastic Scaling", Reactive Mode."""

    REACTIVE = "reactive"
    """The job uses all available slots."""


class HighAvailabilityMode(enum.Enum):
    """The option `high-availability.type`. Source: Flink docs, "High Availability".

    FILESYSTEM exists only in penstock.
    """

    NONE = "none"
    """The process that holds a lock on this machine leads."""
    ZOOKEEPER = "zookeeper"
    """Processes on several machines elect a leader in ZooKeeper."""
    KUBERNETES = "kubernetes"
    """Pods elect a leader by a Kubernetes Lease."""
    FILESYSTEM = "filesystem"
    """Processes elect a leader by a lease in a shared folder."""


class MetricAggregator(enum.Enum):
    """The option `job.autoscaler.metrics.busy-time.aggregator`. Source: the options of Flink's operator."""

    MAX = "the load of the busiest subtask, so that frequent keys count"
    AVG = "the mean load of all subtasks"
    MIN = "the load of the least busy subtask"


class KeyGroupOrPartitionsAdjustMode(enum.Enum):
    """The option `job.autoscaler.scaling.key-group.partitions.adjust.mode`. Source: the options of Flink's operator."""

    EVENLY_SPREAD = "a parallelism that divides the number of key groups, so that all subtasks have the same number"
    MAXIMIZE_UTILISATION = "the lowest parallelism at which no subtask has more key groups"


class ClosureCleanerLevel(enum.Enum):
    """Levels of Flink's closure cleaner. They have no effect on functions in Python."""

    NONE = "NONE"
    TOP_LEVEL = "TOP_LEVEL"
    RECURSIVE = "RECURSIVE"


class LogLevel(enum.Enum):
    """Levels of logs, with the names of Flink and Log4j. WARNING is Python's name for WARN."""

    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    WARNING = 30
    ERROR = 40


class SparkTransport(enum.Enum):
    """How a slot reads and writes the rows that Spark moves: the option `penstock.spark.transport`."""

    PIPES = "pipes"
    """The slot's thread reads and writes the pipes of its worker directly. This is faster, but uses private parts of
    PySpark. If these differ from what penstock expects, it logs a warning and uses ITERATORS."""
    ITERATORS = "iterators"
    """PySpark reads and writes, and the slot consumes its iterator: slower, but only by PySpark's public interface."""
