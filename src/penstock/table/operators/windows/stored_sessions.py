"""Sessions in a store: on the heap are only their keys, each with the end of its first session."""

from __future__ import annotations

from typing import Any

import numpy

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.key_slots import FIRST_ROOM, KeySlots, bytes_of_keys
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys, keys_of_values
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.memory_budget import MemoryAccount

_NOT_STORED = numpy.iinfo(numpy.int64).max
_BYTES_OF_END = 8
MANY_GONE = 1024


class StoredSessions:
    """`table`: key -> (its sessions,), each of which begins with its start and end (ms).

    A key that was read is in the cache, and no longer here. The memory of keys counts, and is never refused: what is in
    the store must be found again.
    """

    def __init__(self, table: LayeredTable, memory: MemoryAccount) -> None:
        self._table = table
        self._memory = memory
        self.first_end: int | None = None
        """A time up to which no session ends before it; None: there is none."""
        self._begin()

    def _begin(self) -> None:
        self._keys = KeySlots()
        self._ends: Integers = numpy.full(FIRST_ROOM, _NOT_STORED)
        self._stored = 0
        """How many of the keys are those of sessions in the store alone."""

    def load(self) -> None:
        """Find what was restored."""
        found = [(key, min(one[1] for one in sessions)) for key, (sessions,) in self._table.items() if sessions]
        if found:
            keys, ends = zip(*found, strict=True)
            self.put(keys_of_values(list(keys)), numpy.array(ends, numpy.int64))

    def put(self, keys: RowKeys, first_ends: Integers) -> None:
        """Note distinct keys, whose sessions were written to the table and left the cache."""
        if not len(first_ends):
            return
        slots = self._keys.slots_of(keys)
        if self._keys.room > len(self._ends):
            self._ends = grown(self._ends, self._keys.room, _NOT_STORED)
        self._stored += int(numpy.count_nonzero(self._ends[slots] == _NOT_STORED))
        self._ends[slots] = first_ends
        lowest = int(first_ends.min())
        self.first_end = lowest if self.first_end is None else min(self.first_end, lowest)
        self._account()

    def have(self, keys: RowKeys) -> Mask:
        """Return which keys have sessions in the store alone."""
        slots = self._keys.find(keys)
        known = slots != MISSING
        there: Mask = numpy.zeros(len(slots), numpy.bool_)
        there[known] = self._ends[slots[known]] != _NOT_STORED
        return there

    def read(self, keys: list[Any]) -> list[Any]:
        """Return the values of distinct keys, which are in the cache from now on; None for those without one."""
        asked = keys_of_values(keys)
        there = self.have(asked)
        values: list[Any] = [None] * len(keys)
        places = numpy.flatnonzero(there).tolist()
        for place, value in zip(places, self._table.get_many([keys[place] for place in places]), strict=True):
            values[place] = value
        self._ends[self._keys.find(asked.at(there))] = _NOT_STORED
        self._stored -= len(places)
        gone = len(self._keys) - self._stored
        if gone > MANY_GONE and 2 * gone > len(self._keys):
            self._forget_read()
        return values

    def last_due(self, until: int) -> int | None:
        """Return the last of the first ends whose last millisecond is up to `until`; None: there is none."""
        if self.first_end is None or self.first_end - 1 > until:
            return None
        ends = self._ends[self._ends != _NOT_STORED]
        self.first_end = int(ends.min()) if len(ends) else None
        due = ends[ends - 1 <= until]
        return int(due.max()) if len(due) else None

    def due(self, end: int, count: int) -> list[Any]:
        """Return up to so many keys with a session that ends up to `end`."""
        found = numpy.flatnonzero((self._ends <= end) & (self._ends != _NOT_STORED))
        return self._keys.keys(found[:count])

    def _forget_read(self) -> None:
        slots = numpy.flatnonzero(self._ends[: len(self._keys)] != _NOT_STORED)
        keys, ends = self._keys.keys(slots), self._ends[slots]
        self._begin()
        self.put(keys_of_values(keys), ends)
        self._account()

    def _account(self) -> None:
        needed = bytes_of_keys(self._keys.room, self._keys.others_room) + _BYTES_OF_END * len(self._ends)
        more = needed - self._memory.bytes_held
        if more > 0:
            self._memory.take(more)
        else:
            self._memory.release(-more)
