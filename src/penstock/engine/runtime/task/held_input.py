"""The unbounded input of a head of supersteps: what arrives waits for the superstep that begins next.

arrived in this order             a superstep takes
records, records                  both
records, barrier, records         the first ones; the barrier waits for a boundary, and the rest behind it
records, end                      the records; the input is no longer open
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from penstock.engine.runtime.chunks import Chunk, ChunkKind
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header, encode
from penstock.engine.runtime.network.set_aside import BufferQueue

Barrier = tuple[int, Callable[[], None]]
"""The checkpoint of a barrier, and what takes the snapshot."""
_HEADERS = {kind: Header(NO_KEY_GROUP, 0, 0, sequence=0, target=0, attempt=0, kind=kind) for kind in ChunkKind}


class HeldInput:
    """Holds records, barriers and the end of an input, in order. `is_open`: whether the input has not ended."""

    def __init__(self, is_open: bool, new_queue: Callable[[], BufferQueue]) -> None:
        self._is_open = is_open
        self._new_queue = new_queue
        self._items: deque[BufferQueue | Barrier | None] = deque()
        """Records, a barrier, or None for the end."""

    @property
    def is_open(self) -> bool:
        """Whether more may come from this input: it has not ended, or holds something."""
        return self._is_open or bool(self._items)

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._items

    def hold(self, chunk: Chunk, kind: ChunkKind) -> None:
        """Hold records."""
        last = self._items[-1] if self._items else None
        if not isinstance(last, BufferQueue):
            last = self._new_queue()
            self._items.append(last)
        last.append(encode(_HEADERS[kind], [chunk]))

    def barrier(self, barrier: Barrier) -> None:
        """Hold a barrier."""
        self._items.append(barrier)

    def end(self) -> None:
        """Hold the end of the input."""
        self._items.append(None)

    def take(self, barriers: list[Barrier]) -> deque[BufferQueue]:
        """Remove and return the records up to the next barrier, which goes to `barriers`.

        Returns nothing while a barrier waits there: what is behind it belongs to no superstep before it.
        """
        taken: deque[BufferQueue] = deque()
        while self._items and not barriers:
            item = self._items.popleft()
            if item is None:
                self._is_open = False
            elif isinstance(item, BufferQueue):
                taken.append(item)
            else:
                barriers.append(item)
        return taken

    def abort(self, checkpoint_id: int) -> None:
        """Forget a barrier: its checkpoint was aborted."""
        self._items = deque(item for item in self._items if not (isinstance(item, tuple) and item[0] == checkpoint_id))

    def close(self) -> None:
        """Remove spilled buffers from disk."""
        for item in self._items:
            if isinstance(item, BufferQueue):
                item.close()
