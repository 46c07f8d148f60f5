"""What an option of a fixed set of values can be set to: one enum for each such option."""

from __future__ import annotations

import enum


class RuntimeExecutionMode(enum.Enum):
    """Execution mode of a DataStream program. Source: Flink docs, "Execution Mode (Batch/Streaming)"."""

    STREAMING = 0
    """All tasks run at once; results are emitted continuously; event time follows watermarks; checkpoints are taken."""
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
    """Retention of the checkpoints of a cancelled job. Those of a failed job are always retained, unlike Flink's."""

    DELETE_ON_CANCELLATION = 0
    """They are deleted."""
    RETAIN_ON_CANCELLATION = 1
    """Retained until deleted by the user: the job can be restored from the latest."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """They are deleted, as with DELETE_ON_CANCELLATION. The default."""


class PriorityQueueStateType(enum.Enum):
    """Source: Flink, EmbeddedRocksDBStateBackend.PriorityQueueStateType."""

    HEAP = "HEAP"
    """In memory, as Python objects."""
    ROCKSDB = "ROCKSDB"
    """In RocksDB, but for those that fire next."""


class FailoverStrategy(enum.Enum):
    """The option `jobmanager.execution.failover-strategy`. Source: Flink docs, "Task Failure Recovery"."""

    REGION = "region"
    """The pipelined region that failed: what is connected with the failed task. The others run on."""
    FULL = "full"
    """All tasks of the job."""


class SchedulerType(enum.Enum):
    """The option `jobmanager.scheduler`. Source: Flink docs, "Elastic Scaling"."""

    DEFAULT = "default"
    """The job runs with the parallelism that its program sets, or not."""
    ADAPTIVE = "adaptive"
    """With fewer slots it runs with fewer subtasks."""
    ADAPTIVEBATCH = "adaptivebatch"
    """Flink's for batch jobs; here as DEFAULT."""


class SchedulerExecutionMode(enum.Enum):
    """The option `scheduler-mode`. Source: Flink docs, "Elastic Scaling", Reactive Mode."""

    REACTIVE = "reactive"
    """The job takes all slots that there are."""


class HighAvailabilityMode(enum.Enum):
    """The option `high-availability.type`. Source: Flink docs, "High Availability"; FILESYSTEM is penstock's own."""

    NONE = "none"
    """One process leads, by a lock on this machine."""
    ZOOKEEPER = "zookeeper"
    """Processes on any machines elect one of them in ZooKeeper."""
    KUBERNETES = "kubernetes"
    """Pods elect one of them by a Lease of Kubernetes."""
    FILESYSTEM = "filesystem"
    """They do so by a lease in a folder that all of them see."""


class MetricAggregator(enum.Enum):
    """The option `job.autoscaler.metrics.busy-time.aggregator`. Source: the options of Flink's operator."""

    MAX = "that of the busiest subtask: keys that are more frequent than others count"
    AVG = "the mean of all subtasks"
    MIN = "that of the subtask with the least load"


class KeyGroupOrPartitionsAdjustMode(enum.Enum):
    """The option `job.autoscaler.scaling.key-group.partitions.adjust.mode`. Source: the options of Flink's operator."""

    EVENLY_SPREAD = "one that divides the number of key groups, so that all subtasks have as many"
    MAXIMIZE_UTILISATION = "the lowest at which no subtask has more key groups"


class ClosureCleanerLevel(enum.Enum):
    """Flink's levels: none has an effect, as functions are Python here."""

    NONE = "NONE"
    TOP_LEVEL = "TOP_LEVEL"
    RECURSIVE = "RECURSIVE"


class LogLevel(enum.Enum):
    """A level of `logging`, by the name that Flink and Log4j have for it; WARNING is Python's for WARN."""

    TRACE = 5
    DEBUG = 10
    INFO = 20
    WARN = 30
    WARNING = 30
    ERROR = 40


class SparkTransport(enum.Enum):
    """How the host of a slot reads and writes the rows that Spark moves: the option `penstock.spark.transport`."""

    PIPES = "pipes"
    """The slot's thread reads and writes the pipes of its worker itself: the fast way, by parts of PySpark that are not
    public. Where they are not as expected, ITERATORS is used, with a warning."""
    ITERATORS = "iterators"
    """PySpark reads and writes, the slot takes batches from its iterator: slower, by PySpark's public interface."""
