"""The sessions of keys in arrays: their bounds, and what aggregates have of each.

The rows of a chunk become sessions of their own, which are merged with those of the same key that they touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.field_arrays import objects
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.slot_lists import SlotLists
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, StoredColumn
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.aggregates.partial_columns import Groups
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime

_SESSION_BYTES = 41
"""Its key, its bounds, whether it is there, and its place in the order of ends."""
MANY_GONE = 1024
_LAST = numpy.iinfo(numpy.int64).max


class Sessions(StateArray):
    """`gap_ms`: sessions of a key are at least so far from each other. A session is a number, until `compact`.

    A session ends `gap_ms` after its last row. The sessions of a key are found by a list of their numbers.
    """

    def __init__(self, calls: Calls, aggregates: Sequence[Aggregate], gap_ms: int) -> None:
        self._calls = calls
        self._gap_ms = gap_ms
        self._groups = Groups(aggregates)
        self._used = self._gone = 0
        self._room = self._slots_room = FIRST_ROOM
        self._lists = SlotLists()
        self._are_there: Mask = numpy.zeros(FIRST_ROOM, numpy.bool_)
        self.slots: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        """The key of each session."""
        self.starts: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        self.ends: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        self._by_end = NumbersByTime()
        """Each session once, with an end that it has or had: it grows, and is looked at when the former one is due."""

    def __len__(self) -> int:
        return self._used - self._gone

    @property
    def first_end(self) -> int | None:
        """A time up to which no session ends before it; None: there is none."""
        return self._by_end.first if len(self) else None

    @property
    def aggregates(self) -> Sequence[Aggregate]:
        """The aggregates, by number of session."""
        return self._groups.aggregates

    def counts(self, sessions: Integers) -> Integers:
        """Return how many rows sessions have."""
        return self._groups.rows.counts(sessions)

    def have_sessions(self, slots: Integers) -> Mask:
        """Return which of these keys have a session."""
        found: Mask = self._lists.counts[slots] > 0
        return found

    def touch(self, slots: Integers, times: Integers) -> Mask:
        """Return which rows, of these keys and times, would belong to a session that is there."""
        listed = self._lists.of(slots)
        of_rows = times[listed.places]
        touches = (self.starts[listed.items] <= of_rows + self._gap_ms) & (self.ends[listed.items] >= of_rows)
        found: Mask = numpy.zeros(len(slots), numpy.bool_)
        found[listed.places[touches]] = True
        return found

    def last_due(self, until: int) -> int | None:
        """Return the last end of sessions whose last millisecond is up to `until`; None: there is no such session."""
        if (first := self.first_end) is None or first - 1 > until:
            return None
        due = self._take_due(min(until, _LAST - 1) + 1)
        self._by_end.add(self.ends[due], due)
        return int(self.ends[due].max()) if len(due) else None

    def ended(self, end: int) -> Integers:
        """Return the sessions that end up to `end`, in this order, to remove them."""
        found = self._take_due(end)
        in_order: Integers = found[numpy.argsort(self.ends[found], kind="stable")]
        return in_order

    def _take_due(self, end: int) -> Integers:
        """Take the sessions that end up to `end` out of the order. Those that have grown meanwhile stay there."""
        found = self._by_end.take(end)
        found = found[self._are_there[found]]
        are_due = self.ends[found] <= end
        later = found[~are_due]
        self._by_end.add(self.ends[later], later)
        return found[are_due]

    def first_ends(self) -> tuple[Integers, Integers]:
        """Return the keys that have sessions, and the first end of each."""
        there = numpy.flatnonzero(self._are_there[: self._used])
        ends = self.ends[there]
        runs = Runs(self.slots[there])
        return runs.slots, numpy.minimum.reduceat(ends[runs.order], runs.starts) if len(there) else ends

    def add(self, slots: Integers, times: Integers, columns: Sequence[pyarrow.Array | None], signs: Integers) -> None:
        """Add rows. `slots`: their keys. `columns`: those of the input by position."""
        of_rows, new_slots, starts, ends = self._own_sessions(slots, times)
        known = self._lists.of(numpy.unique(new_slots)).items
        all_slots = numpy.concatenate([self.slots[known], new_slots])
        all_starts, all_ends = (
            numpy.concatenate([self.starts[known], starts]),
            numpy.concatenate([self.ends[known], ends]),
        )
        order = numpy.lexsort((all_starts, all_slots))
        runs = Runs(all_slots[order])
        # The sessions are in the order of keys already, so runs leave them there.
        latest = all_ends[order]
        runs.accumulate(numpy.maximum, latest)
        begins = numpy.ones(len(order), numpy.bool_)
        begins[1:] = all_starts[order][1:] > latest[:-1]
        begins[runs.starts] = True
        firsts = numpy.flatnonzero(begins)
        lasts = numpy.append(firsts[1:], len(order)) - 1
        groups = numpy.empty(len(order), numpy.int64)
        groups[order] = numpy.cumsum(begins) - 1
        first_new = self._used
        numbers = self._numbers(groups[: len(known)], known, all_slots[order][firsts])
        self._merge(numbers, groups[: len(known)], known)
        self.starts[numbers], self.ends[numbers] = all_starts[order][firsts], latest[lasts]
        self._put_in_order(first_new)
        self._groups.add(self._calls, Runs(numbers[groups[len(known) :][of_rows]]), columns, signs)
        merged = numpy.setdiff1d(known, numbers)
        if len(merged):
            self.remove(merged)

    def remove(self, sessions: Integers) -> None:
        """Remove sessions. Their numbers are used again after `compact`."""
        self._are_there[sessions] = False
        self._gone += len(sessions)
        self._lists.keep(numpy.unique(self.slots[sessions]), self._are_there)
        for array in self._groups.arrays:
            array.clear(sessions)

    def compact(self) -> None:
        """Give the sessions that are there other numbers, if many are gone."""
        for array in self._groups.arrays:
            array.compact()
        if self._gone > MANY_GONE and 2 * self._gone > self._used:
            self._keep(numpy.flatnonzero(self._are_there[: self._used]))

    def _own_sessions(self, slots: Integers, times: Integers) -> tuple[Integers, Integers, Integers, Integers]:
        """Return the session of each row, were there no others, and keys, starts and ends of these."""
        order = numpy.lexsort((times, slots))
        sorted_slots, sorted_times = slots[order], times[order]
        begins = numpy.ones(len(order), numpy.bool_)
        # Sessions that only touch are one.
        begins[1:] = (sorted_slots[1:] != sorted_slots[:-1]) | (numpy.diff(sorted_times) > self._gap_ms)
        firsts = numpy.flatnonzero(begins)
        lasts = numpy.append(firsts[1:], len(order)) - 1
        of_rows = numpy.empty(len(order), numpy.int64)
        of_rows[order] = numpy.cumsum(begins) - 1
        return of_rows, sorted_slots[firsts], sorted_times[firsts], sorted_times[lasts] + self._gap_ms

    def _numbers(self, groups: Integers, known: Integers, slots: Integers) -> Integers:
        """Return the number of each merged session, by its key: that of one that was there, or a new one."""
        numbers = numpy.full(len(slots), -1, numpy.int64)
        numbers[groups[::-1]] = known[::-1]
        new = numpy.flatnonzero(numbers < 0)
        if len(new):
            first = self._take(slots[new])
            numbers[new] = numpy.arange(first, self._used)
        return numbers

    def _merge(self, numbers: Integers, groups: Integers, known: Integers) -> None:
        """Merge the aggregates of sessions that were there into those of the number that stays."""
        targets = numbers[groups]
        merged = targets != known
        if not merged.any():
            return
        runs = Runs(targets[merged])
        others = known[merged][runs.order]
        for one in (self._groups.rows, *self._groups.aggregates):
            one.add_partials(runs, one.partials(others))

    def _take(self, slots: Integers) -> int:
        """Give sessions of these keys the next numbers, without bounds. Return the first."""
        first, self._used = self._used, self._used + len(slots)
        if self._used > self._room:
            self._room = max(self._used, 2 * self._room)
            self._grow_bounds()
            for array in self._groups.arrays:
                array.grow(self._room)
        self.slots[first : self._used] = slots
        self._are_there[first : self._used] = True
        self._lists.append(slots, first)
        return first

    def _put_in_order(self, first: int) -> None:
        """Put sessions from this number on, which have bounds, in the order of ends."""
        self._by_end.add(self.ends[first : self._used], numpy.arange(first, self._used))

    def _grow_bounds(self) -> None:
        self.slots, self.starts, self.ends = (grown(one, self._room, 0) for one in (self.slots, self.starts, self.ends))
        self._are_there = grown(self._are_there, self._room, False)

    def _keep(self, sessions: Integers) -> None:
        """Keep these sessions alone, which get the numbers 0, 1, 2 and so on."""
        self.slots, self.starts, self.ends = self.slots[sessions], self.starts[sessions], self.ends[sessions]
        for array in self._groups.arrays:
            array.keep(sessions)
        self._room = self._used = len(sessions)
        self._are_there, self._gone = numpy.ones(self._used, numpy.bool_), 0
        self._lists = SlotLists()
        self._lists.make_room(self._slots_room)
        if self._used:
            self._lists.append(self.slots, 0)
        self._by_end = NumbersByTime()
        self._put_in_order(0)

    # State.

    def grow(self, room: int) -> None:
        """Make room for keys: there is room for sessions when they come."""
        self._slots_room = room
        self._lists.make_room(room)

    def clear(self, slots: Integers) -> None:
        gone = self._lists.of(slots).items
        if len(gone):
            self.remove(gone)

    def keep(self, slots: Integers) -> None:
        places = numpy.full(max(int(slots.max(initial=-1)) + 1, self._slots_room), -1, numpy.int64)
        places[slots] = numpy.arange(len(slots))
        self._slots_room = len(slots)
        stay = numpy.flatnonzero(self._are_there[: self._used] & (places[self.slots[: self._used]] >= 0))
        self.slots[stay] = places[self.slots[stay]]
        self._keep(stay)

    def stored(self, slots: Integers) -> StoredColumn:
        listed = self._lists.of(slots)
        there = listed.items
        columns = [column.values() for column in (array.stored(there) for array in self._groups.arrays)]
        bounds = [self.starts[there].tolist(), self.ends[there].tolist()]
        found: list[Any] = [None] * len(slots)
        for place, *values in zip(listed.places.tolist(), *bounds, *columns, strict=True):
            if found[place] is None:
                found[place] = []
            found[place].append(tuple(values))
        return StoredColumn(OBJECTS, (objects(found),))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        self.load(slots, column.parts[0].tolist())

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.clear(slots)
        rows = [(slot, *one) for slot, of_slot in zip(slots.tolist(), values, strict=True) for one in of_slot or ()]
        if not rows:
            return
        of_slots, starts, ends, *columns = zip(*rows, strict=True)
        first = self._take(numpy.array(of_slots, numpy.int64))
        sessions = numpy.arange(first, self._used)
        self.starts[sessions], self.ends[sessions] = starts, ends
        self._put_in_order(first)
        for array, column in zip(self._groups.arrays, columns, strict=True):
            array.load(sessions, column)

    @property
    def bytes_per_key(self) -> int:
        per_session = _SESSION_BYTES + sum(array.bytes_per_key for array in self._groups.arrays)
        return (self._room * per_session + self._lists.nbytes) // max(1, self._slots_room)
