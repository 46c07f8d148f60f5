"""How results are written: the interface that every sink implements.

A `Sink` is a description, pickled to the workers. Each subtask has a `SinkWriter`. A sink that publishes what it wrote
in a second step (files renamed, transactions committed) also has a `Committer`: writers hand over *committables* by
`prepare_commit`, and what they name becomes visible only when the committer has run. In batched mode the driver commits
those of successful attempts once the job has succeeded; in pipelined mode they are committed at the end of the data,
or with each checkpoint where checkpoints are on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from penstock.common.types.basic_types import TypeInformation

T = TypeVar("T")


class SinkContext(Protocol):
    """What a writer knows of its subtask."""

    @property
    def subtask(self) -> int:
        """Index of this subtask, from 0."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the sink."""

    @property
    def attempt(self) -> str:
        """Names this attempt of this subtask, unique over all jobs: part of the name of what is not yet committed."""

    @property
    def job_id(self) -> str:
        """The id of the job: that of all its runs and attempts."""

    @property
    def operator_id(self) -> str:
        """Names the sink within its job, and in all of its runs: its uid."""

    @property
    def is_restored(self) -> bool:
        """Whether the subtask goes on from a snapshot, though it may have no state of the writer's."""

    @property
    def checkpointing(self) -> bool:
        """Whether the job takes checkpoints: whether the writer is notified of completed ones."""

    def now_ms(self) -> int:
        """Processing time in milliseconds."""

    def current_watermark(self) -> int:
        """Event time of the subtask in milliseconds."""


class SinkWriter(ABC, Generic[T]):
    """Writes the records of one subtask. All methods are called from one thread."""

    def write_chunk(self, values: list[T], timestamps: list[int] | None) -> None:
        """Write a chunk, in order. Override it if a whole chunk can be written at once."""
        if timestamps is None:
            for value in values:
                self.write(value, None)
        else:
            for value, timestamp in zip(values, timestamps, strict=True):
                self.write(value, timestamp)

    @abstractmethod
    def write(self, value: T, timestamp: int | None) -> None:
        """Write one record."""

    def wake_at_ms(self) -> int | None:
        """When `on_wake` is next due (ms of processing time), or None. Asked after each chunk: time-based rolling."""
        return None

    def on_wake(self, now_ms: int) -> None:
        """The time that `wake_at_ms` returned is reached."""

    def flush(self, end_of_input: bool) -> None:
        """Write everything buffered so far out of this process's memory."""

    def prepare_savepoint(self) -> None:
        """The checkpoint that follows is a savepoint: `flush`, `prepare_commit` and `snapshot_state` come next.

        Several jobs may start from it, now and much later: hand over what only one can go on with.
        """

    def prepare_commit(self) -> list[Any]:
        """Picklable committables for what was written since the last call; [] if the sink commits nothing."""
        return []

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """What the writer needs to be restored. Called after `prepare_commit` of the same checkpoint.

        Picklable items that do not change any more. After a restart each goes to one subtask, by `Sink.restore_writer`.
        """
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete: no restart restores an earlier one."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` failed: what was prepared for it is committed with the next that completes."""

    def close(self) -> None:
        """Release what is open. Called once, also after a failure: what was not committed must not become visible."""


class Committer(ABC):
    """Makes what writers prepared visible. A commit may be repeated after a failure, so it must be idempotent."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None:
        """Publish all of these. Committing one that is already committed changes nothing."""

    def commit_again(self, committables: Sequence[Any]) -> None:
        """The checkpoint that holds these was restored: publish those that are not published yet."""
        self.commit(committables)

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove what these name: their attempt did not succeed."""


class Sink(ABC, Generic[T]):
    """Describes where results are written. Built by the user, pickled to the workers: holds settings, nothing open."""

    @abstractmethod
    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """A writer for one subtask."""

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """A writer for a subtask that continues from items of `SinkWriter.snapshot_state`, of one writer or several."""
        raise NotImplementedError(f"{type(self).__name__} cannot be restored from a snapshot: implement restore_writer")

    def create_committer(self) -> Committer | None:
        """A committer, or None if nothing needs a commit."""
        return None

    def validate(self) -> None:
        """Raise errors that can be known before anything runs. Called at submission, where the job is controlled."""

    def validate_without_checkpoints(self) -> None:
        """Raise a ConfigurationError if the sink needs checkpoints. Called at submission of a job that takes none."""

    def for_type(self, type_info: TypeInformation) -> Sink[T]:
        """This sink for a stream whose type is known. A sink that writes text may write that of the declared type."""
        return self

    def describe(self) -> str:
        """Where is written to, a path for example, in one line for `penstock explain`; empty: its name says it all."""
        return ""
