"""Writes the records of one subtask in requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.stored import stored_as
from penstock.common.time.earliest import earliest
from penstock.connectors.base.execution import Execution
from penstock.connectors.http.sink.batch_numbers import BatchesOfWriter, BatchNumbers
from penstock.connectors.http.sink.body import HttpBody
from penstock.connectors.http.sink.delivery import Delivery
from penstock.connectors.http.sink.sender import Batch, BatchSender, Refused

_log = logging.getLogger(__name__)
_WAITING_MAX = 2


@stored_as("http-dead-letters-of-writer")
class DeadLettersOfWriter(msgspec.Struct, frozen=True):
    """In a checkpoint: an item of the state of the sink for dead letters."""

    state: Any


class RequestSettings(msgspec.Struct, frozen=True):
    """What is sent, and how."""

    delivery: Delivery
    body: HttpBody
    execution: Execution
    payload: Callable[[Any], Any] | None = None
    fails: bool = True
    """Whether the job fails for what the server does not take; else it is dead, or logged."""


class HttpWriter(SinkWriter[Any]):
    """Cuts records into batches, which a thread sends; a checkpoint waits until the server has all.

    `dead_letters`: the writer of another sink, for what the server does not take.
    """

    def __init__(
        self,
        settings: RequestSettings,
        context: SinkContext,
        restored: Sequence[BatchesOfWriter],
        dead_letters: SinkWriter[Any] | None,
    ) -> None:
        self._settings = settings
        self._context = context
        self._dead_letters = dead_letters
        self._numbers = BatchNumbers(context, restored)
        self._waiting: list[Any] = []
        self._due_ms: int | None = None
        self._sender = BatchSender(settings.delivery, _WAITING_MAX, keeps_refused=not settings.fails)

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        interval_ms = self._settings.execution.batch_interval_ms
        if not self._waiting and interval_ms:
            self._due_ms = self._context.now_ms() + interval_ms
        self._waiting += values
        self._send(self._settings.execution.batch_size)
        self._bury()

    def wake_at_ms(self) -> int | None:
        return earliest(self._due_ms, self._dead_letters.wake_at_ms() if self._dead_letters else None)

    def on_wake(self, now_ms: int) -> None:
        if self._due_ms is not None and self._due_ms <= now_ms:
            self._send(1)
        self._bury()
        if self._dead_letters is not None:
            at_ms = self._dead_letters.wake_at_ms()
            if at_ms is not None and at_ms <= now_ms:
                self._dead_letters.on_wake(now_ms)

    def flush(self, end_of_input: bool) -> None:
        self._send(1)
        self._sender.flush()
        self._bury()
        if self._dead_letters is not None:
            self._dead_letters.flush(end_of_input)

    def prepare_savepoint(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.prepare_savepoint()

    def prepare_commit(self) -> list[Any]:
        return [] if self._dead_letters is None else self._dead_letters.prepare_commit()

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        state: list[Any] = [self._numbers.snapshot()]
        if self._dead_letters is not None:
            state += map(DeadLettersOfWriter, self._dead_letters.snapshot_state(checkpoint_id))
        return state

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._dead_letters is not None:
            self._dead_letters.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if self._dead_letters is not None:
            self._dead_letters.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        try:
            self._sender.close()
        finally:
            if self._dead_letters is not None:
                self._dead_letters.close()

    def _send(self, least: int) -> None:
        """Send what waits, in batches, while there are so many records."""
        size, settings = self._settings.execution.batch_size, self._settings
        while len(self._waiting) >= least and self._waiting:
            records, self._waiting = self._waiting[:size], self._waiting[size:]
            payloads = records if settings.payload is None else list(map(settings.payload, records))
            body = settings.body.encode(payloads)
            self._sender.put(Batch(records, body, self._numbers.next_key(body)))
        if not self._waiting:
            self._due_ms = None

    def _bury(self) -> None:
        """Give away what the server does not take."""
        for refused in self._sender.take_refused():
            if self._dead_letters is None:
                _log.error("%d records are lost: %s", len(refused.batch.records), refused.error)
            else:
                self._dead_letters.write_chunk(_letters_of(refused), None)


def _letters_of(refused: Refused) -> list[dict[str, Any]]:
    reason = {"status": refused.error.status, "reason": str(refused.error), "key": refused.batch.key}
    return [{"record": record, **reason} for record in refused.batch.records]
