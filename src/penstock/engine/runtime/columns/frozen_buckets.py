"""Buckets of records at one moment, as snapshots have those of rows: (key, bucket) -> [(timestamp, record), ...].

Records are made of the columns by the thread that writes, a few hundred at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.bucket_rows import RowsAtOnce
from penstock.engine.state.arrays.integer_groups import groups_of_integers
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.tables import PIECE_ENTRIES, FrozenTable, Pieces

Groups = Callable[[KeySlots, Integers], Integers]
"""Returns the key groups of the keys at some slots."""


def groups_by(key_groups: KeyGroups) -> Groups:
    """Return the function that finds key groups."""

    def groups_of(keys: KeySlots, slots: Integers) -> Integers:
        if keys.has_others:
            return numpy.array([key_groups[key] for key in keys.keys(slots)], numpy.int64)
        return groups_of_integers(keys.integers[slots], key_groups.max_parallelism)

    return groups_of


def _no_groups(keys: KeySlots, slots: Integers) -> Integers:
    return numpy.zeros(len(slots), numpy.int64)


class FrozenKeys:
    """Entries of some keys of a bucket: those at the slots from `first` to `stop`, all with the same value."""

    def __init__(self, keys: KeySlots, first: int, stop: int, entry_of: Callable[[Any], Any], value: Any) -> None:
        self._keys = keys
        self._slots: Integers = numpy.arange(first, stop)
        self._entry_of = entry_of
        self._value = value

    def sort(self, groups_of: Groups) -> None:
        """Sort by key group."""
        self._groups, self._slots = _sorted_by_group(groups_of(self._keys, self._slots), self._slots)

    def of_group(self, group: int) -> Pieces:
        """Yield the entries of a key group, after `sort`."""
        slots = self._slots[_span(self._groups, group)]
        for start in range(0, len(slots), PIECE_ENTRIES):
            keys = self._keys.keys(slots[start : start + PIECE_ENTRIES])
            yield [self._entry_of(key) for key in keys], [self._value] * len(keys)


class FrozenBucket:
    """The entries of a bucket that have changed since the last snapshot."""

    def __init__(self, number: int, rows: RowsAtOnce, records: Callable[[pyarrow.RecordBatch], list[Any]]) -> None:
        self._number = number
        self._rows = rows
        self._records = records

    def sort(self, groups_of: Groups) -> None:
        """Sort by key group and key."""
        keys, key_count, slots, _, first_row, _ = self._rows
        groups, order = _sorted_by_group(groups_of(keys, numpy.arange(key_count)), numpy.arange(key_count))
        ranks = numpy.empty_like(order)
        ranks[order] = numpy.arange(key_count)
        numbers = numpy.arange(len(slots))
        if first_row:
            # The value of an entry is all that its key has in the bucket.
            changed = numpy.zeros(key_count, numpy.bool_)
            changed[slots[first_row:]] = True
            numbers = numpy.flatnonzero(changed[slots])
        ranked = ranks[slots[numbers]]
        order = numpy.argsort(ranked, kind="stable")
        self._order = numbers[order]
        self._groups = groups[ranked[order]]

    def of_group(self, group: int) -> Pieces:
        """Yield the entries of a key group, after `sort`."""
        order = self._order[_span(self._groups, group)]
        if not len(order):
            return
        slots = self._rows.slots[order]
        begins = numpy.flatnonzero(numpy.diff(slots, prepend=-1))
        ends = numpy.append(begins[1:], len(order))
        first = 0
        while first < len(begins):
            stop = int(numpy.searchsorted(ends, begins[first] + PIECE_ENTRIES)) + 1
            yield self._piece(order[begins[first] : ends[min(stop, len(ends)) - 1]])
            first = stop

    def _piece(self, order: Integers) -> tuple[list[Any], list[Any]]:
        keys, _, slots, times, _, blocks = self._rows
        pairs = list(zip(times[order].tolist(), self._records(blocks.take(order)), strict=True))
        of_rows = slots[order]
        begins = numpy.flatnonzero(numpy.diff(of_rows, prepend=-1))
        bounds = [*begins.tolist(), len(order)]
        entry_keys = [(key, self._number) for key in keys.keys(of_rows[begins])]
        return entry_keys, [pairs[start:stop] for start, stop in pairwise(bounds)]


def frozen_table(parts: Sequence[FrozenKeys | FrozenBucket], full: bool) -> FrozenTable:
    """Return entries as what snapshots write. Of an entry in several parts, the last one counts."""
    parts = list(parts)

    def prepare(key_groups: KeyGroups) -> Iterator[None]:
        groups_of = groups_by(key_groups)
        for part in parts:
            part.sort(groups_of)
            yield

    def of_group(group: int) -> Pieces:
        for part in parts:
            yield from part.of_group(group)
            yield [], []

    def pieces() -> Pieces:
        for part in parts:
            part.sort(_no_groups)
            yield from part.of_group(0)

    return FrozenTable(pieces, full, True, parts.clear, of_group=of_group, prepare=prepare)


def _sorted_by_group(groups: Integers, slots: Integers) -> tuple[Integers, Integers]:
    """Return the groups in order, and the slots in that order."""
    order = numpy.argsort(groups.astype(numpy.uint16), kind="stable")
    return groups[order], slots[order]


def _span(groups: Integers, group: int) -> slice:
    first, stop = numpy.searchsorted(groups, [group, group + 1]).tolist()
    return slice(first, stop)
