"""The records of a span of buckets, as rows of Arrow: appended, found by key, and dropped as a whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.bucket_entries import BucketEntries
from penstock.engine.runtime.columns.slot_lists import SlotLists
from penstock.engine.state.arrays.key_slots import FIRST_ROOM, KeySlots, bytes_of_keys
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import Integers, RowKeys


class Found(NamedTuple):
    """Rows of a bucket, each with the position of the record that it was found for, and its timestamp (ms)."""

    places: Integers
    rows: Integers
    times: Integers


class RowsAtOnce(NamedTuple):
    """The rows of a bucket at one moment. What the arrays hold up to here never changes.

    `first_row`: rows before it are in the last snapshot.
    """

    entries: BucketEntries
    key_count: int
    slots: Integers
    times: Integers
    bucket_ms: int
    first_row: int
    blocks: RowBlocks


class BucketRows:
    """The records of the buckets from `first` to `stop`, of `bucket_ms` each. `blocks`: what is kept of a record."""

    def __init__(self, first: int, stop: int, bucket_ms: int) -> None:
        self.first = first
        self.stop = stop
        self._bucket_ms = bucket_ms
        self.keys = KeySlots()
        self.entries = BucketEntries(self.keys, first, stop - first)
        self._lists = SlotLists()
        self._times = _Appended()
        self._slots = _Appended()
        self.blocks = RowBlocks()
        self._stored_rows = 0

    def __len__(self) -> int:
        return self._times.used

    def append(self, keys: RowKeys, times: Integers, rows: pyarrow.RecordBatch) -> None:
        """Append records."""
        slots = self.keys.slots_of(keys)
        self.entries.add(slots, times // self._bucket_ms)
        self._lists.append(slots, len(self))
        self._slots.append(slots)
        self._times.append(times)
        self.blocks.append(rows)

    def slots_of(self, keys: RowKeys) -> Integers:
        """Return the slot of each key, or MISSING."""
        return self.keys.find(keys)

    def counts(self, slots: Integers) -> Integers:
        """Return how many records have the key of each slot."""
        counts: Integers = self._lists.counts[slots]
        return counts

    def between(self, places: Integers, slots: Integers, first: Integers, last: Integers) -> Found:
        """Return the records with the keys of these slots that are in time: from `first` to `last` (ms).

        In the order of `slots`, which are those of `places` in ascending order, then of buckets, then of arrival.
        `places` are the positions that `Found` has for `slots`.
        """
        listed = self._lists.of(slots)
        rows = listed.items
        times = self._times.array[rows]
        in_time = (times >= first[listed.places]) & (times <= last[listed.places])
        found = Found(places[listed.places[in_time]], rows[in_time], times[in_time])
        if self.entries.width == 1 or len(found.rows) < 2:
            return found
        order = numpy.lexsort((found.times // self._bucket_ms, found.places))
        return Found(found.places[order], found.rows[order], found.times[order])

    def rows_of(self, key: Any, bucket: int) -> Integers:
        """Return the rows of one key in one bucket."""
        slot = self.keys.slot_of(key)
        if slot is None:
            return numpy.zeros(0, numpy.int64)
        rows = self._lists.of(numpy.array([slot])).items
        of_bucket: Integers = rows[self._times.array[rows] // self._bucket_ms == bucket]
        return of_bucket

    def times_of(self, rows: Integers) -> Integers:
        """Return the timestamps of rows (ms)."""
        times: Integers = self._times.array[rows]
        return times

    def freeze(self, full: bool) -> RowsAtOnce:
        """Return all rows as they are now; unless `full`, with which of them the last snapshot has."""
        used, first_row = len(self), 0 if full else self._stored_rows
        self.note_stored()
        return RowsAtOnce(
            entries=self.entries,
            key_count=len(self.keys),
            slots=self._slots.array[:used],
            times=self._times.array[:used],
            bucket_ms=self._bucket_ms,
            first_row=first_row,
            blocks=self.blocks.copy(),
        )

    @property
    def has_changed(self) -> bool:
        """Whether the last snapshot lacks rows."""
        return self._stored_rows < len(self)

    def note_stored(self) -> None:
        """Note that a snapshot has all rows."""
        self._stored_rows = len(self)

    @property
    def nbytes(self) -> int:
        """About the size in memory, in bytes."""
        arrays = self._times.array.nbytes + self._slots.array.nbytes
        of_keys = bytes_of_keys(len(self.keys), self.keys.others_room)
        if self.entries.width > 1:
            of_keys += bytes_of_keys(len(self.entries), 0)
        return of_keys + self._lists.nbytes + arrays + self.blocks.nbytes


class _Appended:
    """An array with room at its end. What it holds never changes, also not when it grows: it is copied then."""

    def __init__(self) -> None:
        self.array: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        self.used = 0

    def append(self, values: Integers) -> None:
        """Append values."""
        used = self.used + len(values)
        if used > len(self.array):
            array = numpy.zeros(max(used, 2 * len(self.array)), numpy.int64)
            array[: self.used] = self.array[: self.used]
            self.array = array
        self.array[self.used : used] = values
        self.used = used
