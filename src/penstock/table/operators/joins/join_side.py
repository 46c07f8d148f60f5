"""The rows of one input of a join: blocks of Arrow with the numbers of rows, found by the key of the join.

Rows are appended, and marked when they are retracted. A row is found again among those of its key by its unique key, if
the planner knows one, otherwise by all of its values; the index for this is made when the first row is retracted.

Durable state are the entries of `KeyedRows`: a row, how many rows of the other side it is joined with, and with a time
to live when it was written.

With a time to live, a row expires when it was not written for so long: when it came, or its number of matches changed.
From then on it is not found; its memory is used again after an eighth of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy
import pyarrow

from penstock.engine.runtime.columns.slot_lists import Listed
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys
from penstock.table.operators.joins.thinned_lists import ThinnedLists
from penstock.table.operators.keyed.row_identity import identity_keys
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.table_columns import TableColumns

_IDENTITY_BITS = 32
_SWEEPS = 8
"""So often in a time to live all rows are looked at, to retract those that have expired."""


class JoinSide:
    """`unique`: the columns of a unique key of the input, or None. `stored`: its rows, perhaps restored ones.

    `ttl_ms`: how long rows are kept after they were written, by `now_ms`; None: for ever.
    """

    def __init__(
        self,
        columns: TableColumns,
        unique: Sequence[str] | None,
        *,
        ttl_ms: int | None = None,
        now_ms: Callable[[], int] = lambda: 0,
        stored: KeyedRows | None = None,
    ) -> None:
        self._columns = columns
        self.stored = KeyedRows(columns, has_times=ttl_ms is not None) if stored is None else stored
        self._unique = None if unique is None else tuple(unique)
        self._ttl_ms = ttl_ms
        self._now_ms = now_ms
        self._next_sweep_ms = 0
        self._index()

    def _index(self) -> None:
        """Index all rows that there are."""
        self._lists = ThinnedLists()
        self._identities: KeySlots | None = None
        self._rows_of: dict[int, list[int]] = {}
        """The rows of each entry: see `_entries_of`."""
        self._lists.make_room(len(self.stored.keys))
        if self.stored.used:
            self._lists.append(self.stored.slots[: self.stored.used], 0)

    @property
    def matches(self) -> Integers:
        """How many rows of the other side each row is joined with, for outer and semi joins."""
        return self.stored.counts

    def find(self, keys: RowKeys) -> Listed:
        """Return the rows with these keys: for each its position among the keys, in the order of arrival."""
        return self.listed(self.slots_of(keys))

    def slots_of(self, keys: RowKeys) -> Integers:
        """Return the slot of each key, or MISSING for one without rows."""
        if self._ttl_ms is not None:
            self._expire(self._ttl_ms)
        return self.stored.keys.find(keys)

    def candidates(self, slots: Integers) -> Integers:
        """Return how many rows `listed` looks at for each slot."""
        found: Integers = numpy.where(slots == MISSING, 0, self._lists.counts[slots])
        return found

    @property
    def row_bytes(self) -> int:
        """The average size of a row (bytes)."""
        return self.stored.row_bytes

    def listed(self, slots: Integers) -> Listed:
        """Return the rows of these slots: for each its position among them, in the order of arrival."""
        known = numpy.flatnonzero(slots != MISSING)
        if not len(known):
            return Listed(known, known)
        listed = self._lists.of(slots[known])
        places, items = known[listed.places], listed.items
        if not self.stored.gone and self._ttl_ms is None:
            return Listed(places, items)
        there = self._are_there(items)
        return Listed(places[there], items[there])

    def rows(self, numbers: Integers, names: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return rows by their numbers. `names`: these columns only."""
        return self.stored.rows(numbers, names)

    def _are_there(self, numbers: Integers) -> Mask:
        """Return which of these rows are neither retracted nor expired."""
        there: Mask = self.stored.alive[numbers]
        if self._ttl_ms is not None:
            there = there & (self.stored.times_ms[numbers] > self._now_ms() - self._ttl_ms)
        return there

    @property
    def next_number(self) -> int:
        """The number of the next row that is added. It is lower than before when rows have got other numbers."""
        return self.stored.used

    def numbers(self) -> Integers:
        """Return the numbers of all rows that are not retracted."""
        return self.stored.living()

    def retract(self, numbers: Integers) -> None:
        """Retract rows by their numbers, which may change by this call. Only for sides whose changes are insertions."""
        self._take_away(numbers)
        self._compact()

    def _take_away(self, numbers: Integers) -> None:
        slots = self.stored.slots[numbers]
        self.stored.take_away(numbers)
        self._lists.note_gone(slots, self.stored.alive)

    def add_matches(self, numbers: Integers, by: Integers) -> None:
        """Add to the number of matches of rows, of which some may be there several times."""
        numpy.add.at(self.stored.counts, numbers, by)
        self.stored.times_ms[numbers] = self._now_ms()
        self.stored.note_changed(numbers)

    def change(self, keys: RowKeys, batch: pyarrow.RecordBatch, added: Mask, matches: Integers) -> None:
        """Add and retract rows, in their order. `added`: which are added; `matches`: how many each has."""
        if self._unique is not None or not added.all():
            self._index_identities()
        if self._ttl_ms is not None:
            self._expire(self._ttl_ms)
        first = self.stored.used
        rows = numpy.flatnonzero(added)
        if len(rows):
            slots = self.stored.keys.slots_of(keys.at(rows))
            self._lists.append(slots, first)
            new = batch if added.all() else batch.take(pyarrow.array(rows))
            self.stored.append(slots, new, matches[rows], self._now_ms())
        if self._identities is not None:
            self._replace(self._entries_of(batch, self.stored.keys.find(keys)), added, first)
        self._compact()

    def _replace(self, entries: Integers, added: Mask, first: int) -> None:
        """Retract rows, and those that a row with the same key and unique key replaces."""
        number, gone = first, list[int]()
        oldest_ms = None if self._ttl_ms is None else self._now_ms() - self._ttl_ms
        for entry, is_added in zip(entries.tolist(), added.tolist(), strict=True):
            alive = self._rows_of.setdefault(entry, [])
            if oldest_ms is not None:
                alive[:] = [one for one in alive if self._is_newer(one, oldest_ms)]
            if alive and (self._unique is not None or not is_added):
                gone.append(alive.pop(0))
            if is_added:
                alive.append(number)
                number += 1
            if not alive:
                del self._rows_of[entry]
        if gone:
            self._take_away(numpy.array(gone, numpy.int64))

    def _is_newer(self, number: int, than_ms: int) -> bool:
        return bool(self.stored.alive[number]) and int(self.stored.times_ms[number]) > than_ms

    def _index_identities(self) -> None:
        if self._identities is not None:
            return
        self._identities = KeySlots()
        alive = self.stored.living()
        if len(alive):
            entries = self._entries_of(self.rows(alive), self.stored.slots[alive])
            for entry, number in zip(entries.tolist(), alive.tolist(), strict=True):
                self._rows_of.setdefault(entry, []).append(number)

    def _entries_of(self, batch: pyarrow.RecordBatch, slots: Integers) -> Integers:
        """Return a number for each row: the same for those with the same key that are equal, or have one unique key.

        As Flink keeps rows by the join's key, one with another key is not replaced: if a row moves from key to key, it
        does not matter whether it goes first or comes first.
        """
        assert self._identities is not None
        identities = self._identities.slots_of(self._identity_keys(batch))
        # Equal rows have equal keys.
        return identities if self._unique is None else (slots << _IDENTITY_BITS) | identities

    def _identity_keys(self, batch: pyarrow.RecordBatch) -> RowKeys:
        # Without columns of a unique key the input has one row at most.
        names = self._columns.names if self._unique is None else self._unique
        return identity_keys([batch.column(name) for name in names]) if names else keys_of_batch(batch, ())

    def _expire(self, ttl_ms: int) -> None:
        """Retract rows that have expired, now and then: this looks at all rows."""
        now_ms = self._now_ms()
        if now_ms < self._next_sweep_ms:
            return
        self._next_sweep_ms = now_ms + max(1, ttl_ms // _SWEEPS)
        living = self.stored.living()
        expired = living[self.stored.times_ms[living] <= now_ms - ttl_ms]
        if len(expired):
            self._take_away(expired)

    def _compact(self) -> None:
        """Forget retracted rows if they are most."""
        if self.stored.forget_gone():
            self._index()

    def __len__(self) -> int:
        return self.stored.used - self.stored.gone
