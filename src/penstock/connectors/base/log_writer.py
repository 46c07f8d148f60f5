"""Base class of writers that hold values in checkpoints, and send them once their checkpoint is complete."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.stored import stored_as

T = TypeVar("T")


@stored_as("batch-to-send")
class Batch(msgspec.Struct, frozen=True):
    """The values of one writer that belong to one checkpoint."""

    log_id: str
    checkpoint_id: int
    timestamp: int
    values: list[Any]


@stored_as("batches-to-send")
class Batches(msgspec.Struct, frozen=True):
    """The log of a writer. It stays together at another parallelism, because it is sent in order."""

    batches: list[Batch]


Logged = Batch | Batches
"""An item of state. Earlier versions of penstock stored single batches."""


def _batches_in(log: Sequence[Logged]) -> list[Batch]:
    batches: list[Batch] = []
    for item in log:
        batches += item.batches if isinstance(item, Batches) else [item]
    return batches


def _in_order(log: Sequence[Batch]) -> list[Batch]:
    """Sort by time; batches of one writer keep their order even if its clock was set back."""
    latest: dict[str, int] = {}
    keyed = []
    for batch in sorted(log, key=lambda batch: (batch.log_id, batch.checkpoint_id)):
        latest[batch.log_id] = max(latest.get(batch.log_id, batch.timestamp), batch.timestamp)
        keyed.append((latest[batch.log_id], batch.log_id, batch.checkpoint_id, batch))
    return [batch for *_, batch in sorted(keyed, key=lambda item: item[:3])]


class LogWriter(SinkWriter[T], Generic[T]):
    """Keep a log of batches. Restored batches are sent immediately: their checkpoint is complete."""

    def __init__(self, context: SinkContext, log: Sequence[Logged]) -> None:
        self._context = context
        # New at each start: a restored job and a second job started from the same savepoint both count checkpoints up
        # from the same id, and their batches must stay distinct.
        self._id = uuid.uuid4().hex
        self._values: list[T] = []
        # After a rescale, the state of several writers is merged here.
        self._log = deque(_in_order(_batches_in(log)))
        self._ended = False
        while self._log and self.send(self._log[0]):
            self._log.popleft()

    @abstractmethod
    def send(self, batch: Batch) -> bool:
        """Send a batch unless it was sent before. Return False if it could not be sent now."""

    def is_own(self, batch: Batch) -> bool:
        """Return whether the batch is of this writer. Batches of other writers may have been sent by them."""
        return batch.log_id == self._id

    def write(self, value: T, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[T], timestamps: list[int] | None) -> None:
        self._values += values

    def flush(self, end_of_input: bool) -> None:
        self._ended = self._ended or end_of_input

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        if self._values:
            self._log.append(Batch(self._id, checkpoint_id, self._context.now_ms(), self._values))
            self._values = []
        return [Batches(list(self._log))] if self._log else []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        while self._log and self._is_complete(self._log[0], checkpoint_id):
            if not self.send(self._log[0]):
                if self._ended:
                    raise RuntimeError("send_values returned False after the end of the data: it may not be retried")
                return
            self._log.popleft()

    def _is_complete(self, batch: Batch, checkpoint_id: int) -> bool:
        # A batch of another writer came from a restored snapshot, and only complete checkpoints are restored.
        return not self.is_own(batch) or batch.checkpoint_id <= checkpoint_id
