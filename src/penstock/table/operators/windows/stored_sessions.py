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
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime

_NOT_STORED = numpy.iinfo(numpy.int64).max
_LAST = _NOT_STORED - 1
_BYTES_OF_END = 24
"""With its place in the order of ends."""
MANY_GONE = 1024


class StoredSessions:
    """`table`: key -> (its sessions,), each of which begins with its start and end (ms).

    A key that was read is in the cache, and no longer here. The memory of keys counts, and is never refused: what is in
    the store must be found again.
    """

    def __init__(self, table: LayeredTable, memory: MemoryAccount) -> None:
        self._table = table
        self._memory = memory
        self._begin()

    def _begin(self) -> None:
        self._keys = KeySlots()
        self._ends: Integers = numpy.full(FIRST_ROOM, _NOT_STORED)
        self._stored = 0
        """How many of the keys are those of sessions in the store alone."""
        self._by_end = NumbersByTime()
        """Slots by ends. Only one that a slot still has counts."""
        self._due: Integers = numpy.zeros(0, numpy.int64)
        """Slots that `due` has found, and not returned yet."""

    @property
    def first_end(self) -> int | None:
        """A time up to which no session ends before it; None: there is none."""
        return self._by_end.first if self._stored else None

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
        self._by_end.add(first_ends, slots)
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
        if (first := self.first_end) is None or first - 1 > until:
            return None
        due = self._take_due(min(until, _LAST - 1) + 1)
        self._by_end.add(self._ends[due], due)
        return int(self._ends[due].max()) if len(due) else None

    def due(self, end: int, count: int) -> list[Any]:
        """Return up to so many keys with a session that ends up to `end`, to read them."""
        if not len(self._due):
            self._due = self._take_due(end)
        some, self._due = self._due[:count], self._due[count:]
        return self._keys.keys(some)

    def _take_due(self, end: int) -> Integers:
        """Take the slots whose first session ends up to `end`, which is before _NOT_STORED, out of the order."""
        found = numpy.unique(self._by_end.take(end))
        return found[self._ends[found] <= end]

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
