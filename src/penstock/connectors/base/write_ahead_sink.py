"""A sink for targets without transactions: values are held in checkpoints and sent once their checkpoint is complete.

    write, write, ...      values are buffered in memory
    snapshot n             they become batch n of the log, and the log is part of the snapshot
    n is complete          send_values, then the committer records it, then the batch is removed from the log

Source: Flink, `GenericWriteAheadSink` and `CheckpointCommitter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.connectors.base.log_writer import Batch, Logged, LogWriter

T = TypeVar("T")


class CheckpointCommitter(ABC):
    """Record outside of the job which batches were sent. Pickled to the workers with its sink.

    A batch is identified by `log_id`, which is unique over all subtasks and jobs, and its checkpoint id.
    """

    def open(self) -> None:
        """Called once in each subtask before all other methods. Connect and create the table here."""

    @abstractmethod
    def commit_checkpoint(self, log_id: str, checkpoint_id: int) -> None:
        """Record that the batch was sent."""

    @abstractmethod
    def is_checkpoint_committed(self, log_id: str, checkpoint_id: int) -> bool:
        """Return whether the batch is recorded as sent."""

    def close(self) -> None:
        """Called once in each subtask at the end, also after a failure."""


class WriteAheadSink(Sink[T], Generic[T]):
    """Base class with one method to implement, `send_values`. A batch is sent whole, in order, after its checkpoint.

    Delivery is at least once: if a process is killed between `send_values` and `commit_checkpoint`, the batch is sent
    again after the restart. It is exactly once if sending a batch is idempotent, or if `send_values` and the committer
    write in one transaction. Without a committer every restart sends the latest batch again.

    Memory and snapshots hold the values of one checkpoint interval. Without checkpoints, and in batched mode, values
    are sent as they arrive, with checkpoint id 0, and a task that runs twice sends them twice.
    """

    committer: CheckpointCommitter | None = None

    def __init__(self, committer: CheckpointCommitter | None = None) -> None:
        self.committer = committer

    def open(self, context: SinkContext) -> None:
        """Called once in each subtask before all other methods. Connect here."""

    @abstractmethod
    def send_values(self, values: Sequence[T], checkpoint_id: int, timestamp: int) -> bool:
        """Send a batch. Return False to retry when the next checkpoint completes; later batches wait as well.

        `timestamp`: processing time in ms at which the subtask took its snapshot.
        """

    def close(self) -> None:
        """Called once in each subtask at the end, also after a failure."""

    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """Create a writer with an empty log."""
        return _SendingWriter(self, context, [])

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """Create a writer that first sends the restored log: the checkpoint that contains it is complete."""
        return _SendingWriter(self, context, state)


class _SendingWriter(LogWriter[T]):
    """Let the sink send a batch, then the committer record it."""

    def __init__(self, sink: WriteAheadSink[T], context: SinkContext, log: list[Logged]) -> None:
        self._sink = sink
        self._context = context
        sink.open(context)
        if sink.committer is not None:
            sink.committer.open()
        super().__init__(context, log)

    def write_chunk(self, values: list[T], timestamps: list[int] | None) -> None:
        if self._context.checkpointing:
            super().write_chunk(values, timestamps)
        elif not self._sink.send_values(values, 0, self._context.now_ms()):
            raise RuntimeError("send_values returned False, but without checkpoints there is no retry")

    def send(self, batch: Batch) -> bool:
        committer = self._sink.committer
        if committer is not None and committer.is_checkpoint_committed(batch.log_id, batch.checkpoint_id):
            return True
        # Send first, then record: a crash in between repeats the batch. The other order would lose it.
        if not self._sink.send_values(batch.values, batch.checkpoint_id, batch.timestamp):
            return False
        if committer is not None:
            committer.commit_checkpoint(batch.log_id, batch.checkpoint_id)
        return True

    def close(self) -> None:
        try:
            self._sink.close()
        finally:
            if self._sink.committer is not None:
                self._sink.committer.close()
