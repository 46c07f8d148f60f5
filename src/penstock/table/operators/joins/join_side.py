"""The rows of one input of a join: blocks of Arrow with the numbers of rows, found by the key of the join.

Rows are appended, and marked when they are retracted. A row is found again by its unique key, if the planner knows one,
otherwise by all of its values; the index for this is made when the first row is retracted.

Durable state is a table of key -> [(number of matches, row), ...], with a time to live [(number of matches, row, time),
...]. What has changed since the last snapshot is written there before the next one.

With a time to live, a row expires when it was not written for so long: when it came, or its number of matches changed.
From then on it is not found; its memory is used again after an eighth of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.row_blocks import RowBlocks
from penstock.engine.runtime.columns.slot_lists import Listed, SlotLists
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys, keys_of_values
from penstock.engine.state.layers import LayeredTable
from penstock.table.operators.keyed.row_identity import identity_keys
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.table_columns import TableColumns

_FIRST_ROOM = 1024
_FEW_GONE = 16
"""Up to so many retracted rows of a key stay in its list."""
_SWEEPS = 8
"""So often in a time to live all rows are looked at, to retract those that have expired."""


class JoinSide:
    """`unique`: the columns of a unique key of the input, or None.

    `ttl_ms`: how long rows are kept after they were written, by `now_ms`; None: for ever.
    """

    def __init__(
        self,
        columns: TableColumns,
        unique: Sequence[str] | None,
        *,
        ttl_ms: int | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._columns = columns
        self._unique = None if unique is None else tuple(unique)
        self._ttl_ms = ttl_ms
        self._now_ms = now_ms
        self._next_sweep_ms = 0
        self._clear()

    def _clear(self) -> None:
        self._keys = KeySlots()
        self._lists = SlotLists()
        self._blocks = RowBlocks()
        self._used = 0
        self._gone = 0
        """How many of the rows are retracted."""
        self._gone_of: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        """How many of the rows in the list of each key are retracted."""
        self._slots: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self._alive: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        self.matches: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        """How many rows of the other side each row is joined with, for outer and semi joins."""
        self._written_ms: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self._is_changed: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        """Whether the rows of each key have changed since the last snapshot."""
        self._identities: KeySlots | None = None
        self._rows_of: dict[int, list[int]] = {}

    def find(self, keys: RowKeys) -> Listed:
        """Return the rows with these keys: for each its position among the keys, in the order of arrival."""
        return self.listed(self.slots_of(keys))

    def slots_of(self, keys: RowKeys) -> Integers:
        """Return the slot of each key, or MISSING for one without rows."""
        if self._ttl_ms is not None:
            self._expire(self._ttl_ms)
        return self._keys.find(keys)

    def candidates(self, slots: Integers) -> Integers:
        """Return how many rows `listed` looks at for each slot."""
        found: Integers = numpy.where(slots == MISSING, 0, self._lists.counts[slots])
        return found

    @property
    def row_bytes(self) -> int:
        """The average size of a row (bytes)."""
        return self._blocks.nbytes // max(1, self._used)

    def listed(self, slots: Integers) -> Listed:
        """Return the rows of these slots: for each its position among them, in the order of arrival."""
        known = numpy.flatnonzero(slots != MISSING)
        if not len(known):
            return Listed(known, known)
        listed = self._lists.of(slots[known])
        places, items = known[listed.places], listed.items
        if not self._gone and self._ttl_ms is None:
            return Listed(places, items)
        there = self._are_there(items)
        return Listed(places[there], items[there])

    def rows(self, numbers: Integers, names: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return rows by their numbers. `names`: these columns only."""
        if not len(numbers):
            return _empty(self._columns.schema if names is None else self._columns.only(names).schema)
        return self._blocks.take(numbers, names)

    def _are_there(self, numbers: Integers) -> Mask:
        """Return which of these rows are neither retracted nor expired."""
        there: Mask = self._alive[numbers]
        if self._ttl_ms is not None:
            there = there & (self._written_ms[numbers] > self._now_ms() - self._ttl_ms)
        return there

    @property
    def next_number(self) -> int:
        """The number of the next row that is added. It is lower than before when rows have got other numbers."""
        return self._used

    def numbers(self) -> Integers:
        """Return the numbers of all rows that are not retracted."""
        return numpy.flatnonzero(self._alive[: self._used])

    def retract(self, numbers: Integers) -> None:
        """Retract rows by their numbers, which may change by this call. Only for sides whose changes are insertions."""
        self._take_away(numbers)
        self._compact()

    def _take_away(self, numbers: Integers) -> None:
        slots = self._slots[numbers]
        self._alive[numbers] = False
        self._gone += len(numbers)
        self._is_changed[slots] = True
        distinct, counts = numpy.unique(slots, return_counts=True)
        self._gone_of[distinct] += counts
        # A key whose row is replaced again and again must not pay for all the former ones.
        gone = self._gone_of[distinct]
        crowded = distinct[(gone > _FEW_GONE) & (2 * gone > self._lists.counts[distinct])]
        if len(crowded):
            self._lists.keep(crowded, self._alive)
            self._gone_of[crowded] = 0

    def add_matches(self, numbers: Integers, by: Integers) -> None:
        """Add to the number of matches of rows, of which some may be there several times."""
        numpy.add.at(self.matches, numbers, by)
        self._written_ms[numbers] = self._now_ms()
        self._is_changed[self._slots[numbers]] = True

    def change(self, keys: RowKeys, batch: pyarrow.RecordBatch, added: Mask, matches: Integers) -> None:
        """Add and retract rows, in their order. `added`: which are added; `matches`: how many each has."""
        if self._unique is not None or not added.all():
            self._index_identities()
        if self._ttl_ms is not None:
            self._expire(self._ttl_ms)
        first = self._used
        rows = numpy.flatnonzero(added)
        if len(rows):
            slots = self._keys.slots_of(keys.at(rows))
            self._grow(first + len(rows))
            self._lists.append(slots, first)
            self._make_room_for_keys()
            self._blocks.append(batch if added.all() else batch.take(pyarrow.array(rows)))
            self._slots[first : first + len(rows)] = slots
            self._alive[first : first + len(rows)] = True
            self.matches[first : first + len(rows)] = matches[rows]
            self._written_ms[first : first + len(rows)] = self._now_ms()
            self._used += len(rows)
            self._is_changed[slots] = True
        if self._identities is not None:
            self._replace(batch, added, first)
        self._compact()

    def _replace(self, batch: pyarrow.RecordBatch, added: Mask, first: int) -> None:
        """Retract rows, and those that a row with the same unique key replaces."""
        assert self._identities is not None
        identities = self._identities.slots_of(self._identity_keys(batch)).tolist()
        number, gone = first, list[int]()
        oldest_ms = None if self._ttl_ms is None else self._now_ms() - self._ttl_ms
        for identity, is_added in zip(identities, added.tolist(), strict=True):
            alive = self._rows_of.setdefault(identity, [])
            if oldest_ms is not None:
                alive[:] = [one for one in alive if self._alive[one] and self._written_ms[one] > oldest_ms]
            if alive and (self._unique is not None or not is_added):
                gone.append(alive.pop(0))
            if is_added:
                alive.append(number)
                number += 1
            if not alive:
                del self._rows_of[identity]
        if gone:
            self._take_away(numpy.array(gone, numpy.int64))

    def _index_identities(self) -> None:
        if self._identities is not None:
            return
        self._identities = KeySlots()
        alive = numpy.flatnonzero(self._alive[: self._used])
        if len(alive):
            found = self._identities.slots_of(self._identity_keys(self._blocks.take(alive)))
            for identity, number in zip(found.tolist(), alive.tolist(), strict=True):
                self._rows_of.setdefault(identity, []).append(number)

    def _identity_keys(self, batch: pyarrow.RecordBatch) -> RowKeys:
        # Without columns of a unique key the input has one row at most.
        names = self._columns.names if self._unique is None else self._unique
        return identity_keys([batch.column(name) for name in names]) if names else keys_of_batch(batch, ())

    def _make_room_for_keys(self) -> None:
        if len(self._gone_of) < len(self._lists.counts):
            self._gone_of = grown(self._gone_of, len(self._lists.counts), 0)
            self._is_changed = grown(self._is_changed, len(self._lists.counts), False)

    def _grow(self, used: int) -> None:
        room = len(self._alive)
        if used > room:
            more = max(used, 2 * room) - room
            self._slots = numpy.concatenate([self._slots, numpy.zeros(more, numpy.int64)])
            self._alive = numpy.concatenate([self._alive, numpy.zeros(more, numpy.bool_)])
            self.matches = numpy.concatenate([self.matches, numpy.zeros(more, numpy.int64)])
            self._written_ms = numpy.concatenate([self._written_ms, numpy.zeros(more, numpy.int64)])

    def _expire(self, ttl_ms: int) -> None:
        """Retract rows that have expired, now and then: this looks at all rows."""
        now_ms = self._now_ms()
        if now_ms < self._next_sweep_ms:
            return
        self._next_sweep_ms = now_ms + max(1, ttl_ms // _SWEEPS)
        old = self._alive[: self._used] & (self._written_ms[: self._used] <= now_ms - ttl_ms)
        expired = numpy.flatnonzero(old)
        if len(expired):
            self._take_away(expired)

    def _compact(self) -> None:
        """Forget retracted rows if they are most."""
        if self._used < 2 * _FIRST_ROOM or 2 * self._gone < self._used:
            return
        alive = numpy.flatnonzero(self._alive[: self._used])
        batch, slots, matches = self.rows(alive), self._slots[alive], self.matches[alive]
        written_ms = self._written_ms[alive]
        former = self._keys
        changed = former.keys(numpy.flatnonzero(self._is_changed))
        self._clear()
        if len(alive):
            keys = former.keys(slots)
            self.change(keys_of_values(keys), batch, numpy.ones(len(alive), numpy.bool_), matches)
            self._written_ms[: len(alive)] = written_ms
        # Keys without rows are written, too.
        slots = self._keys.slots_of(keys_of_values(changed)) if changed else numpy.zeros(0, numpy.int64)
        self._lists.make_room(len(self._keys))
        self._make_room_for_keys()
        self._is_changed[:] = False
        self._is_changed[slots] = True

    # Durable state.

    def write_back(self, table: LayeredTable) -> None:
        """Write the rows of keys that have changed since the last call."""
        changed = numpy.flatnonzero(self._is_changed)
        self._is_changed[changed] = False
        if not len(changed):
            return
        keys = self._keys.keys(changed)
        places, items = self._lists.of(changed)
        alive = self._alive[items]
        places, items = places[alive], items[alive]
        batch = self.rows(items)
        rows_of_table: Any = zip(*map(python_values, batch.columns), strict=True)
        entries: Any = zip(self.matches[items].tolist(), rows_of_table, strict=True)
        if self._ttl_ms is not None:
            times = self._written_ms[items].tolist()
            entries = ((matches, row, time) for (matches, row), time in zip(entries, times, strict=True))
        values: list[list[Any]] = [[] for _ in keys]
        for place, entry in zip(places.tolist(), entries, strict=True):
            values[place].append(entry)
        for key, rows in zip(keys, values, strict=True):
            if rows:
                table.put(key, rows)
            else:
                table.discard(key)

    def load(self, table: LayeredTable) -> None:
        """Read all rows from a table that was restored."""
        keys: list[Any] = []
        entries: list[Any] = []
        for key, of_key in table.items():
            keys += [key] * len(of_key)
            entries += of_key
        if entries:
            matches = numpy.array([entry[0] for entry in entries], numpy.int64)
            batch = self._columns.exact_batch(list(zip(*(entry[1] for entry in entries), strict=True)))
            self.change(keys_of_values(keys), batch, numpy.ones(len(entries), numpy.bool_), matches)
            # Without a time to live when they were written, rows expire as if written now.
            now_ms = self._now_ms()
            times = [entry[2] if len(entry) > 2 else now_ms for entry in entries]
            self._written_ms[: len(entries)] = times
        self._is_changed[:] = False

    def __len__(self) -> int:
        return self._used - self._gone


def _empty(schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_arrays([pyarrow.array([], kind) for kind in schema.types], schema=schema)
