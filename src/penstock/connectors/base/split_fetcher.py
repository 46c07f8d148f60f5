"""A thread that fetches what a reader hands on. The reader takes it without waiting.

Source: Flink's SplitFetcher.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.common.errors import JobError, SourceError
from penstock.common.functions.user_calls import RAISED
from penstock.connectors.base.handover import Handover
from penstock.connectors.base.retries import retried

T = TypeVar("T")

_CLOSE_S = 5.0


class SplitFetcher(ABC, Generic[T]):
    """Calls `fetch` while there is room, and the reader's orders between. All of a client is done by this one thread.

    A connection that is lost (TransientError) is given up, and the next call makes another one. A subclass calls
    `start` when it is ready.
    """

    def __init__(self, name: str, capacity: int, notify: Callable[[], None], max_retries: int = 0) -> None:
        """`name`: of the thread. `capacity`: of what waits for the reader, in the sizes that `put` is given.

        `notify` is called when there is something to take, or an error. `max_retries`: how often in a row a connection
        may be lost.
        """
        self.handover: Handover[T] = Handover(capacity, notify)
        self._max_retries = max_retries
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    # Of the reader.

    def take(self) -> T | None:
        """Return the next fetched value, or None. Raise the error that ended the thread."""
        return self.handover.take()

    def close(self) -> None:
        """Carry out what was ordered, end the thread and leave the server."""
        self.handover.close()
        self.interrupt()
        # It may wait for a server that does not answer; it ends after that by itself.
        self._thread.join(_CLOSE_S)

    def interrupt(self) -> None:
        """End what `fetch` waits for, unless that is the handover. The reader calls it, at the close."""

    # Of the thread.

    @abstractmethod
    def fetch(self) -> None:
        """Put what comes next. If nothing is there, wait for it, for an order and for the close."""

    def hold(self) -> None:
        """Called in the place of `fetch` while there is no room."""
        self.handover.wait()

    @abstractmethod
    def disconnect(self) -> None:
        """Give up the connection: it was lost, or the thread ends. There may be none."""

    def _run(self) -> None:
        try:
            while not self.handover.is_done:
                retried(self._work, self._max_retries, self._connect_later)
        except RAISED as error:
            self.handover.fail(_as_told(error))
        finally:
            try:
                self.disconnect()
            finally:
                self.handover.end()

    def _work(self) -> None:
        self.handover.carry_out_orders()
        if self.handover.is_closing:
            return
        if self.handover.has_room:
            self.fetch()
        else:
            self.hold()

    def _connect_later(self, seconds: float) -> None:
        self.disconnect()
        self.handover.pause(seconds)


def _as_told(error: BaseException) -> Exception:
    if isinstance(error, SourceError):
        return error
    told = SourceError(str(error) if isinstance(error, JobError) else repr(error))
    told.__cause__ = error
    return told
