"""The state of one input of an interval join on columns: its records by bucket, as rows of Arrow.

In snapshots it is the table of the join on rows, with the timers that free the buckets, so either continues the state
of the other. A bucket here needs no timers: it is freed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy
import pyarrow

from penstock.engine.runtime.columns.bucket_rows import BucketRows
from penstock.engine.runtime.columns.frozen_buckets import FrozenBucket, FrozenKeys, frozen_table
from penstock.engine.runtime.columns.kept_fields import KeptFields
from penstock.engine.state.arrays.declared_keys import DeclaredKeys
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.memory_budget import MemoryAccount
from penstock.engine.state.tables import FrozenTable, Table

N = TypeVar("N")
RowsOfBucket = tuple[int, RowKeys, Integers, pyarrow.RecordBatch]
"""The number of a bucket, and keys, timestamps (ms) and what is kept of records that belong there."""
_EMPTY_BYTES = 1 << 14
_ROW_BYTES = 400
"""The most that a record takes besides its fields: a new key that is not an integer, with its list."""
_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 63) - 1


class JoinTable(Table):
    """Number of bucket -> its records. `fields`: what is kept of a record. `memory`: of the records.

    `declared`: the keys of the program, which restored ones have to fit.
    """

    def __init__(
        self, fields: KeptFields, memory: MemoryAccount | None = None, declared: DeclaredKeys | None = None
    ) -> None:
        self.fields = fields
        self._memory = memory
        self._declared = declared
        self._bytes: dict[int, int] = {}
        """The memory of each bucket."""
        self.buckets: dict[int, BucketRows] = {}
        self._stored: _StoredKeys[int] = _StoredKeys()
        self._restored = LayeredTable(namespaced=True)

    def append(self, rows: Sequence[RowsOfBucket]) -> None:
        """Append records. Raises MemoryBudgetError, with nothing appended, if the slot has no memory for them."""
        if self._memory is not None:
            # Arrays that are full double, and blocks of rows are copied into one.
            held = sum(self._bytes.get(number, _EMPTY_BYTES) for number, *_ in rows)
            needed = held + sum(len(times) * _ROW_BYTES + 2 * batch.nbytes for _, _, times, batch in rows)
            self._memory.reserve(needed)
        for number, keys, times, batch in rows:
            bucket = self.buckets.get(number)
            if bucket is None:
                bucket = self.buckets[number] = BucketRows()
            bucket.append(keys, times, batch)
        if self._memory is not None:
            before = sum(self._bytes.get(number, 0) for number, *_ in rows)
            self._bytes.update((number, self.buckets[number].nbytes) for number, *_ in rows)
            now = sum(self._bytes[number] for number, *_ in rows)
            self._memory.take(now - before)
            self._memory.release(needed)

    def drop(self, number: int) -> None:
        """Free a bucket."""
        del self.buckets[number]
        if self._memory is not None:
            self._memory.release(self._bytes.pop(number))

    def use_restored(self) -> None:
        """Make columns of what was restored. They do not count as changed."""
        by_bucket: dict[int, tuple[list[Any], list[list[Any]]]] = {}
        for (key, number), pairs in self._restored.items():
            keys, lists = by_bucket.setdefault(number, ([], []))
            keys.append(key)
            lists.append(pairs)
        self._restored = LayeredTable(namespaced=True)
        for number, (keys, lists) in by_bucket.items():
            times, records = zip(*chain.from_iterable(lists), strict=True)
            if self._declared is not None:
                self._declared.check(keys)
            of_rows = _of_rows(keys, list(map(len, lists)))
            self.append([(number, of_rows, numpy.array(times, numpy.int64), self.fields.of_records(records))])
            self.buckets[number].note_stored()
        self._stored.update(self._keys(), full=True)

    # Snapshots.

    def freeze(self, full: bool) -> FrozenTable:
        gone, _ = self._stored.update(self._keys(), full)
        removed = [FrozenKeys(keys, 0, count, entry_of=_in_bucket(number), value=None) for number, keys, count in gone]
        records = self.fields.reader()
        frozen = [FrozenBucket(number, rows.freeze(full), records) for number, rows in self.buckets.items()]
        return frozen_table([*removed, *frozen], full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        self._restored.restore(entry_keys, values)

    def _keys(self) -> dict[int, KeySlots]:
        return {number: rows.keys for number, rows in self.buckets.items()}

    # Queries.

    def readable(self) -> JoinTable:
        return self

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the possible entry keys of these keys: one for each bucket."""
        return [(key, number) for key in keys for number in self.buckets]

    def get(self, entry_key: Any) -> Any:
        """Return the records of a key in a bucket, with their timestamps, or None."""
        key, number = entry_key
        bucket = self.buckets.get(number)
        rows = None if bucket is None else bucket.rows_of(key)
        if bucket is None or rows is None or not len(rows):
            return None
        records = self.fields.reader()(bucket.blocks.take(rows))
        return list(zip(bucket.times_of(rows).tolist(), records, strict=True))

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries; callers need only a few. Nothing may be stored during the iteration."""
        for number, rows in self.buckets.items():
            for key in rows.keys.keys(slice(None)):
                yield (key, number), self.get((key, number))

    def clear(self) -> None:
        for number in list(self.buckets):
            self.drop(number)

    def __bool__(self) -> bool:
        return bool(self.buckets)


class JoinTimers(Table):
    """The event-time timers that the join on rows would have: one for each key of a bucket, when that is freed.

    `freed_at`: returns that time (ms) for the index of an input and a bucket.
    """

    def __init__(self, tables: tuple[JoinTable, JoinTable], freed_at: Callable[[int, int], int]) -> None:
        self._tables = tables
        self._freed_at = freed_at
        self._stored: _StoredKeys[tuple[int, int]] = _StoredKeys()
        self._restored: dict[Any, None] = {}

    def take_restored(self, timers_max: int) -> list[Any]:
        """Return some of the timers that were restored, and forget all."""
        found = [timer for _, timer in zip(range(timers_max), self._restored, strict=False)]
        self._restored = {}
        self._stored.update(self._keys(), full=True)
        return found

    def freeze(self, full: bool) -> FrozenTable:
        keys = self._keys()
        gone, firsts = self._stored.update(keys, full)
        removed = [FrozenKeys(of, 0, count, entry_of=self._timer_of(place), value=None) for place, of, count in gone]
        added = [
            FrozenKeys(of, firsts[place], len(of), entry_of=self._timer_of(place), value=True)
            for place, of in keys.items()
        ]
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

    def _keys(self) -> dict[tuple[int, int], KeySlots]:
        return {
            (index, number): rows.keys
            for index, table in enumerate(self._tables)
            for number, rows in table.buckets.items()
        }

    def _timer_of(self, place: tuple[int, int]) -> Callable[[Any], Any]:
        freed_at = self._freed_at(*place)
        return lambda key: (key, freed_at, place)


class _StoredKeys(Generic[N]):
    """The keys that the last snapshot has, by bucket."""

    def __init__(self) -> None:
        self._stored: dict[N, tuple[KeySlots, int]] = {}

    def update(self, now: Mapping[N, KeySlots], full: bool) -> tuple[list[tuple[N, KeySlots, int]], dict[N, int]]:
        """Note that a snapshot has all keys there are now.

        Return the buckets that have gone since the last one, with their keys and how many of them it has; and for each
        bucket the first key that it lacks. A `full` snapshot has no entries of an earlier one.
        """
        before, self._stored = self._stored, {place: (keys, len(keys)) for place, keys in now.items()}
        if full:
            return [], dict.fromkeys(now, 0)
        gone = [(place, *stored) for place, stored in before.items() if now.get(place) is not stored[0]]
        kept = {place: count for place, (keys, count) in before.items() if now.get(place) is keys}
        return gone, {place: kept.get(place, 0) for place in now}


def _in_bucket(number: int) -> Callable[[Any], Any]:
    return lambda key: (key, number)


def _of_rows(keys: list[Any], counts: list[int]) -> RowKeys:
    """Return the keys of rows: each so many times."""
    if all(type(key) is int and _INTEGER_MIN <= key <= _INTEGER_MAX for key in keys):
        return IntegerKeys(numpy.repeat(numpy.array(keys, numpy.int64), counts))
    return BatchKeys(keys, numpy.repeat(numpy.arange(len(keys)), counts))
