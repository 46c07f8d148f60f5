"""The versions of a table's rows: of each key the row from each time on, until the next one. For temporal joins."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, Mask, RowKeys
from penstock.engine.state.layers import LayeredTable
from penstock.table.operators.table_columns import TableColumns

NOTHING = -1


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
        self._slots: Integers = numpy.zeros(0, numpy.int64)
        self._times: Integers = numpy.zeros(0, numpy.int64)
        self._exist: Mask = numpy.zeros(0, numpy.bool_)
        self._lately: list[tuple[Integers, Integers, Mask]] = []
        """The same of versions that have come lately: to append them copies all."""
        self._blocks = RowBlocks()
        self._changed: set[int] = set()

    def add(self, keys: RowKeys, batch: pyarrow.RecordBatch, times: Integers, exist: Mask) -> None:
        """Add versions. `exist`: whether the key has a row from then on."""
        if not batch.num_rows:
            return
        slots = self._keys.slots_of(keys)
        self._lately.append((slots, times, exist))
        self._blocks.append(batch)
        self._changed.update(slots.tolist())

    def at(self, keys: RowKeys, times: Integers) -> Integers:
        """Return the number of the row that each key has at a time, or NOTHING."""
        self._append_latest()
        found = numpy.full(len(times), NOTHING, numpy.int64)
        if not len(self._slots):
            return found
        slots = self._keys.find(keys)
        known = numpy.flatnonzero(slots != MISSING)
        # Only the versions of these keys are put in order, not those of all.
        wanted = numpy.zeros(len(self._keys), numpy.bool_)
        wanted[slots[known]] = True
        numbers = numpy.flatnonzero(wanted[self._slots])
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
        found[rows] = numpy.where(self._exist[versions], versions, NOTHING)
        return found

    def rows(self, numbers: Integers) -> pyarrow.RecordBatch:
        """Return rows by their numbers."""
        return self._blocks.take(numbers)

    def forget(self, until: int) -> None:
        """Forget versions that no row behind `until` can ask for: all but the last one of each key up to then."""
        self._append_latest()
        gone = self._replaced(until)
        if not len(gone) or 2 * len(gone) < len(self._slots):
            return
        stays = numpy.ones(len(self._slots), numpy.bool_)
        stays[gone] = False
        kept = numpy.flatnonzero(stays)
        self._changed.update(self._slots[gone].tolist())
        self._slots, self._times, self._exist = self._slots[kept], self._times[kept], self._exist[kept]
        batch = self._blocks.take(kept) if len(kept) else None
        self._blocks = RowBlocks(None if batch is None else [batch])
        self._forget_keys()

    def _append_latest(self) -> None:
        if self._lately:
            slots, times, exist = zip(*self._lately, strict=True)
            self._slots = numpy.concatenate([self._slots, *slots])
            self._times = numpy.concatenate([self._times, *times])
            self._exist = numpy.concatenate([self._exist, *exist])
            self._lately = []

    def _replaced(self, until: int) -> Integers:
        """Return the numbers of versions up to `until` that others have replaced, and of those that delete a row."""
        old = numpy.flatnonzero(self._times <= until)
        # A version that is the only old one of its key stays, if it is a row: most need not be put in order.
        counts = numpy.bincount(self._slots[old], minlength=len(self._keys))
        some = old[(counts[self._slots[old]] > 1) | ~self._exist[old]]
        order = some[numpy.lexsort((some, self._times[some], self._slots[some]))]
        slots = self._slots[order]
        is_last = numpy.ones(len(order), numpy.bool_)
        is_last[:-1] = slots[1:] != slots[:-1]
        gone: Integers = order[~(is_last & self._exist[order])]
        return gone

    def _forget_keys(self) -> None:
        """Forget keys without versions, if they are most. Those that are to be written stay until then."""
        used = numpy.zeros(len(self._keys), numpy.bool_)
        used[self._slots] = True
        used[list(self._changed)] = True
        kept = numpy.flatnonzero(used)
        if 2 * len(kept) > len(used):
            return
        keys, self._keys = self._keys.keys(kept), KeySlots()
        places = numpy.zeros(len(used), numpy.int64)
        if keys:
            places[kept] = self._keys.slots_of(_keys(keys))
        self._slots = places[self._slots]
        self._changed = set(places[list(self._changed)].tolist())

    def write_back(self) -> None:
        """Write the versions of keys that have changed to the table."""
        self._append_latest()
        changed = numpy.array(sorted(self._changed), numpy.int64)
        if not len(changed):
            return
        numbers = numpy.flatnonzero(numpy.isin(self._slots, changed))
        values: dict[int, list[Any]] = {slot: [] for slot in changed.tolist()}
        if len(numbers):
            rows = zip(*map(python_values, self._blocks.take(numbers).columns), strict=True)
            times, exist = self._times[numbers].tolist(), self._exist[numbers].tolist()
            for slot, time, exists, row in zip(self._slots[numbers].tolist(), times, exist, rows, strict=True):
                values[slot].append((time, exists, row))
        for key, versions in zip(self._keys.keys(changed), values.values(), strict=True):
            if versions:
                self._table.put(key, versions)
            else:
                self._table.discard(key)
        self._changed = set()

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
            self.add(_keys(keys), batch, times, numpy.array([exists for _, exists, _ in versions], numpy.bool_))
        self._changed = set()


def _keys(keys: list[Any]) -> RowKeys:
    if all(type(key) is int and -(1 << 63) <= key < 1 << 63 for key in keys):
        return IntegerKeys(numpy.array(keys, numpy.int64))
    return BatchKeys(keys, numpy.arange(len(keys)))
