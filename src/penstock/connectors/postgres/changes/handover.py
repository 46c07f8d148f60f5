"""What one thread fetches and another one takes; neither polls, and only the first one waits."""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from penstock.common.errors import SourceError

T = TypeVar("T")

_ITEMS_MAX = 4
"""How many wait at most to be taken."""


class HasSocket(Protocol):
    """What can be waited for."""

    def fileno(self) -> int:
        """Of the socket."""


class Handover(Generic[T]):
    """`notify` is called when there is something to take, or an error. `is_closing`: nothing will be taken any more."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self.is_closing = False

    # Of the thread that takes.

    def take(self) -> T | None:
        """What comes next; None: nothing now. Raises SourceError for what has ended the other thread."""
        if self._items:
            item = self._items.popleft()
            self.ring()
            return item
        if self._error is not None:
            raise SourceError(str(self._error)) from self._error
        return None

    def ring(self) -> None:
        """Have the other thread look again, should it wait."""
        # It is full of rings that were not heard yet, or the thread has ended.
        with contextlib.suppress(OSError):
            self._ringer.send(b"\0")

    def close(self) -> None:
        """Have the other thread end."""
        self.is_closing = True
        self.ring()

    # Of the thread that fetches.

    @property
    def has_room(self) -> bool:
        """Whether more may be put."""
        return len(self._items) < _ITEMS_MAX

    @property
    def is_empty(self) -> bool:
        """Whether all was taken."""
        return not self._items

    def put(self, item: T) -> None:
        """Hand it over."""
        self._items.append(item)
        self._notify()

    def fail(self, error: BaseException) -> None:
        """Nothing more will come, for this reason."""
        self._error = error
        self._notify()

    def wait(self, stream: HasSocket | None, timeout_s: float | None) -> bool:
        """Until somebody rings, the time is over, or something has arrived at the stream, which is returned."""
        ready, _, _ = select.select([self._bell] if stream is None else [self._bell, stream], [], [], timeout_s)
        if self._bell in ready:
            with contextlib.suppress(BlockingIOError):
                self._bell.recv(4096)
        return stream is not None and stream in ready

    def end(self) -> None:
        """The thread that fetches has ended."""
        self._bell.close()
        self._ringer.close()
