"""The thread that sends batches, while the task goes on."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import msgspec

from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED
from penstock.connectors.http.endpoint import HttpError
from penstock.connectors.http.sink.delivery import Courier, Delivery

_CLOSE_S = 5.0


class Batch(msgspec.Struct, frozen=True):
    """Records, and the request that they are."""

    records: list[Any]
    body: bytes
    key: str


class Refused(msgspec.Struct, frozen=True):
    """A batch that is not sent any more, and why."""

    batch: Batch
    error: HttpError


class BatchSender:
    """Sends batches in their order. `waiting_max`: how many may wait; whoever puts another one waits then.

    `keeps_refused`: batches that the server does not take are kept for `take_refused`; else the first ends the sender.
    """

    def __init__(self, delivery: Delivery, waiting_max: int, keeps_refused: bool) -> None:
        self._waiting_max = waiting_max
        self._keeps_refused = keeps_refused
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        """The first is the one that is being sent."""
        self._refused: list[Refused] = []
        self._error: Exception | None = None
        self._closing = threading.Event()
        self._courier = Courier(delivery, lambda seconds: not self._closing.wait(seconds))
        self._thread = threading.Thread(target=self._run, name="penstock-http", daemon=True)
        self._thread.start()

    # Of the task.

    def put(self, batch: Batch) -> None:
        """Send it, after those before it. Raises what has ended the sender."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or len(self._batches) <= self._waiting_max)
            self._raise()
            self._batches.append(batch)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until the server has taken all, or has refused it. Raises what has ended the sender."""
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not self._batches)
            self._raise()

    def take_refused(self) -> list[Refused]:
        """What was refused since the last call, in order."""
        with self._changed:
            refused, self._refused = self._refused, []
        return refused

    def close(self) -> None:
        """End the thread, whatever it is at; what was not sent is not sent."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        self._courier.interrupt()
        # It may wait for a connection; it ends after that by itself.
        self._thread.join(_CLOSE_S)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    # Of the thread.

    def _run(self) -> None:
        try:
            while (batch := self._next()) is not None:
                self._send(batch)
        except RAISED as error:
            with self._changed:
                self._error = error if isinstance(error, JobError) else JobError(repr(error))
                self._changed.notify_all()
        finally:
            self._courier.close()

    def _next(self) -> Batch | None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._batches) or self._closing.is_set())
            return None if self._closing.is_set() else self._batches[0]

    def _send(self, batch: Batch) -> None:
        refused: list[Refused] = []
        try:
            self._courier.deliver(batch.body, batch.key)
        except HttpError as error:
            if not self._keeps_refused or self._closing.is_set():
                raise
            refused.append(Refused(batch, error))
        with self._changed:
            self._refused += refused
            self._batches.popleft()
            self._changed.notify_all()
