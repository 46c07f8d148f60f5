"""A sink for targets without transactions: values wait in the checkpoint, and are sent when it is complete.

    write, write, ...      gathered in memory
    snapshot n             they are put in the log, as the batch of n; the log is part of the snapshot
    n is complete          send_values, then the committer notes it, then the batch leaves the log

Source: Flink, `GenericWriteAheadSink` and `CheckpointCommitter`.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from penstock.common.stored import stored_as
from penstock.runtime.sink import Sink, SinkContext, SinkWriter

T = TypeVar("T")


class CheckpointCommitter(ABC):
    """Remembers, outside of the job, which batches have been sent. Pickled to the workers with its sink.

    A batch is named by `log_id`, which no other subtask or job ever has, and the checkpoint whose batch it is.
    """

    def open(self) -> None:
        """Called once in each subtask, before all else: the place to connect, and to make the table."""

    @abstractmethod
    def commit_checkpoint(self, log_id: str, checkpoint_id: int) -> None:
        """The batch has been sent."""

    @abstractmethod
    def is_checkpoint_committed(self, log_id: str, checkpoint_id: int) -> bool:
        """Whether that batch is known to have been sent."""

    def close(self) -> None:
        """Called once in each subtask, at the very end, also after a failure."""


class WriteAheadSink(Sink[T], Generic[T]):
    """Extend it with `send_values`. A batch is sent whole, in order, and only when its checkpoint is complete.

    At least once: when a process is killed between `send_values` and the committer's note, the batch is sent again
    after the restart. Once, if sending a batch twice has the effect of sending it once, or if `send_values` and the
    committer write in one transaction. Without a committer every restart sends the latest batch again.

    Memory and snapshots hold what comes between two checkpoints. Without checkpoints, and in batched mode, values are
    sent as they come, with 0 as the checkpoint's number, and a task that runs twice sends them twice.
    """

    committer: CheckpointCommitter | None = None

    def __init__(self, committer: CheckpointCommitter | None = None) -> None:
        self.committer = committer

    def open(self, context: SinkContext) -> None:
        """Called once in each subtask, before all else: the place to connect."""

    @abstractmethod
    def send_values(self, values: Sequence[T], checkpoint_id: int, timestamp: int) -> bool:
        """Send a batch. False: not now, try again when the next checkpoint is complete; batches after it wait too.

        `timestamp`: ms of processing time, when the subtask took its part of the checkpoint.
        """

    def close(self) -> None:
        """Called once in each subtask, at the very end, also after a failure."""

    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """A writer with an empty log."""
        return _LogWriter(self, context, [])

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """A writer that first sends what is in the log: the checkpoint that held it is complete."""
        return _LogWriter(self, context, state)


@stored_as("batch-to-send")
class Batch(msgspec.Struct, frozen=True):
    """Values that belong to a checkpoint of one writer."""

    log_id: str
    checkpoint_id: int
    timestamp: int
    values: list[Any]


def _in_order(log: list[Batch]) -> list[Batch]:
    """By time, and those of one writer as it wrote them, also if its clock was set back meanwhile."""
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
        # Of its own at each start: a batch that another program has sent under this number is another batch.
        self._id = uuid.uuid4().hex
        self._values: list[T] = []
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
            raise RuntimeError("send_values returned False, and without checkpoints there is no later")

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
                    raise RuntimeError("send_values returned False after the end of the data: there may be no later")
                return
            self._log.popleft()

    def close(self) -> None:
        try:
            self._sink.close()
        finally:
            if self._sink.committer is not None:
                self._sink.committer.close()

    def _is_complete(self, batch: Batch, checkpoint_id: int) -> bool:
        return batch.log_id != self._id or batch.checkpoint_id <= checkpoint_id

    def _sent(self, batch: Batch) -> bool:
        """Send a batch, unless that was done before. False: it could not be sent now."""
        committer = self._sink.committer
        if committer is not None and committer.is_checkpoint_committed(batch.log_id, batch.checkpoint_id):
            return True
        if not self._sink.send_values(batch.values, batch.checkpoint_id, batch.timestamp):
            return False
        if committer is not None:
            committer.commit_checkpoint(batch.log_id, batch.checkpoint_id)
        return True
