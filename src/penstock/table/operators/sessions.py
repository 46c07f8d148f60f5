"""The sessions of keys in arrays: their bounds, and what aggregates have of each.

The rows of a chunk become sessions of their own, which are merged with those of the same key that they touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.field_arrays import objects
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, StoredColumn
from penstock.table.operators.aggregate_calls import Calls
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.partial_columns import Groups

_SESSION_BYTES = 100


class Sessions(StateArray):
    """`gap_ms`: sessions of a key are at least so far from each other. A session is a number; all are in use.

    A session ends `gap_ms` after its last row.
    """

    def __init__(self, calls: Calls, aggregates: Sequence[Aggregate], gap_ms: int) -> None:
        self._calls = calls
        self._gap_ms = gap_ms
        self._groups = Groups(aggregates)
        self._room = FIRST_ROOM
        self.slots: Integers = numpy.zeros(0, numpy.int64)
        """The key of each session."""
        self.starts: Integers = numpy.zeros(0, numpy.int64)
        self.ends: Integers = numpy.zeros(0, numpy.int64)

    @property
    def aggregates(self) -> Sequence[Aggregate]:
        """The aggregates, by number of session."""
        return self._groups.aggregates

    def counts(self, sessions: Integers) -> Integers:
        """Return how many rows sessions have."""
        return self._groups.rows.counts(sessions)

    def touch(self, slot: int, time: int) -> bool:
        """Return whether a row of this time would belong to a session that is there."""
        touches = (self.slots == slot) & (self.starts <= time + self._gap_ms) & (self.ends >= time)
        return bool(touches.any())

    def add(self, slots: Integers, times: Integers, columns: Sequence[pyarrow.Array | None], signs: Integers) -> None:
        """Add rows. `slots`: their keys. `columns`: those of the input by position."""
        of_rows, new_slots, starts, ends = self._own_sessions(slots, times)
        known = numpy.flatnonzero(numpy.isin(self.slots, new_slots))
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
        numbers = self._numbers(groups[: len(known)], known, len(firsts))
        self._merge(numbers, groups[: len(known)], known)
        self.slots[numbers], self.starts[numbers] = all_slots[order][firsts], all_starts[order][firsts]
        self.ends[numbers] = latest[lasts]
        self._groups.add(self._calls, Runs(numbers[groups[len(known) :][of_rows]]), columns, signs)
        merged = numpy.setdiff1d(known, numbers)
        if len(merged):
            self.remove(merged)

    def remove(self, sessions: Integers) -> None:
        """Remove sessions. Others get new numbers, in the same order."""
        stays = numpy.ones(len(self.slots), numpy.bool_)
        stays[sessions] = False
        self._keep(numpy.flatnonzero(stays))

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

    def _numbers(self, groups: Integers, known: Integers, count: int) -> Integers:
        """Return the number of each of `count` merged sessions: that of one that was there, or a new one."""
        numbers = numpy.full(count, -1, numpy.int64)
        numbers[groups[::-1]] = known[::-1]
        new = numpy.flatnonzero(numbers < 0)
        first = len(self.slots)
        numbers[new] = numpy.arange(first, first + len(new))
        self._resize(first + len(new))
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

    def _resize(self, count: int) -> None:
        more = numpy.zeros(count - len(self.slots), numpy.int64)
        self.slots, self.starts, self.ends = (
            numpy.concatenate([one, more]) for one in (self.slots, self.starts, self.ends)
        )
        if count > self._room:
            self._room = max(count, 2 * self._room)
            for array in self._arrays():
                array.grow(self._room)

    def _arrays(self) -> list[StateArray]:
        return [array for one in (self._groups.rows, *self._groups.aggregates) for array in one.arrays]

    def _keep(self, sessions: Integers) -> None:
        self.slots, self.starts, self.ends = self.slots[sessions], self.starts[sessions], self.ends[sessions]
        for array in self._arrays():
            array.keep(sessions)
        self._room = len(sessions)

    # State.

    def grow(self, room: int) -> None:
        """Do nothing: there is room for sessions, not for keys."""

    def clear(self, slots: Integers) -> None:
        gone = numpy.flatnonzero(numpy.isin(self.slots, slots))
        if len(gone):
            self.remove(gone)

    def keep(self, slots: Integers) -> None:
        places = numpy.full(max(int(slots.max(initial=-1)), int(self.slots.max(initial=-1))) + 1, -1, numpy.int64)
        places[slots] = numpy.arange(len(slots))
        moved = places[self.slots]
        self._keep(numpy.flatnonzero(moved >= 0))
        self.slots = moved[moved >= 0]

    def stored(self, slots: Integers) -> StoredColumn:
        there = self._of_slots(slots)
        columns = [column.values() for column in (array.stored(there) for array in self._arrays())]
        bounds = [self.starts[there].tolist(), self.ends[there].tolist()]
        of_slot: dict[int, list[Any]] = {}
        for slot, *values in zip(self.slots[there].tolist(), *bounds, *columns, strict=True):
            of_slot.setdefault(slot, []).append(tuple(values))
        return StoredColumn(OBJECTS, (objects([of_slot.get(slot) for slot in slots.tolist()]),))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        self.load(slots, column.parts[0].tolist())

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.clear(slots)
        rows = [(slot, *one) for slot, of_slot in zip(slots.tolist(), values, strict=True) for one in of_slot or ()]
        if not rows:
            return
        first = len(self.slots)
        self._resize(first + len(rows))
        sessions = numpy.arange(first, first + len(rows))
        of_slots, starts, ends, *columns = zip(*rows, strict=True)
        self.slots[first:], self.starts[first:], self.ends[first:] = of_slots, starts, ends
        for array, column in zip(self._arrays(), columns, strict=True):
            array.load(sessions, column)

    @property
    def bytes_per_key(self) -> int:
        return _SESSION_BYTES

    def _of_slots(self, slots: Integers) -> Integers:
        is_one: Mask = numpy.isin(self.slots, slots)
        found: Integers = numpy.flatnonzero(is_one)
        return found
