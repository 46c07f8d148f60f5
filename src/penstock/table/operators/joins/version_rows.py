"""The versions of a table's rows: of each key the row from each time on, until the next one. For temporal joins."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys, keys_of_values
from penstock.engine.state.layers import LayeredTable
from penstock.table.operators.joins.padded_rows import NONE
from penstock.table.operators.joins.thinned_lists import ThinnedLists
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime
from penstock.table.operators.table_columns import TableColumns

_FIRST_ROOM = 128


class VersionRows:
    """Versions, of which the last one counts if a key has several of the same time.

    The table has key -> [(time, whether there is a row from then on, row), ...].
    """

    def __init__(self, columns: TableColumns, table: LayeredTable) -> None:
        self._columns = columns
        self._table = table
        self._clear()

    def _clear(self) -> None:
        self._keys = KeySlots()
        self._lists = ThinnedLists()
        """The numbers of the versions of each key, in the order of arrival."""
        self._blocks = RowBlocks()
        self._used = 0
        self._gone = 0
        self._slots: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self._times: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self._exist: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        self._stays: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        """Which versions are not forgotten."""
        self._behind = NumbersByTime()
        """The versions behind the time up to which others were forgotten."""
        self._latest: Integers = numpy.full(_FIRST_ROOM, NONE, numpy.int64)
        """The last version of each key up to that time, or NONE."""
        self._is_changed: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        """Whether the versions of each key have changed since the last snapshot."""

    def add(self, keys: RowKeys, batch: pyarrow.RecordBatch, times: Integers, exist: Mask) -> None:
        """Add versions. `exist`: whether the key has a row from then on."""
        if not batch.num_rows:
            return
        slots = self._keys.slots_of(keys)
        first, self._used = self._used, self._used + len(slots)
        self._make_room()
        added = slice(first, self._used)
        self._slots[added], self._times[added], self._exist[added], self._stays[added] = slots, times, exist, True
        self._lists.append(slots, first)
        self._behind.add(times, numpy.arange(first, self._used))
        self._blocks.append(batch)
        self._is_changed[slots] = True

    def at(self, keys: RowKeys, times: Integers) -> Integers:
        """Return the number of the row that each key has at a time, or NONE."""
        found = numpy.full(len(times), NONE, numpy.int64)
        slots = self._keys.find(keys)
        known = numpy.flatnonzero(slots != MISSING)
        if not len(known):
            return found
        # Only the versions of these keys are put in order, not those of all.
        numbers = self._lists.of(numpy.unique(slots[known])).items
        numbers = numbers[self._stays[numbers]]
        count = len(numbers)
        all_slots = numpy.concatenate([self._slots[numbers], slots[known]])
        all_times = numpy.concatenate([self._times[numbers], times[known]])
        asks = numpy.arange(len(all_slots)) >= count
        # A version of the same time comes before the row that asks; of several versions the last one is nearest.
        order = numpy.lexsort((asks, all_times, all_slots))
        latest = numpy.maximum.accumulate(numpy.where(asks[order], -1, numpy.arange(len(order))))
        asking = asks[order] & (latest >= 0)
        versions, rows = order[latest[asking]], order[asking]
        fits = all_slots[versions] == all_slots[rows]
        versions, rows = numbers[versions[fits]], known[rows[fits] - count]
        found[rows] = numpy.where(self._exist[versions], versions, NONE)
        return found

    def rows(self, numbers: Integers) -> pyarrow.RecordBatch:
        """Return rows by their numbers."""
        if not len(numbers):
            return self._columns.no_rows()
        return self._blocks.take(numbers)

    def forget(self, until: int) -> None:
        """Forget versions that no row behind `until` can ask for: all but the last one of each key up to then."""
        due = self._behind.take(until)
        if not len(due):
            return
        before = self._latest[numpy.unique(self._slots[due])]
        numbers = numpy.concatenate([before[before != NONE], due])
        order = numbers[numpy.lexsort((numbers, self._times[numbers], self._slots[numbers]))]
        slots = self._slots[order]
        is_last = numpy.ones(len(order), numpy.bool_)
        is_last[:-1] = slots[1:] != slots[:-1]
        # To forget one that deletes a row changes no answer.
        is_latest = is_last & self._exist[order]
        self._latest[slots[is_last]] = numpy.where(self._exist[order[is_last]], order[is_last], NONE)
        self._take_away(order[~is_latest])
        if self._used >= 2 * _FIRST_ROOM and 2 * self._gone >= self._used:
            self._compact()

    def _take_away(self, numbers: Integers) -> None:
        slots = self._slots[numbers]
        self._stays[numbers] = False
        self._gone += len(numbers)
        self._is_changed[slots] = True
        self._lists.note_gone(slots, self._stays)

    def _make_room(self) -> None:
        if self._used > len(self._slots):
            room = max(self._used, 2 * len(self._slots))
            self._slots, self._times = grown(self._slots, room, 0), grown(self._times, room, 0)
            self._exist, self._stays = grown(self._exist, room, False), grown(self._stays, room, False)
        if len(self._keys) > len(self._latest):
            room = max(len(self._keys), 2 * len(self._latest))
            self._latest, self._is_changed = grown(self._latest, room, NONE), grown(self._is_changed, room, False)

    def _compact(self) -> None:
        """Give the versions that stay the lowest numbers, and forget keys without versions that were written."""
        kept = numpy.flatnonzero(self._stays[: self._used])
        batch = self._blocks.take(kept) if len(kept) else None
        slots, times, exist = self._slots[kept], self._times[kept], self._exist[kept]
        places = numpy.zeros(self._used, numpy.int64)
        places[kept] = numpy.arange(len(kept))
        behind, latest = self._behind, self._latest[: len(self._keys)]
        behind.renumber(places)
        latest = numpy.where(latest == NONE, NONE, places[latest])
        is_used = self._is_changed[: len(latest)].copy()
        is_used[slots] = True
        of_keys = numpy.flatnonzero(is_used)
        keys, changed = self._keys.keys(of_keys), self._is_changed[of_keys]
        self._clear()
        if not keys:
            return
        new_slots = numpy.zeros(len(is_used), numpy.int64)
        new_slots[of_keys] = self._keys.slots_of(keys_of_values(keys))
        self._used = len(kept)
        self._make_room()
        self._lists.make_room(len(keys))
        self._latest[: len(keys)], self._is_changed[: len(keys)] = latest[of_keys], changed
        if batch is not None:
            all_kept = slice(len(kept))
            self._slots[all_kept], self._times[all_kept] = new_slots[slots], times
            self._exist[all_kept], self._stays[all_kept] = exist, True
            self._lists.append(self._slots[all_kept], 0)
            self._blocks, self._behind = RowBlocks([batch]), behind

    def write_back(self) -> None:
        """Write the versions of keys that have changed to the table."""
        changed = numpy.flatnonzero(self._is_changed)
        self._is_changed[changed] = False
        if not len(changed):
            return
        places, numbers = self._lists.of(changed)
        stays = self._stays[numbers]
        places, numbers = places[stays], numbers[stays]
        values: list[list[Any]] = [[] for _ in changed]
        if len(numbers):
            rows = zip(*map(python_values, self._blocks.take(numbers).columns), strict=True)
            times, exist = self._times[numbers].tolist(), self._exist[numbers].tolist()
            for place, time, exists, row in zip(places.tolist(), times, exist, rows, strict=True):
                values[place].append((time, exists, row))
        for key, versions in zip(self._keys.keys(changed), values, strict=True):
            if versions:
                self._table.put(key, versions)
            else:
                self._table.discard(key)

    def load(self) -> None:
        """Read the versions of the table, which was restored."""
        self._clear()
        keys: list[Any] = []
        versions: list[Any] = []
        for key, of_key in self._table.items():
            keys += [key] * len(of_key)
            versions += of_key
        if versions:
            batch = self._columns.exact_batch(list(zip(*(row for _, _, row in versions), strict=True)))
            times = numpy.array([time for time, _, _ in versions], numpy.int64)
            exist = numpy.array([exists for _, exists, _ in versions], numpy.bool_)
            self.add(keys_of_values(keys), batch, times, exist)
        self._is_changed[:] = False
