"""The keys of windows whose contents are in a store, on the heap: a store can't list those of one window."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.engine.state.arrays.key_slots import KeySlots, bytes_of_keys
from penstock.engine.state.arrays.row_keys import RowKeys, keys_of_values
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.memory_budget import MemoryAccount

KEYS_AT_ONCE = 1 << 12
"""So many keys of a window are read from the store at a time, and are in memory together."""


class StoredKeys:
    """Windows, or slices, by their ends (ms), each with the keys of which the store may have a content.

    Their memory counts, and is never refused: what is in the store must be found again.
    """

    def __init__(self, memory: MemoryAccount) -> None:
        self._memory = memory
        self._of_ends: dict[int, KeySlots] = {}
        self._bytes: dict[int, int] = {}

    @property
    def ends(self) -> Collection[int]:
        """The windows that have keys."""
        return self._of_ends.keys()

    def has(self, end: int) -> bool:
        """Return whether a window has keys."""
        return end in self._of_ends

    def of(self, end: int) -> list[Any]:
        """Return the keys of a window, each once."""
        keys = self._of_ends.get(end)
        return [] if keys is None else keys.keys(slice(None))

    def add(self, end: int, keys: RowKeys) -> None:
        """Add keys to a window."""
        slots = self._of_ends.setdefault(end, KeySlots())
        slots.slots_of(keys)
        needed = bytes_of_keys(slots.room, slots.others_room)
        self._memory.take(needed - self._bytes.get(end, 0))
        self._bytes[end] = needed

    def drop(self, end: int) -> None:
        """Forget a window."""
        if self._of_ends.pop(end, None) is not None:
            self._memory.release(self._bytes.pop(end))

    def load(self, table: LayeredTable) -> None:
        """Add the keys of a table that was restored. Its entry keys are (key, end of the window)."""
        of_ends: dict[int, list[Any]] = {}
        entry_keys = table.keys()
        for key, end in entry_keys:
            of_ends.setdefault(end, []).append(key)
        for end, keys in of_ends.items():
            self.add(end, keys_of_values(keys))
