"""How records are read: the interface that every source implements.

A source is cut into *splits* (a byte range of a file, a partition of a topic, a range of numbers). Three parts share
the work, as in Flink's FLIP-27:

* the `SplitEnumerator` exists once per job, in the driver: it finds splits and assigns them on request.
* a `SourceReader` runs in each subtask of the source. It is polled for records and must never block.
* the `Source` itself is a description: it creates the other two, and is pickled to the workers.

Positions are splits too: `SourceReader.snapshot_state` returns the splits still to be read, each at the position where
reading is to continue. So a split is an immutable, picklable object that carries its own position.

In batched mode no enumerator answers while tasks run: it is drained before the job starts, so that a task which runs
twice reads the same splits.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from penstock.api.metrics import MetricGroup

T = TypeVar("T")
R = TypeVar("R")


class Boundedness(enum.Enum):
    """Whether a source ends by itself."""

    BOUNDED = "bounded"
    CONTINUOUS_UNBOUNDED = "unbounded"


class Split(Protocol):
    """A part of a source, with the position in it. Picklable; equal ids mean the same part."""

    @property
    def split_id(self) -> str:
        """Unique within the source, the same at every position inside the split."""


class Records(msgspec.Struct, frozen=True, gc=False):
    """A chunk of records of one split, in order. `timestamps` (ms) is parallel to `values`, or None if it has none.

    `split_finished`, also without values: the split is read to its end and no longer holds back the watermark.
    """

    split_id: str
    values: list[Any]
    timestamps: list[int] | None = None
    split_finished: bool = False


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """No record is available now. Ask again at `retry_at_ms` (processing time).

    None: when splits have been added, or when `ReaderContext.notify_available` is called.
    """

    retry_at_ms: int | None = None


class EndOfInput(enum.Enum):
    """What `SourceReader.poll` returns when its last split is read and no more will be assigned."""

    END_OF_INPUT = "end of input"


END_OF_INPUT = EndOfInput.END_OF_INPUT


class ReaderContext(Protocol):
    """What a reader may ask of its subtask."""

    @property
    def subtask(self) -> int:
        """Index of this subtask, from 0."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the source."""

    @property
    def checkpointing(self) -> bool:
        """Whether the job takes checkpoints: whether the reader is notified of completed ones."""

    @property
    def batched(self) -> bool:
        """Whether the job runs in batched mode: a reader that reads its splits again must do so in the same order."""

    def now_ms(self) -> int:
        """Processing time in milliseconds."""

    def request_split(self) -> None:
        """Ask the enumerator for a split; it answers later, by `add_splits` or `no_more_splits`."""

    def notify_available(self) -> None:
        """Have the reader polled soon, though it has returned `Nothing`. Any thread may call it, at any time."""

    @property
    def metric_group(self) -> MetricGroup:
        """Where the reader may register metrics; they are reported with those of the source's operator."""


class SourceReader(ABC, Generic[T]):
    """Reads the splits that are assigned to its subtask. All methods are called from one thread and must not block.

    A restored subtask receives its splits by `add_splits` before `start`.
    """

    interleaved: bool = True
    """Whether splits are read side by side. Then each holds back the watermark as soon as it is assigned; where they
    are read one after the other, only from its first record on."""

    def start(self) -> None:
        """Called once, before the first poll. Request a first split here."""

    @abstractmethod
    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        """At most `max_records` records of one split, or `Nothing` if there are none now, or END_OF_INPUT.

        Bounded work only: return what is available, or `Nothing` with the time of the next poll. The records are handed
        over: the reader must not change them afterwards.
        """

    @abstractmethod
    def add_splits(self, splits: Sequence[Any]) -> None:
        """Splits assigned to this subtask, new ones or, after a restart, ones with a position."""

    def interleaves(self, split: Any) -> bool:
        """Whether this split, which has just been added, holds back the watermark from now on: `interleaved`."""
        return self.interleaved

    @abstractmethod
    def no_more_splits(self) -> None:
        """The enumerator has nothing left for this subtask."""

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        """The next `snapshot_state` belongs to this checkpoint. For readers that act on its completion."""

    @abstractmethod
    def snapshot_state(self) -> list[Any]:
        """The splits still to be read, each at its present position."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete: what was read before it is not read again."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` failed: the next one that completes covers what it would have."""

    def close(self) -> None:
        """Release what is open. Called once, also after a failure."""


class EnumeratorContext(Protocol):
    """What an enumerator may ask of the job that it belongs to."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the source."""

    def now_ms(self) -> int:
        """Processing time in milliseconds."""

    def assign_split(self, split: Any, subtask: int) -> None:
        """Assign a split to a subtask."""

    def signal_no_more_splits(self, subtask: int) -> None:
        """Notify a subtask that no further split will be assigned. A bounded source must do so for each subtask."""

    def call_async(self, call: Callable[[], R], handler: Callable[[R | None, Exception | None], None]) -> None:
        """Make a call that may take long on another thread, then the handler with its result, or with its error.

        The handler runs where the enumerator's methods do, `call` does not: it must not touch the enumerator's state.
        An error that the handler raises fails the job. Source: Flink, SplitEnumeratorContext.callAsync.
        """


class SplitEnumerator(ABC):
    """Finds splits and assigns them. Runs in the driver.

    All methods are called from the thread that also takes the heartbeats and triggers the checkpoints of the job, so
    none may block: what waits for a network or a disk goes through `EnumeratorContext.call_async`.
    """

    def start(self) -> None:
        """Called once, before any request, also on a restored enumerator.

        Tasks are deployed when all that `start` calls by `call_async` has ended. Raises SourceError, or its handlers
        do, if there is nothing to read.
        """

    @abstractmethod
    def handle_split_request(self, subtask: int) -> None:
        """A subtask asks for a split: assign one, or signal that there are no more, or keep the request for later."""

    @abstractmethod
    def add_splits_back(self, splits: Sequence[Any], subtask: int) -> None:
        """A subtask failed before a checkpoint held these splits: assign them again."""

    def discover(self) -> int | None:
        """Look for new splits. Returns when it is to be called again (ms of processing time), or None for never.

        First called after `start`, when all that `start` called by `call_async` has ended.
        """
        return None

    @abstractmethod
    def snapshot_state(self) -> Any:
        """What is needed to continue: splits not yet assigned, names already seen. Picklable."""

    def close(self) -> None:
        """Release what is open."""


class Source(ABC, Generic[T]):
    """Describes what is read. Built by the user, pickled to the workers: holds settings, nothing open."""

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """BOUNDED if it ends by itself. Decides which mode AUTOMATIC chooses, and whether BATCH is allowed."""

    @abstractmethod
    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """A new enumerator, for a job that starts without state."""

    def restore_enumerator(self, context: EnumeratorContext, state: Any) -> SplitEnumerator:
        """An enumerator that continues from what `SplitEnumerator.snapshot_state` returned."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be restored from a snapshot: implement restore_enumerator"
        )

    @abstractmethod
    def create_reader(self, context: ReaderContext) -> SourceReader[T]:
        """A reader for one subtask."""

    def validate(self) -> None:
        """Raise errors that can be known before anything runs: a missing path, a wrong format.

        Called at submission, where the job is controlled: of a job for a cluster, in the cluster.
        """

    def describe(self) -> str:
        """What is read, a path for example, in one line for `penstock explain`; empty: its name says it all."""
        return ""

    def get_produced_type(self) -> Any:
        """TypeInformation of the records where it is known, else None."""
        return None
