"""A thread that fetches records, which the reader takes without waiting.

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
    """Call `fetch` while there is room, and the calls that the reader submits. Only this thread uses the client.

    After a TransientError the thread closes the connection, and the next call opens another. A subclass calls `start`
    when it is ready.
    """

    def __init__(self, name: str, capacity: int, notify: Callable[[], None], max_retries: int = 0) -> None:
        """Set the name of the thread and the limits.

        `capacity`: of the elements that wait for the reader, in the sizes passed to `put`. `notify` is called when
        there is an element to take, or an error. `max_retries`: how often in a row a connection may be lost.
        """
        self.handover: Handover[T] = Handover(capacity, notify)
        self._max_retries = max_retries
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    # Methods of the reader.

    def take(self) -> T | None:
        """Return the next fetched value, or None. Raise the error that ended the thread."""
        return self.handover.take()

    def close(self) -> None:
        """Run the submitted calls, end the thread and disconnect."""
        self.handover.close()
        self.interrupt()
        # The thread may wait for a server that does not answer: it is a daemon and ends after that wait.
        self._thread.join(_CLOSE_S)

    def interrupt(self) -> None:
        """Interrupt a wait in `fetch` other than that of the handover. The reader calls this when it closes."""

    # Methods of the thread.

    @abstractmethod
    def fetch(self) -> None:
        """Put the next element. If there is none, wait for one, for a submitted call, and for the close."""

    def wait_for_room(self) -> None:
        """Wait. Called instead of `fetch` while there is no room."""
        self.handover.wait()

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection, if there is one: it was lost, or the thread ends."""

    def _run(self) -> None:
        try:
            while not self.handover.is_done:
                retried(self._work, self._max_retries, self._connect_later)
        except RAISED as error:
            self.handover.fail(_as_source_error(error))
        finally:
            try:
                self.disconnect()
            finally:
                self.handover.end()

    def _work(self) -> None:
        self.handover.run_submitted()
        if self.handover.is_closing:
            return
        if self.handover.has_room:
            self.fetch()
        else:
            self.wait_for_room()

    def _connect_later(self, seconds: float) -> None:
        self.disconnect()
        self.handover.pause(seconds)


def _as_source_error(error: BaseException) -> Exception:
    if isinstance(error, SourceError):
        return error
    source_error = SourceError(str(error) if isinstance(error, JobError) else repr(error))
    source_error.__cause__ = error
    return source_error
