"""Buckets of records at one moment, as snapshots have those of rows: (key, bucket) -> [(timestamp, record), ...].

Records are made of the columns by the thread that writes, a few hundred at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.bucket_entries import BucketEntries
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
    """Some entries of a span of buckets, all with the same value. `place_of`: of a key and its bucket in snapshots."""

    def __init__(
        self, entries: BucketEntries, numbers: Integers, place_of: Callable[[Any, int], Any], value: Any
    ) -> None:
        self._entries = entries
        self._numbers = numbers
        self._place_of = place_of
        self._value = value

    def sort(self, groups_of: Groups) -> None:
        """Sort by key group."""
        groups = groups_of(self._entries.keys, self._entries.slots_of(self._numbers))
        self._groups, self._numbers = _sorted_by_group(groups, self._numbers)

    def of_group(self, group: int) -> Pieces:
        """Yield the entries of a key group, after `sort`."""
        of_group = self._numbers[_span(self._groups, group)]
        for start in range(0, len(of_group), PIECE_ENTRIES):
            numbers = of_group[start : start + PIECE_ENTRIES]
            keys = self._entries.keys.keys(self._entries.slots_of(numbers))
            buckets = self._entries.buckets_of(numbers).tolist()
            places = [self._place_of(key, bucket) for key, bucket in zip(keys, buckets, strict=True)]
            yield places, [self._value] * len(keys)


class FrozenBucket:
    """The entries of a span that have changed since the last snapshot. Buckets before `alive_from` are freed."""

    def __init__(self, rows: RowsAtOnce, alive_from: int, records: Callable[[pyarrow.RecordBatch], list[Any]]) -> None:
        self._rows = rows
        self._alive_from = alive_from
        self._records = records

    def sort(self, groups_of: Groups) -> None:
        """Sort by key group, key and bucket."""
        rows = self._rows
        groups, order = _sorted_by_group(
            groups_of(rows.entries.keys, numpy.arange(rows.key_count)), numpy.arange(rows.key_count)
        )
        ranks = numpy.empty_like(order)
        ranks[order] = numpy.arange(rows.key_count)
        # Here, and not when the rows are frozen, because it takes time for each row.
        self._buckets = rows.times // rows.bucket_ms
        self._codes = rows.entries.codes(rows.slots, self._buckets)
        numbers = numpy.arange(len(rows.slots))
        if rows.first_row:
            # The value of an entry is all that its key has in the bucket.
            numbers = numpy.flatnonzero(numpy.isin(self._codes, self._codes[rows.first_row :]))
        if rows.entries.first < self._alive_from:
            numbers = numbers[self._buckets[numbers] >= self._alive_from]
        ranked = ranks[rows.slots[numbers]]
        order = numpy.lexsort((self._buckets[numbers], ranked))
        self._order = numbers[order]
        self._groups = groups[ranked[order]]

    def of_group(self, group: int) -> Pieces:
        """Yield the entries of a key group, after `sort`."""
        order = self._order[_span(self._groups, group)]
        if not len(order):
            return
        begins = numpy.flatnonzero(numpy.diff(self._codes[order], prepend=-1))
        ends = numpy.append(begins[1:], len(order))
        first = 0
        while first < len(begins):
            stop = int(numpy.searchsorted(ends, begins[first] + PIECE_ENTRIES)) + 1
            yield self._piece(order[begins[first] : ends[min(stop, len(ends)) - 1]])
            first = stop

    def _piece(self, order: Integers) -> tuple[list[Any], list[Any]]:
        rows = self._rows
        pairs = list(zip(rows.times[order].tolist(), self._records(rows.blocks.take(order)), strict=True))
        begins = numpy.flatnonzero(numpy.diff(self._codes[order], prepend=-1))
        bounds = [*begins.tolist(), len(order)]
        firsts = order[begins]
        keys, buckets = rows.entries.keys.keys(rows.slots[firsts]), self._buckets[firsts].tolist()
        return list(zip(keys, buckets, strict=True)), [pairs[start:stop] for start, stop in pairwise(bounds)]


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
