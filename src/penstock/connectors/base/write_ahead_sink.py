"""A sink for targets without transactions: values are held in checkpoints and sent once their checkpoint is complete.

    write, write, ...      values are buffered in memory
    snapshot n             they become batch n of the log, and the log is part of the snapshot
    n is complete          send_values, then the committer records it, then the batch is removed from the log

Source: Flink, `GenericWriteAheadSink` and `CheckpointCommitter`.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common.stored import stored_as

T = TypeVar("T")


class CheckpointCommitter(ABC):
    """Records outside of the job which batches were sent. Pickled to the workers with its sink.

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
        """Called once in each subtask at the very end, also after a failure."""


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
        """Called once in each subtask at the very end, also after a failure."""

    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """Create a writer with an empty log."""
        return _LogWriter(self, context, [])

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """Create a writer that first sends the restored log: the checkpoint that contains it is complete."""
        return _LogWriter(self, context, state)


@stored_as("batch-to-send")
class Batch(msgspec.Struct, frozen=True):
    """The values of one writer that belong to one checkpoint."""

    log_id: str
    checkpoint_id: int
    timestamp: int
    values: list[Any]


def _in_order(log: list[Batch]) -> list[Batch]:
    """Sort by time; batches of one writer keep their order even if its clock was set back."""
    latest: dict[str, int] = {}
    keyed = []
    for batch in sorted(log, key=lambda batch: (batch.log_id, batch.checkpoint_id)):
        latest[batch.log_id] = max(latest.get(batch.log_id, batch.timestamp), batch.timestamp)
        keyed.append((latest[batch.log_id], batch.log_id, batch.checkpoint_id, batch))
    return [batch for *_, batch in sorted(keyed, key=lambda item: item[:3])]


class _LogWriter(SinkWriter[T]):
    def __init__(self, sink: WriteAheadSink[T], context: SinkContext, log: list[Batch]) -> None:
        self._sink = sink
        self._context = context
        # New at each start: a restored job and a second job started from the same savepoint both count checkpoints up
        # from the same id, and their batches must not be taken for one another.
        self._id = uuid.uuid4().hex
        self._values: list[T] = []
        # After a rescale, the state of several writers is merged here.
        self._log = deque(_in_order(log))
        self._ended = False
        sink.open(context)
        if sink.committer is not None:
            sink.committer.open()
        while self._log and self._sent(self._log[0]):
            self._log.popleft()

    def write(self, value: T, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[T], timestamps: list[int] | None) -> None:
        if self._context.checkpointing:
            self._values += values
        elif not self._sink.send_values(values, 0, self._context.now_ms()):
            raise RuntimeError("send_values returned False, but without checkpoints there is no retry")

    def flush(self, end_of_input: bool) -> None:
        self._ended = self._ended or end_of_input

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        if self._values:
            self._log.append(Batch(self._id, checkpoint_id, self._context.now_ms(), self._values))
            self._values = []
        return list(self._log)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        while self._log and self._is_complete(self._log[0], checkpoint_id):
            if not self._sent(self._log[0]):
                if self._ended:
                    raise RuntimeError("send_values returned False after the end of the data: there may be no retry")
                return
            self._log.popleft()

    def close(self) -> None:
        try:
            self._sink.close()
        finally:
            if self._sink.committer is not None:
                self._sink.committer.close()

    def _is_complete(self, batch: Batch, checkpoint_id: int) -> bool:
        # A batch of another writer came from a restored snapshot, and only complete checkpoints are restored.
        return batch.log_id != self._id or batch.checkpoint_id <= checkpoint_id

    def _sent(self, batch: Batch) -> bool:
        """Send a batch unless the committer has it recorded as sent. Return False if it could not be sent now."""
        committer = self._sink.committer
        if committer is not None and committer.is_checkpoint_committed(batch.log_id, batch.checkpoint_id):
            return True
        # Send first, then record: a crash in between repeats the batch. The other order would lose it.
        if not self._sink.send_values(batch.values, batch.checkpoint_id, batch.timestamp):
            return False
        if committer is not None:
            committer.commit_checkpoint(batch.log_id, batch.checkpoint_id)
        return True
