"""Lists of row numbers by slot, appended to and read for many slots at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers, Mask


class Listed(NamedTuple):
    """Items of several lists, one list after the other. `places`: the position of each item's list."""

    places: Integers
    items: Integers


class SlotLists:
    """A list for each slot, in one array: a list that has no room left moves to the end, with twice the room.

    Where it was stays unused. So all lists together take at most four times the room of their items.
    """

    def __init__(self) -> None:
        self._starts: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        self.counts: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        """The length of each slot's list."""
        self._rooms: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        self._pool = numpy.zeros(FIRST_ROOM, numpy.int32)
        self._used = 0

    def append(self, slots: Integers, first: int) -> None:
        """Append the numbers from `first` on, each to the list of its slot."""
        runs = Runs(slots)
        self.make_room(int(runs.slots.max()) + 1)
        counts = self.counts[runs.slots]
        needed = counts + runs.lengths
        short = needed > self._rooms[runs.slots]
        if short.any():
            self._move(runs.slots[short], needed[short])
        places = numpy.repeat(self._starts[runs.slots] + counts - runs.starts, runs.lengths)
        places += numpy.arange(len(slots))
        self._pool[places] = runs.order + first
        self.counts[runs.slots] = needed

    def of(self, slots: Integers) -> Listed:
        """Return the lists of these slots."""
        counts = self.counts[slots]
        places = numpy.repeat(numpy.arange(len(slots)), counts)
        return Listed(places, self._pool[spans(self._starts[slots], counts)].astype(numpy.int64))

    def keep(self, slots: Integers, stays: Mask) -> None:
        """Keep the items of these slots' lists, each slot once, for which `stays` is true; by item."""
        listed = self.of(slots)
        kept = stays[listed.items]
        counts = numpy.bincount(listed.places[kept], minlength=len(slots))
        self._pool[spans(self._starts[slots], counts)] = listed.items[kept]
        self.counts[slots] = counts

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return self._pool.nbytes + 3 * self._starts.nbytes

    def make_room(self, slots: int) -> None:
        """Make room for the lists of so many slots."""
        if slots > len(self.counts):
            room = max(slots, 2 * len(self.counts))
            self._starts, self.counts, self._rooms = (
                numpy.concatenate([array, numpy.zeros(room - len(array), numpy.int64)])
                for array in (self._starts, self.counts, self._rooms)
            )

    def _move(self, slots: Integers, needed: Integers) -> None:
        counts = self.counts[slots]
        # The first room is what is needed: most lists of many keys never get more.
        rooms = numpy.where(counts > 0, 2 * needed, needed)
        starts = numpy.cumsum(rooms) - rooms + self._used
        used = self._used + int(rooms.sum())
        if used > len(self._pool):
            pool = numpy.zeros(max(used, 2 * len(self._pool)), numpy.int32)
            pool[: self._used] = self._pool[: self._used]
            self._pool = pool
        self._pool[spans(starts, counts)] = self._pool[spans(self._starts[slots], counts)]
        self._starts[slots], self._rooms[slots], self._used = starts, rooms, used


def spans(starts: Integers, counts: Integers) -> Integers:
    """Return the numbers from each start on, as many as its count, one span after the other."""
    ends = numpy.cumsum(counts)
    numbers: Integers = numpy.repeat(starts - ends + counts, counts)
    numbers += numpy.arange(len(numbers))
    return numbers
