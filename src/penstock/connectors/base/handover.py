"""Pass elements from a fetching thread to a reading thread, and calls in the other direction.

Source: Flink's FutureCompletingBlockingQueue and the tasks of its SplitFetcher.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class HasSocket(Protocol):
    """An object that a selector can wait for."""

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""


class Handover(Generic[T]):
    """A queue between two threads, of which only the fetching one waits.

    It waits for a bell, which rings for a submitted call, for room and for the close, or for data of its server.

    `capacity`: there is room while the waiting elements have less than this size; the element that exceeds it still
    fits. `notify` is called when there is an element to take, or an error.
    """

    def __init__(self, capacity: int, notify: Callable[[], None]) -> None:
        self._capacity = capacity
        self._notify = notify
        self._lock = threading.Lock()
        self._elements: deque[tuple[T, int]] = deque()
        self._waiting = 0
        """The size of the waiting elements."""
        self._submitted: deque[Callable[[], None]] = deque()
        self._error: Exception | None = None
        self._is_closing = False
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        # DefaultSelector, because select() refuses sockets of a process that has many files open.
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)

    # Methods of the reading thread. They do not wait.

    def take(self) -> T | None:
        """Return the next element, or None. After the last element raise the error that ended the other thread."""
        with self._lock:
            if not self._elements:
                if self._error is not None:
                    raise self._error
                return None
            had_room = self.has_room
            element, size = self._elements.popleft()
            self._waiting -= size
            if self.has_room and not had_room:
                self._ring()
        return element

    def submit(self, call: Callable[[], None]) -> None:
        """Let the fetching thread call this before it fetches again."""
        with self._lock:
            self._submitted.append(call)
            self._ring()

    def close(self) -> None:
        """Let the fetching thread end after it has run the submitted calls."""
        with self._lock:
            self._is_closing = True
            self._ring()

    # Methods of the fetching thread.

    @property
    def has_room(self) -> bool:
        """Return whether more may be fetched."""
        return self._waiting < self._capacity

    @property
    def is_closing(self) -> bool:
        """Return whether the reader has stopped taking elements."""
        return self._is_closing

    @property
    def is_done(self) -> bool:
        """Return whether the thread may end."""
        return self._is_closing and not self._submitted

    def run_submitted(self) -> None:
        """Run the submitted calls in order. A call that raises stays, and is the first of the next run."""
        while self._submitted:
            self._submitted[0]()
            self._submitted.popleft()

    def put(self, element: T, size: int = 1) -> None:
        """Add an element, whether there is room or not."""
        with self._lock:
            self._elements.append((element, size))
            self._waiting += size
        self._notify()

    def fail(self, error: Exception) -> None:
        """End the elements with this error."""
        self._error = error
        self._notify()

    def wait(self, stream: HasSocket | None = None, timeout_s: float | None = None) -> bool:
        """Wait for the bell, the timeout, or data at the stream; return whether the stream has data.

        The bell has rung if its events happened since the last call: check for them before you wait.
        """
        if stream is None:
            return self._select(timeout_s)
        self._selector.register(stream, selectors.EVENT_READ)
        try:
            return self._select(timeout_s)
        finally:
            self._selector.unregister(stream)

    def pause(self, seconds: float) -> None:
        """Wait until the time has passed, or the reader closes."""
        until_s = time.monotonic() + seconds
        while not self._is_closing and (left_s := until_s - time.monotonic()) > 0:
            self.wait(timeout_s=left_s)

    def end(self) -> None:
        """Release the sockets: the fetching thread has ended."""
        self._selector.close()
        # Under the lock: `_ring` could otherwise write to another socket that reuses the file descriptor.
        with self._lock:
            self._bell.close()
            self._ringer.close()

    def _ring(self) -> None:
        """Ring the bell. The caller holds the lock."""
        # The socket is full of unread rings, or the thread has ended.
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    def _select(self, timeout_s: float | None) -> bool:
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        if self._bell in ready:
            with contextlib.suppress(BlockingIOError):
                self._bell.recv(4096)
            ready.remove(self._bell)
        return bool(ready)
