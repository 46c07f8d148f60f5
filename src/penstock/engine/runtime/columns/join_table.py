"""The state of one input of an interval join on columns: its records by bucket, as rows of Arrow.

In snapshots it is the table of the join on rows, with the timers that free the buckets, so either continues the state
of the other. A bucket here needs no timers: it is freed as a whole.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy
import pyarrow

from penstock.engine.runtime.columns.bucket_entries import BucketEntries
from penstock.engine.runtime.columns.bucket_rows import BucketRows
from penstock.engine.runtime.columns.bucket_spans import spans_of
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.declared_keys import DeclaredKeys
from penstock.engine.runtime.columns.frozen_buckets import FrozenBucket, FrozenKeys, frozen_table
from penstock.engine.runtime.columns.kept_fields import KeptFields
from penstock.engine.runtime.columns.slice_numbers import by_slice
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys, are_integers
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.memory_budget import MemoryAccount
from penstock.engine.state.tables import FrozenTable, Table

N = TypeVar("N")
_EMPTY_BYTES = 1 << 14
_ROW_BYTES = 400
"""The most that a record takes in addition to its fields: a new key that is not an integer, with its list."""


class JoinTable(Table):
    """The records of buckets of `bucket_ms`. `fields`: what is kept of a record. `memory`: of the records.

    Buckets of few records are in spans of several, since a chunk pays for each span that it reaches. `declared`: the
    keys of the program, which restored ones have to fit.
    """

    def __init__(
        self,
        fields: KeptFields,
        bucket_ms: int,
        memory: MemoryAccount | None = None,
        declared: DeclaredKeys | None = None,
    ) -> None:
        self.fields = fields
        self.bucket_ms = bucket_ms
        self._memory = memory
        self._declared = declared
        self.spans: dict[int, BucketRows] = {}
        """First bucket of a span -> its records. Spans have no bucket in common."""
        self._firsts: list[int] = []
        """The first buckets of the spans in order: a chunk must not look at all of them."""
        self._bytes: dict[int, int] = {}
        """The memory of each span."""
        self.alive_from = -(1 << 63)
        """The first bucket that is not freed."""
        self._stored: _StoredEntries[int] = _StoredEntries()
        self._restored = LayeredTable(namespaced=True)

    def append(self, keys: RowKeys, times: Integers, rows: pyarrow.RecordBatch) -> None:
        """Append records. Raises MemoryBudgetError, with nothing appended, if the slot has no memory for them."""
        buckets = times // self.bucket_ms
        known = self.reached(int(buckets.min()), int(buckets.max()))
        bounds, firsts = spans_of(buckets, [(one.first, one.stop) for one in known])
        parts = list(by_slice(firsts, keys, Columns(rows, times)))
        needed = self._bytes_needed(parts)
        if self._memory is not None:
            self._memory.reserve(needed)
        for first, some_keys, some in parts:
            span = self.spans.get(first)
            if span is None:
                span = self.spans[first] = BucketRows(first, bounds[first], self.bucket_ms)
                insort(self._firsts, first)
            assert some.timestamps is not None
            span.append(some_keys, some.timestamps, some.batch)
        if self._memory is not None:
            before = sum(self._bytes.get(first, 0) for first, *_ in parts)
            self._bytes.update((first, self.spans[first].nbytes) for first, *_ in parts)
            self._memory.take(sum(self._bytes[first] for first, *_ in parts) - before)
            self._memory.release(needed)

    def _bytes_needed(self, parts: Sequence[tuple[int, RowKeys, Columns]]) -> int:
        # Arrays that are full double, and blocks of rows are copied into one.
        held = sum(self._bytes.get(first, _EMPTY_BYTES) for first, *_ in parts)
        more: int = sum(len(some) * _ROW_BYTES + 2 * some.batch.nbytes for _, _, some in parts)
        return held + more

    def reached(self, lowest: int, highest: int) -> list[BucketRows]:
        """Return the spans with buckets from `lowest` to `highest`, in order."""
        # The span that begins last before them may have some, too.
        start = max(0, bisect_right(self._firsts, lowest) - 1)
        firsts = self._firsts[start : bisect_right(self._firsts, highest)]
        return [span for span in map(self.spans.__getitem__, firsts) if span.stop > lowest]

    def free(self, alive_from: int) -> Iterator[None]:
        """Free the buckets before this one, in steps."""
        self.alive_from = max(self.alive_from, alive_from)
        while self._firsts and self.spans[self._firsts[0]].stop <= alive_from:
            self._drop(self._firsts[0])
            yield

    def _drop(self, first: int) -> None:
        del self.spans[first]
        self._firsts.remove(first)
        if self._memory is not None:
            self._memory.release(self._bytes.pop(first))

    def use_restored(self) -> None:
        """Make columns of what was restored. They do not count as changed."""
        entries = list(self._restored.items())
        self._restored = LayeredTable(namespaced=True)
        if entries:
            keys = [key for (key, _), _ in entries]
            if self._declared is not None:
                self._declared.check(keys)
            of_rows = _of_rows(keys, [len(pairs) for _, pairs in entries])
            times, records = zip(*chain.from_iterable(pairs for _, pairs in entries), strict=True)
            self.append(of_rows, numpy.array(times, numpy.int64), self.fields.of_records(records))
        for span in self.spans.values():
            span.note_stored()
        self._stored.update(self.entries(), self.alive_from, full=True)

    # Snapshots.

    def freeze(self, full: bool) -> FrozenTable:
        gone, _ = self._stored.update(self.entries(), self.alive_from, full)
        removed = [FrozenKeys(of, numbers, lambda key, bucket: (key, bucket), value=None) for _, of, numbers in gone]
        records = self.fields.reader()
        changed = [span for span in self.spans.values() if full or span.has_changed]
        frozen = [FrozenBucket(span.freeze(full), self.alive_from, records) for span in changed]
        return frozen_table([*removed, *frozen], full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        self._restored.restore(entry_keys, values)

    def entries(self) -> dict[int, BucketEntries]:
        """Return the entries of each span."""
        return {first: span.entries for first, span in self.spans.items()}

    # Queries.

    def readable(self) -> JoinTable:
        return self

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the possible entry keys of these keys: one for each bucket."""
        buckets = sorted({bucket for span in self.spans.values() for _, bucket in self._alive_entries(span)})
        return [(key, bucket) for key in keys for bucket in buckets]

    def get(self, entry_key: Any) -> Any:
        """Return the records of a key in a bucket, with their timestamps, or None."""
        key, bucket = entry_key
        span = next((one for one in self.spans.values() if one.first <= bucket < one.stop), None)
        if span is None or bucket < self.alive_from:
            return None
        rows = span.rows_of(key, bucket)
        if not len(rows):
            return None
        records = self.fields.reader()(span.blocks.take(rows))
        return list(zip(span.times_of(rows).tolist(), records, strict=True))

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries; callers need only a few. Nothing may be stored during the iteration."""
        for span in self.spans.values():
            for place in self._alive_entries(span):
                yield place, self.get(place)

    def _alive_entries(self, span: BucketRows) -> Iterator[tuple[Any, int]]:
        numbers = numpy.arange(len(span.entries))
        buckets = span.entries.buckets_of(numbers)
        alive = buckets >= self.alive_from
        keys = span.keys.keys(span.entries.slots_of(numbers[alive]))
        yield from zip(keys, buckets[alive].tolist(), strict=True)

    def clear(self) -> None:
        for first in list(self.spans):
            self._drop(first)

    def __bool__(self) -> bool:
        return any(span.stop > self.alive_from for span in self.spans.values())


class JoinTimers(Table):
    """The event-time timers that the join on rows would have: one for each key of a bucket, when that is freed.

    `freed_at`: returns that time (ms) for the index of an input and a bucket.
    """

    def __init__(self, tables: tuple[JoinTable, JoinTable], freed_at: Callable[[int, int], int]) -> None:
        self._tables = tables
        self._freed_at = freed_at
        self._stored = tuple(_StoredEntries[int]() for _ in tables)
        self._restored: dict[Any, None] = {}

    def take_restored(self, timers_max: int) -> list[Any]:
        """Return some of the timers that were restored, and forget all."""
        found = [timer for _, timer in zip(range(timers_max), self._restored, strict=False)]
        self._restored = {}
        for table, stored in zip(self._tables, self._stored, strict=True):
            stored.update(table.entries(), table.alive_from, full=True)
        return found

    def freeze(self, full: bool) -> FrozenTable:
        removed, added = [], []
        for index, (table, stored) in enumerate(zip(self._tables, self._stored, strict=True)):
            entries, place_of = table.entries(), self._timers_of(index)
            gone, new = stored.update(entries, table.alive_from, full)
            removed += [FrozenKeys(of, numbers, place_of, value=None) for _, of, numbers in gone]
            added += [FrozenKeys(entries[first], numbers, place_of, value=True) for first, numbers in new.items()]
        return frozen_table([*removed, *added], full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        for timer, value in zip(entry_keys, values, strict=True):
            if value is None:
                self._restored.pop(timer, None)
            else:
                self._restored[timer] = None

    def clear(self) -> None:
        """Do nothing: timers are there as long as the buckets."""

    def __bool__(self) -> bool:
        return any(self._tables)

    def _timers_of(self, index: int) -> Callable[[Any, int], Any]:
        return lambda key, bucket: (key, self._freed_at(index, bucket), (index, bucket))


class _StoredEntries(Generic[N]):
    """The entries that the last snapshot has, by span."""

    def __init__(self) -> None:
        self._stored: dict[N, tuple[BucketEntries, int]] = {}
        self._alive_from = -(1 << 63)

    def update(
        self, now: Mapping[N, BucketEntries], alive_from: int, full: bool
    ) -> tuple[list[tuple[N, BucketEntries, Integers]], dict[N, Integers]]:
        """Note that a snapshot has all entries there are now, without buckets before `alive_from`.

        Return the entries that have gone since the last one, and for each span those that the last one lacks. A `full`
        snapshot has no entries of an earlier one.
        """
        before, self._stored = self._stored, {place: (of, len(of)) for place, of in now.items()}
        former, self._alive_from = self._alive_from, alive_from
        if full:
            return [], {place: _between(of, 0, alive_from) for place, of in now.items()}
        gone = []
        for place, (of, count) in before.items():
            is_kept = now.get(place) is of
            if is_kept and alive_from <= max(of.first, former):
                continue
            numbers = numpy.arange(count)
            if is_kept or former > of.first:
                buckets = of.buckets_of(numbers)
                has_gone = buckets >= former
                if is_kept:
                    has_gone &= buckets < alive_from
                numbers = numbers[has_gone]
            if len(numbers):
                gone.append((place, of, numbers))
        kept = {place: count for place, (of, count) in before.items() if now.get(place) is of}
        more = {place: kept.get(place, 0) for place, of in now.items() if len(of) > kept.get(place, 0)}
        return gone, {place: _between(now[place], first, alive_from) for place, first in more.items()}


def _between(entries: BucketEntries, first: int, alive_from: int) -> Integers:
    """Return the entries from `first` on whose bucket is not freed."""
    numbers = numpy.arange(first, len(entries))
    return numbers if alive_from <= entries.first else numbers[entries.buckets_of(numbers) >= alive_from]


def _of_rows(keys: list[Any], counts: list[int]) -> RowKeys:
    """Return the keys of rows: each so many times."""
    if are_integers(keys):
        return IntegerKeys(numpy.repeat(numpy.array(keys, numpy.int64), counts))
    return BatchKeys(keys, numpy.repeat(numpy.arange(len(keys)), counts))
