"""Base class of writers that send records in batches, at least once."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from penstock.api.sink import SinkContext, SinkWriter
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.retries import retried


class BatchWriter(SinkWriter[Any]):
    """Send a batch when it is full, when its interval ends, and before each checkpoint, which waits for it.

    After a TransientError a batch is sent again, at most `max_retries` times.
    """

    def __init__(self, execution: Execution, context: SinkContext) -> None:
        self._execution = execution
        self._context = context
        self._batch: list[Any] = []
        self._due_ms: int | None = None

    @abstractmethod
    def encode(self, values: list[Any]) -> list[Any]:
        """Return the values that are sent for records, in their order."""

    @abstractmethod
    def send(self, batch: list[Any]) -> None:
        """Send a batch, in order. Raise TransientError if another try may succeed."""

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        self.start_interval()
        self._batch += self.encode(values)
        if len(self._batch) >= self._execution.batch_size:
            self.send_all()

    def start_interval(self) -> None:
        """Set the time at which what waits is sent at the latest, unless something waits already."""
        if self._due_ms is None and self._execution.batch_interval_ms:
            self._due_ms = self._context.now_ms() + self._execution.batch_interval_ms

    def wake_at_ms(self) -> int | None:
        return self._due_ms

    def on_wake(self, now_ms: int) -> None:
        self.send_all()

    def flush(self, end_of_input: bool) -> None:
        self.send_all()

    def send_all(self) -> None:
        """Send what waits."""
        waiting, self._batch, self._due_ms = self._batch, [], None
        size = self._execution.batch_size
        for start in range(0, len(waiting), size):
            batch = waiting[start : start + size]
            retried(lambda batch=batch: self.send(batch), self._execution.max_retries)  # type: ignore[misc]
