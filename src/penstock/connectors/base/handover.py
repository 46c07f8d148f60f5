"""Between the thread that fetches and the one that reads: elements one way, orders the other.

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
    """Wait for this."""

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""


class Handover(Generic[T]):
    """Only the thread that fetches waits, by a bell: for an order, for room, for the end, or for its server as well.

    `capacity`: how much may wait to be taken before there is no room; what is fetched then comes on top. `notify` is
    called when there is something to take, or an error.
    """

    def __init__(self, capacity: int, notify: Callable[[], None]) -> None:
        self._capacity = capacity
        self._notify = notify
        self._lock = threading.Lock()
        self._elements: deque[tuple[T, int]] = deque()
        self._waiting = 0
        """The size of the elements."""
        self._orders: deque[Callable[[], None]] = deque()
        self._error: Exception | None = None
        self._is_closing = False
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        # Not select(), which refuses sockets of a process that has many files open.
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)

    # Of the thread that reads. None of these waits.

    def take(self) -> T | None:
        """What comes next; None: nothing now. Raises what has ended the other thread, behind what it had fetched."""
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

    def order(self, order: Callable[[], None]) -> None:
        """Have the other thread call this, before it fetches on."""
        with self._lock:
            self._orders.append(order)
            self._ring()

    def close(self) -> None:
        """Have the other thread end, when it has carried out its orders."""
        with self._lock:
            self._is_closing = True
            self._ring()

    # Of the thread that fetches.

    @property
    def has_room(self) -> bool:
        """Whether more may be fetched."""
        return self._waiting < self._capacity

    @property
    def is_closing(self) -> bool:
        """Whether nothing will be taken any more."""
        return self._is_closing

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self._is_closing and not self._orders

    def carry_out_orders(self) -> None:
        """In their order. One that raises stays, and is the first the next time."""
        while self._orders:
            self._orders[0]()
            self._orders.popleft()

    def put(self, element: T, size: int = 1) -> None:
        """Hand it over, whether there is room or not."""
        with self._lock:
            self._elements.append((element, size))
            self._waiting += size
        self._notify()

    def fail(self, error: Exception) -> None:
        """Nothing more will come, for this reason."""
        self._error = error
        self._notify()

    def wait(self, stream: HasSocket | None = None, timeout_s: float | None = None) -> bool:
        """Until the bell rings, the time is over, or something has arrived at the stream, which is returned.

        It has rung if anything that it rings for has happened since the last call: look before you wait.
        """
        if stream is None:
            return self._select(timeout_s)
        self._selector.register(stream, selectors.EVENT_READ)
        try:
            return self._select(timeout_s)
        finally:
            self._selector.unregister(stream)

    def pause(self, seconds: float) -> None:
        """Until the time is over, or the end."""
        until_s = time.monotonic() + seconds
        while not self._is_closing and (left_s := until_s - time.monotonic()) > 0:
            self.wait(timeout_s=left_s)

    def end(self) -> None:
        """The thread that fetches has ended."""
        self._selector.close()
        # Whoever rings at this moment would ring at a socket of somebody else that gets the same number.
        with self._lock:
            self._bell.close()
            self._ringer.close()

    def _ring(self) -> None:
        """Under the lock."""
        # It is full of rings that were not heard yet, or the thread has ended.
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    def _select(self, timeout_s: float | None) -> bool:
        ready = [key.fileobj for key, _ in self._selector.select(timeout_s)]
        if self._bell in ready:
            with contextlib.suppress(BlockingIOError):
                self._bell.recv(4096)
            ready.remove(self._bell)
        return bool(ready)
