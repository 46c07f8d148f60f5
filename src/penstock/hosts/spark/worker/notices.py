"""What threads of readers have said: that there is something to be polled. It goes to the slot's thread by a queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.engine.runtime.task.events import DataAvailable


class ReaderNotices:
    """Those of a slot's readers. `ring` wakes the slot's thread, and any thread may call it."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._said: deque[int] = deque()

    def notify(self, vertex: int) -> None:
        """The reader of this vertex has something. Any thread may call it."""
        self._said.append(vertex)
        self._ring()

    def take(self) -> list[tuple[int, DataAvailable]]:
        """What was said since the last call, once by vertex. Called by the slot's thread."""
        vertices: set[int] = set()
        while self._said:
            vertices.add(self._said.popleft())
        return [(vertex, DataAvailable()) for vertex in vertices]
