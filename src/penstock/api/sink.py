"""Interfaces of sinks, which write results.

A `Sink` is a description, pickled to the workers. Each subtask has a `SinkWriter`. A sink that publishes its output in
a second step (files renamed, transactions committed) also has a `Committer`: `SinkWriter.prepare_commit` returns
*committables*, and the output that they identify becomes visible when the committer has run. In batched mode the driver
commits the output of successful attempts after the job has succeeded. In pipelined mode output is committed after each
completed checkpoint, or, if checkpoints are off, at the end of the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.common.types.basic_types import TypeInformation

T = TypeVar("T")


class SinkContext(Protocol):
    """The writer's view of its subtask."""

    @property
    def subtask(self) -> int:
        """Index of this subtask, from 0."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks of the sink."""

    @property
    def attempt(self) -> str:
        """Id of this attempt of this subtask, unique over all jobs. Uncommitted output should carry it in its name."""

    @property
    def job_id(self) -> str:
        """Id of the job, the same in all its runs and attempts."""

    @property
    def operator_id(self) -> str:
        """Id of the sink within its job, the same in all runs: its uid."""

    @property
    def is_restored(self) -> bool:
        """Whether the subtask continues from a snapshot, with or without state of the writer."""

    @property
    def checkpointing(self) -> bool:
        """Whether the job takes checkpoints and so notifies the writer of completed ones."""

    def now_ms(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    def current_watermark(self) -> int:
        """Return the current watermark of the subtask, in milliseconds."""


class SinkWriter(ABC, Generic[T]):
    """Writes the records of one subtask. All methods are called from one thread."""

    def write_chunk(self, values: list[T], timestamps: list[int] | None) -> None:
        """Write a chunk, in order. Override it if a whole chunk can be written in one step."""
        if timestamps is None:
            for value in values:
                self.write(value, None)
        else:
            for value, timestamp in zip(values, timestamps, strict=True):
                self.write(value, timestamp)

    @abstractmethod
    def write(self, value: T, timestamp: int | None) -> None:
        """Write one record. `timestamp` is its event time (ms), or None."""

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        """Write a pyarrow.RecordBatch of the columns for which the sink's `takes_columns` is True, in order.

        `timestamps`: the event times of its rows (ms), an array of int64, or None.
        """
        raise NotImplementedError(f"{type(self).__name__} writes records only")

    def wake_at_ms(self) -> int | None:
        """Return when to call `on_wake` (ms of processing time), or None. Called after each chunk."""
        return None

    def on_wake(self, now_ms: int) -> None:
        """Do what is due, such as rolling a file by age. Called when the time that `wake_at_ms` returned is reached."""

    def flush(self, end_of_input: bool) -> None:
        """Write everything buffered so far to the external system."""

    def prepare_savepoint(self) -> None:
        """Prepare for a savepoint. `flush`, `prepare_commit` and `snapshot_state` are called next.

        Several jobs may start from a savepoint, also much later: commit whatever only one job could continue, such as
        an open transaction.
        """

    def prepare_commit(self) -> list[Any]:
        """Return picklable committables for the output since the last call; [] if there is nothing to commit."""
        return []

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the writer's state: picklable items, which must not change afterwards.

        Called after `prepare_commit` of the same checkpoint. After a restart each item goes to one subtask, by
        `Sink.restore_writer`.
        """
        return []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Act on a completed checkpoint: no restart restores an earlier one."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Act on an aborted checkpoint: its committables are committed with the next completed one."""

    def close(self) -> None:
        """Release open resources. Called once, also after a failure: uncommitted output must not become visible."""


class Committer(ABC):
    """Makes prepared output visible. A commit may be repeated after a failure, so it must be idempotent."""

    @abstractmethod
    def commit(self, committables: Sequence[Any]) -> None:
        """Publish all of these. Committing a committed one again must change nothing."""

    def commit_again(self, committables: Sequence[Any]) -> None:
        """Publish those that are not published yet. Called after a restore, with the committables of the checkpoint."""
        self.commit(committables)

    def abort(self, committables: Sequence[Any]) -> None:
        """Remove the output of these: their attempt did not succeed."""


class Sink(ABC, Generic[T]):
    """Describes where results are written. It is pickled to the workers: it holds settings, and no open resources."""

    @abstractmethod
    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """Return a writer for one subtask."""

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """Return a writer that continues from `state`: items of `SinkWriter.snapshot_state`, of one or more writers."""
        raise NotImplementedError(f"{type(self).__name__} cannot be restored from a snapshot: implement restore_writer")

    def create_committer(self) -> Committer | None:
        """Return a committer, or None if nothing needs a commit."""
        return None

    def validate(self) -> None:
        """Raise errors that can be detected before the job runs. Called at submission, in the job's driver."""

    def validate_without_checkpoints(self) -> None:
        """Raise ConfigurationError if the sink needs checkpoints. Called at submission of a job without checkpoints."""

    def event_time_warning(self) -> str:
        """Return what surprises users of this sink in a job with watermarks, in one line; "": nothing does."""
        return ""

    def for_type(self, type_info: TypeInformation) -> Sink[T]:
        """Return the sink for records of this declared type. A sink that writes text may format them by it."""
        return self

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether writers can write batches of these columns; else they get records."""
        return False

    def describe(self) -> str:
        """Return the target, such as a path, in one line for `penstock explain`; empty if the name is enough."""
        return ""
