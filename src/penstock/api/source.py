"""Interfaces of sources, which read records.

A source is divided into *splits* (a byte range of a file, a partition of a topic, a range of numbers). As in Flink's
FLIP-27, it has three parts:

* The `SplitEnumerator` exists once per job, in the driver. It finds splits and assigns them on request.
* A `SourceReader` runs in each subtask of the source. The task polls it for records; it must never block.
* The `Source` is a description, pickled to the workers. It creates the other two.

A split is an immutable, picklable object that contains its position: `SourceReader.snapshot_state` returns the splits
still to be read, each with the position at which reading continues.

In batched mode the enumerator assigns all splits before the job starts, so that a task that Spark runs again reads the
same splits.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from penstock.api.metrics import MetricGroup

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

T = TypeVar("T")
R = TypeVar("R")


class Boundedness(enum.Enum):
    """Whether a source has an end."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


class Split(Protocol):
    """A part of a source's input, with a position in it. It is picklable; equal ids mean the same part."""

    @property
    def split_id(self) -> str:
        """Id of the split, unique within the source and the same at every position."""


class Records(msgspec.Struct, frozen=True, gc=False):
    """A chunk of records of one split, in order. `timestamps` (ms) is parallel to `values`, or None.

    `split_finished`: the split is read to its end and no longer holds back the watermark. `values` may be empty then.
    """

    split_id: str
    values: list[Any]
    timestamps: list[int] | None = None
    split_finished: bool = False


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """No record is available now. The task polls again at `retry_at_ms` (ms of processing time).

    If that is None, it polls again after splits are added or `ReaderContext.notify_available` is called.
    """

    retry_at_ms: int | None = None


class EndOfInput(enum.Enum):
    """The result of `SourceReader.poll` after the last split: all are read, and no further ones will be assigned."""

    END_OF_INPUT = "end of input"


END_OF_INPUT = EndOfInput.END_OF_INPUT


class ReaderContext(Protocol):
    """The reader's view of its subtask."""

    @property
    def subtask(self) -> int:
        """Index of this subtask, from 0."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the source."""

    @property
    def checkpointing(self) -> bool:
        """Whether the job takes checkpoints and so notifies the reader of completed ones."""

    @property
    def batched(self) -> bool:
        """Whether the job runs in batched mode. A reader that reads its splits again must then keep their order."""

    def now_ms(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    def request_split(self) -> None:
        """Request a split from the enumerator. It answers later: the task calls `add_splits` or `no_more_splits`."""

    def notify_available(self) -> None:
        """Let the task poll the reader soon, even after `Nothing`. Any thread may call it at any time."""

    @property
    def metric_group(self) -> MetricGroup:
        """Group for the reader's metrics, which are reported with those of the source's operator."""


class SourceReader(ABC, Generic[T]):
    """Reads the splits assigned to its subtask. All methods are called from one thread and must not block.

    A restored subtask receives its splits by `add_splits` before `start`.
    """

    interleaved: bool = True
    """Whether the reader alternates between splits. If so, a split holds back the watermark as soon as it is assigned;
    if splits are read one after the other, it does from its first record on."""

    def start(self) -> None:
        """Request a first split. Called once, before the first poll."""

    @abstractmethod
    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        """Return at most `max_records` records of one split, or `Nothing` if none are available now, or END_OF_INPUT.

        Do a bounded amount of work: return available records, or `Nothing` with the time of the next poll. The reader
        must not change the returned lists afterwards.
        """

    @abstractmethod
    def add_splits(self, splits: Sequence[Any]) -> None:
        """Take over assigned splits: new ones, or, after a restart, ones with a position."""

    def interleaves(self, split: Any) -> bool:
        """Return whether this split, just added, holds back the watermark from now on. Default: `interleaved`."""
        return self.interleaved

    @abstractmethod
    def no_more_splits(self) -> None:
        """Act on the end of assignment: the enumerator has no further split for this subtask."""

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """Note that the next `snapshot_state` belongs to this checkpoint, for readers that act on its completion."""

    @abstractmethod
    def snapshot_state(self) -> list[Any]:
        """Return the splits still to be read, each with its current position."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Act on a completed checkpoint: records before it are not read again."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Act on an aborted checkpoint: the next completed one covers its records."""

    def close(self) -> None:
        """Release open resources. Called once, also after a failure."""


class EnumeratorContext(Protocol):
    """The enumerator's view of its job."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the source."""

    def now_ms(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    def assign_split(self, split: Any, subtask: int) -> None:
        """Assign a split to a subtask."""

    def signal_no_more_splits(self, subtask: int) -> None:
        """Notify a subtask that no further split will be assigned. A bounded source must do so for each subtask."""

    def call_async(self, call: Callable[[], R], handler: Callable[[R | None, Exception | None], None]) -> None:
        """Run `call` on another thread, then `handler` with its result and None, or with None and its exception.

        `handler` runs on the enumerator's thread. `call` does not, so it must not touch the enumerator's state. An
        exception in `handler` fails the job. Source: Flink, SplitEnumeratorContext.callAsync.
        """


class SplitEnumerator(ABC):
    """Finds splits and assigns them. It runs in the driver.

    All methods are called from the JobMaster's thread, which also receives heartbeats and triggers checkpoints. They
    must not block: use `EnumeratorContext.call_async` to access a network or a disk.
    """

    def start(self) -> None:
        """Start. Called once, before any request, also on a restored enumerator.

        Tasks are deployed after all calls that `start` makes by `call_async` have ended. `start` or their handlers
        raise SourceError if there is nothing to read.
        """

    @abstractmethod
    def handle_split_request(self, subtask: int) -> None:
        """Answer a subtask's request: assign a split, signal the end of assignment, or answer later."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """Take back splits of a subtask that failed before a checkpoint contained them: assign them again."""

    def discover(self) -> int | None:
        """Look for new splits. Return the time of the next call (ms of processing time), or None for never.

        First called after `start` and all calls that it makes by `call_async`.
        """
        return None

    @abstractmethod
    def snapshot_state(self) -> Any:
        """Return the state needed to continue, such as unassigned splits and names already seen. It is picklable."""

    def close(self) -> None:
        """Release open resources."""


class Source(ABC, Generic[T]):
    """Describes what is read. It is pickled to the workers: it holds settings, and no open resources."""

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Return whether the source has an end. It decides what AUTOMATIC chooses and whether BATCH is allowed."""

    @abstractmethod
    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Return a new enumerator, for a job that starts without state."""

    def restore_enumerator(self, context: EnumeratorContext, state: Any) -> SplitEnumerator:
        """Return an enumerator that continues from what `SplitEnumerator.snapshot_state` returned."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be restored from a snapshot: implement restore_enumerator"
        )

    @abstractmethod
    def create_reader(self, context: ReaderContext) -> SourceReader[T]:
        """Return a reader for one subtask."""

    def validate(self) -> None:
        """Raise errors that can be detected before the job runs, such as a missing path or a wrong format.

        Called at submission, in the job's driver; for a job on a cluster that is in the cluster.
        """

    def describe(self) -> str:
        """Return the input, such as a path, in one line for `penstock explain`; empty if the name is enough."""
        return ""

    def get_produced_type(self) -> Any:
        """Return the TypeInformation of the records, or None if it is unknown."""
        return None

    def on_columns(self, columns: RecordColumns) -> Source[Any] | None:
        """Return a source of the same records whose `Records.values` are a pyarrow.RecordBatch of these columns.

        None: it has only records, which are then converted. Splits and positions are the same.
        """
        return None
