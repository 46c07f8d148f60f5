"""How often each value occurs for each key: entries of key and value with counts, in arrays, found by an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute, types

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.field_arrays import objects
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.slot_lists import Listed, SlotLists
from penstock.engine.state.arrays.key_index import MISSING, distinct_in_order, key_index
from penstock.engine.state.arrays.key_slots import FIRST_ROOM, KeySlots
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, StoredColumn

_CODE_BITS = 32
_ENTRY_BYTES = 64
"""An entry with its places in the indexes; a text takes more."""
_MANY_DEAD = 1024
_OWNERS_MANY = 1 << 30
"""There is room for twice as many."""
_BITS_OF_INT = 32


class ValueCounts(StateArray):
    """`kinds`: the types of a value's fields. `columns`: how many counts each entry has.

    Entries belong to an owner, of which each slot has one: a slot that begins again gets another owner, and the entries
    of the former one are dropped when there are many such. Counts are of values that were added, less those retracted.
    """

    def __init__(self, kinds: Sequence[pyarrow.DataType], columns: int = 1) -> None:
        self.kinds = tuple(kinds)
        self._columns = columns
        self._owners: Integers = numpy.arange(FIRST_ROOM)
        self._next_owner = FIRST_ROOM
        self._begin()

    def _begin(self) -> None:
        self._values = KeySlots()
        self._index = key_index()
        self._lists = SlotLists()
        self._used = self._dead = 0
        self._codes: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        self.counts: Integers = numpy.zeros((self._columns, FIRST_ROOM), numpy.int64)
        """The counts of each entry."""
        self.only_grows = True
        """Whether no count has ever become smaller."""

    # Calls of aggregates.

    def entries_of(self, slots: Integers, values: Sequence[pyarrow.Array]) -> Integers:
        """Return the entry of each row's slot and value. `values`: without NULL."""
        return self._entries_of(slots, row_keys([plain(one) for one in values], exact=True))

    def add(self, entries: Integers, numbers: Integers, column: int = 0) -> Integers:
        """Add to the counts of entries. Return for each row 1 if its value comes, -1 if it goes, else 0."""
        counts = self.counts[column]
        if self.only_grows and (not len(numbers) or int(numbers.min()) >= 0):
            return self._add_growing(entries, numbers, counts)
        self.only_grows = False
        runs = Runs(entries)
        ordered = numbers[runs.order]
        after = runs.sums(ordered) + runs.of_runs(counts[runs.slots])
        self._dead -= self._without_counts(runs.slots)
        counts[runs.slots] = after[runs.ends]
        self._dead += self._without_counts(runs.slots)
        changes = (after > 0).astype(numpy.int64) - (after - ordered > 0)
        found: Integers = runs.by_row(changes)
        return found

    def entries_at(self, slots: Integers, column: int = 0) -> Listed:
        """Return the entries of slots whose value is there."""
        listed = self._lists.of(self._listed_owners(slots))
        alive = self.counts[column][listed.items] > 0
        return Listed(listed.places[alive], listed.items[alive])

    def values_at(self, entries: Integers) -> list[pyarrow.Array]:
        """Return the values of entries, a column for each field."""
        codes = self._codes[entries]
        if len(self.kinds) > 1:
            rows = self._values.keys(codes)
            return [_column([row[place] for row in rows], kind) for place, kind in enumerate(self.kinds)]
        values = self._values.keys(codes) if self._values.has_others else self._values.integers[codes]
        return [_column(values, self.kinds[0])]

    def python_values_at(self, entries: Integers) -> list[Any]:
        """Return the values of entries as Python compares them."""
        return self._values.keys(self._codes[entries])

    def extremes(self, entries: Integers, count: int, *, largest: bool) -> Integers:
        """Return some of the entries of one slot, with those of its `count` largest values, or its smallest.

        Of values that NumPy can't compare, all entries.
        """
        if len(entries) <= count or len(self.kinds) > 1 or self._values.has_others:
            return entries
        values = self._values.integers[self._codes[entries]]
        place = len(values) - count if largest else count - 1
        order = numpy.argpartition(values, place)
        return entries[order[place:] if largest else order[:count]]

    def listed(self, slots: Integers) -> pyarrow.Array:
        """Return the values of slots with their counts, a list for each slot."""
        listed = self._lists.of(self._listed_owners(slots))
        entries = listed.items
        fields = [*self.values_at(entries), *(pyarrow.array(of[entries]) for of in self.counts)]
        flat = pyarrow.StructArray.from_arrays(fields, fields=list(self.listed_type.value_type))
        offsets = numpy.zeros(len(slots) + 1, numpy.int32)
        offsets[1:] = numpy.cumsum(numpy.bincount(listed.places, minlength=len(slots)))
        return pyarrow.ListArray.from_arrays(pyarrow.array(offsets), flat)

    @property
    def listed_type(self) -> pyarrow.DataType:
        """The type of what `listed` returns."""
        counts = [pyarrow.field(f"c{place}", pyarrow.int64()) for place in range(self._columns)]
        return pyarrow.list_(
            pyarrow.struct([*(pyarrow.field(f"v{place}", kind) for place, kind in enumerate(self.kinds)), *counts])
        )

    # State.

    def grow(self, room: int) -> None:
        more = room - len(self._owners)
        self._owners = numpy.concatenate([self._owners, numpy.arange(self._next_owner, self._next_owner + more)])
        self._next_owner += more

    def clear(self, slots: Integers) -> None:
        owners = self._listed_owners(slots)
        sizes = self._lists.counts[owners]
        left = slots[sizes > 0]
        self._dead += int(sizes.sum())
        self._owners[left] = numpy.arange(self._next_owner, self._next_owner + len(left))
        self._next_owner += len(left)

    def compact(self) -> None:
        if (self._dead > _MANY_DEAD and 2 * self._dead > self._used) or self._next_owner >= _OWNERS_MANY:
            self._rebuild(numpy.arange(len(self._owners)))

    def keep(self, slots: Integers) -> None:
        self._rebuild(slots)

    def stored(self, slots: Integers) -> StoredColumn:
        # Another thread may call this: what it reads it must not change, not even by giving lists more room.
        owners = self._owners[slots]
        known = numpy.flatnonzero(owners < len(self._lists.counts))
        listed = self._lists.of(owners[known])
        listed = Listed(known[listed.places], listed.items)
        counts = self.counts[:, listed.items]
        there = counts.any(axis=0)
        entries, counts = listed.items[there], counts[:, there].T
        ends = numpy.cumsum(numpy.bincount(listed.places[there], minlength=len(slots))).tolist()
        codes, start, found = self._codes[entries], 0, []
        are_integers = not self._values.has_others
        for end in ends:
            part = codes[start:end]
            values = self._values.integers[part].tobytes() if are_integers else self._values.keys(part)
            found.append((values, counts[start:end].tobytes()) if end > start else None)
            start = end
        return StoredColumn(OBJECTS, (objects(found),))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        self.load(slots, column.parts[0].tolist())

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.clear(slots)
        present = [(slot, one) for slot, one in zip(slots.tolist(), values, strict=True) if one is not None]
        if not present:
            return
        counts = [numpy.frombuffer(one[1], "<i8").reshape(-1, self._columns) for _, one in present]
        of_rows = numpy.repeat([slot for slot, _ in present], [len(one) for one in counts])
        if all(isinstance(one[0], bytes) for _, one in present):
            keys: RowKeys = IntegerKeys(numpy.concatenate([numpy.frombuffer(one[0], "<i8") for _, one in present]))
        else:
            flat = [value for _, one in present for value in _listed_values(one[0])]
            keys = BatchKeys(flat, numpy.arange(len(flat)))
        together = numpy.concatenate(counts).T
        # Values with the number 0 may have been less than that.
        self.only_grows = self.only_grows and bool((together >= 0).all())
        entries = self._entries_of(of_rows, keys)
        self.counts[:, entries] = together
        self._dead -= int(together.any(axis=0).sum())

    @property
    def bytes_per_key(self) -> int:
        return 8 + _ENTRY_BYTES * len(self._codes) // max(1, len(self._owners))

    def _entries_of(self, slots: Integers, keys: RowKeys) -> Integers:
        owners = self._owners[slots]
        pairs = owners << _CODE_BITS | self._values.slots_of(keys)
        entries = self._index.numbers_of(pairs)
        missing = entries == MISSING
        if missing.any():
            rows = pairs[missing]
            new = distinct_in_order(rows)
            first, self._used = self._used, self._used + len(new)
            self._dead += len(new)
            self._make_room()
            self._codes[first : self._used] = new & ((1 << _CODE_BITS) - 1)
            self._lists.append(new >> _CODE_BITS, first)
            self._index.put(new, first)
            entries[missing] = self._index.numbers_of(rows)
        return entries

    def _add_growing(self, entries: Integers, numbers: Integers, counts: Integers) -> Integers:
        """Add where values only come: the first row of an entry that counts is the one with which its value comes."""
        changes: Integers = numpy.zeros(len(entries), numpy.int64)
        new = numpy.flatnonzero((counts[entries] == 0) & (numbers > 0))
        if len(new):
            # Of several writes to the same place the last one remains.
            firsts = numpy.empty(self._used, numpy.int64)
            firsts[entries[new[::-1]]] = new[::-1]
            changes[new] = firsts[entries[new]] == new
            self._dead -= self._without_counts(entries[changes > 0])
        numpy.add.at(counts, entries, numbers)
        return changes

    def _listed_owners(self, slots: Integers) -> Integers:
        self._lists.make_room(self._next_owner)
        return self._owners[slots]

    def _make_room(self) -> None:
        if self._used > len(self._codes):
            room = max(self._used, 2 * len(self._codes))
            self._codes = grown(self._codes, room, 0)
            more = numpy.zeros((self._columns, room - self.counts.shape[1]), numpy.int64)
            self.counts = numpy.concatenate([self.counts, more], axis=1)

    def _without_counts(self, entries: Integers) -> int:
        """Return how many of these entries, each there once, have no count."""
        return len(entries) - int(numpy.count_nonzero(self.counts[:, entries].any(axis=0)))

    def _rebuild(self, slots: Integers) -> None:
        """Keep the entries of these slots alone, which are the slots 0, 1, 2 and so on."""
        listed = self._lists.of(self._listed_owners(slots))
        there = self.counts[:, listed.items].any(axis=0)
        places, entries = listed.places[there], listed.items[there]
        values, counts, only_grows = self._values, self.counts[:, entries], self.only_grows
        codes = self._codes[entries]
        self._owners, self._next_owner = numpy.arange(len(slots)), len(slots)
        self._begin()
        self.only_grows = only_grows
        if len(entries):
            keys: RowKeys = IntegerKeys(values.integers[codes])
            if values.has_others:
                keys = BatchKeys(values.keys(codes), numpy.arange(len(codes)))
            new = self._entries_of(places, keys)
            self.counts[:, new] = counts
        self._dead = 0


def plain(column: pyarrow.Array) -> pyarrow.Array:
    """Return times and floats as integers, which need no Python, in the same order. NULL stays NULL.

    0.0 and -0.0 are different, and NaN is equal to itself, as in Java.
    """
    stored = _stored_type(column.type)
    if stored is None:
        return column
    if types.is_floating(column.type):
        column = compute.if_else(compute.is_nan(column), pyarrow.scalar(numpy.nan, column.type), column)
        bits = column.view(stored)
        # NumPy makes floats of integers with NULL.
        absent = bits.is_null().to_numpy(zero_copy_only=False) if bits.null_count else None
        numbers = bits if absent is None else bits.fill_null(0)
        return pyarrow.array(_ordered(numbers.to_numpy(zero_copy_only=False)), mask=absent)
    return column.view(stored)


def _column(values: Any, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return values as a column: what `plain` has made of one."""
    stored = _stored_type(kind)
    if not len(values):
        # Integers, as long as no value has come; not all types are cast from these.
        return pyarrow.array([], kind)
    if stored is None:
        return pyarrow.array(values).cast(kind) if isinstance(values, numpy.ndarray) else pyarrow.array(values, kind)
    numbers = numpy.array(values, stored.to_pandas_dtype())
    return pyarrow.array(_ordered(numbers) if types.is_floating(kind) else numbers).view(kind)


def _stored_type(kind: pyarrow.DataType) -> pyarrow.DataType | None:
    """Return the type of integers that stand for values of a type; None: they stay as they are."""
    if types.is_temporal(kind) or types.is_float64(kind) or types.is_float32(kind):
        return pyarrow.int32() if kind.bit_width == _BITS_OF_INT else pyarrow.int64()
    return None


def _ordered(bits: Any) -> Any:
    """Return integers in the order of the floats with these bits, and the bits of such integers."""
    return bits ^ ((bits >> (8 * bits.itemsize - 1)) & numpy.iinfo(bits.dtype).max)


def _listed_values(stored: Any) -> list[Any]:
    values: list[Any] = numpy.frombuffer(stored, "<i8").tolist() if isinstance(stored, bytes) else stored
    return values
