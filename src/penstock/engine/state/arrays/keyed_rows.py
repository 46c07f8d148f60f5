"""Rows of keys as a table of keyed state: many rows of each key, as blocks of Arrow that are only appended.

An entry is one row: its entry key is (key, number of the entry), its value (count, row), or with times (count, row,
time in ms). Numbers of entries grow in the order in which rows came, and stay what they are after a restore. So a
snapshot writes the rows that are new, changed or gone since the last one, as arrays, whatever else their keys have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.state.arrays.array_table import ARRAYS_UNIT
from penstock.engine.state.arrays.arrow_rows import ArrowRows
from penstock.engine.state.arrays.frozen_arrays import FrozenArrays
from penstock.engine.state.arrays.frozen_rows import FrozenRows
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import Integers, Mask, keys_of_values
from penstock.engine.state.arrays.stored_columns import COUNT, ROWS, ArrayKeys, ArrayValues, Piece, StoredColumn
from penstock.engine.state.tables import FrozenTable, Table

_FIRST_ROOM = 1024
_ROW_BYTES = 100


class KeyedRows(Table):
    """Rows by number: 0, 1, 2 and so on, until `forget_gone` gives them other numbers. `has_times`: values have a time.

    Operators change `counts` and `times_ms` in place, and call `note_changed`.
    """

    unit = ARRAYS_UNIT

    def __init__(self, columns: RecordColumns, *, has_times: bool) -> None:
        self._columns = columns
        self._has_times = has_times
        self._restored: list[Piece] = []
        self._dropped: list[Piece] = []
        """Entries that an earlier snapshot has, and that have no row any more."""
        self._next_entry = 0
        self._empty()

    def _empty(self) -> None:
        self.keys = KeySlots()
        self._blocks = RowBlocks()
        self.used = 0
        """How many rows there are, with those that have gone."""
        self.gone = 0
        self.slots: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self._entries: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        """The number of each row's entry."""
        self.counts: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self.times_ms: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self.alive: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        self._changed: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        self._stored: Mask = numpy.zeros(_FIRST_ROOM, numpy.bool_)
        """Whether an earlier snapshot has the entry."""

    # Calls of operators.

    def append(self, slots: Integers, rows: pyarrow.RecordBatch, counts: Integers, times_ms: Integers | int) -> None:
        """Append rows of keys, which are given by their slots in `keys`."""
        first, used = self.used, self.used + len(slots)
        self._make_room(used)
        self._blocks.append(rows)
        self.slots[first:used] = slots
        self._entries[first:used] = numpy.arange(self._next_entry, self._next_entry + len(slots))
        self._next_entry += len(slots)
        self.counts[first:used] = counts
        self.times_ms[first:used] = times_ms
        self.alive[first:used] = True
        self._changed[first:used] = True
        self.used = used

    def take_away(self, numbers: Integers) -> None:
        """Remove rows, each once."""
        self.alive[numbers] = False
        self._changed[numbers] = True
        self.gone += len(numbers)

    def note_changed(self, numbers: Integers) -> None:
        """Note that counts or times have changed."""
        self._changed[numbers] = True

    def rows(self, numbers: Integers, names: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return rows by their numbers. `names`: these columns only."""
        if not len(numbers):
            return (self._columns if names is None else self._columns.only(names)).no_rows()
        return self._blocks.take(numbers, names)

    @property
    def row_bytes(self) -> int:
        """The average size of a row (bytes)."""
        return self._blocks.nbytes // max(1, self.used)

    def living(self) -> Integers:
        """Return the numbers of all rows."""
        return numpy.flatnonzero(self.alive[: self.used])

    def forget_gone(self) -> bool:
        """Forget rows that have gone if they are most, and give the others new numbers. Return whether it did."""
        if self.used < 2 * _FIRST_ROOM or 2 * self.gone < self.used:
            return False
        dead = numpy.flatnonzero(self._stored[: self.used] & ~self.alive[: self.used])
        if len(dead):
            self._dropped.append(_removed(_keys_at(self.keys, self.slots[dead]), self._entries[dead]))
        living, former = self.living(), self.keys
        batch, entries, counts = self.rows(living), self._entries[living], self.counts[living]
        times, changed, stored = self.times_ms[living], self._changed[living], self._stored[living]
        slots, following = self.slots[living], self._next_entry
        self._empty()
        if len(living):
            self.append(self.keys.slots_of(keys_of_values(former.keys(slots))), batch, counts, times)
            self._entries[: len(living)], self._changed[: len(living)] = entries, changed
            self._stored[: len(living)] = stored
        self._next_entry = following
        return True

    def _make_room(self, used: int) -> None:
        if used > len(self.alive):
            more = max(used, 2 * len(self.alive)) - len(self.alive)
            # New arrays: a snapshot reads the former ones.
            self.slots, self._entries, self.counts, self.times_ms = (
                numpy.concatenate([array, numpy.zeros(more, numpy.int64)])
                for array in (self.slots, self._entries, self.counts, self.times_ms)
            )
            self.alive, self._changed, self._stored = (
                numpy.concatenate([array, numpy.zeros(more, numpy.bool_)])
                for array in (self.alive, self._changed, self._stored)
            )

    # Snapshots.

    def freeze(self, full: bool) -> FrozenTable:
        dropped, self._dropped = [] if full else self._dropped, []
        frozen = self._frozen(full)
        rows = FrozenRows(frozen, len(frozen), None if full else numpy.ones(len(frozen), numpy.bool_))
        return FrozenArrays([rows], full=full, has_starts=True, removed=dropped).table()

    def take_changes(self) -> Iterator[tuple[Any, Any]]:
        """Yield the entries that have changed since the last call, for a table behind this one; None: it is gone."""
        dropped, self._dropped = self._dropped, []
        for piece in dropped:
            yield from zip(*piece, strict=True)
        frozen = self._frozen(full=False)
        for _, piece in frozen.rows_at(numpy.arange(len(frozen)), None):
            yield from zip(*piece, strict=True)

    def _frozen(self, full: bool) -> _FrozenKeyedRows:
        used = self.used
        alive, stored = self.alive[:used], self._stored[:used]
        chosen = numpy.flatnonzero(alive if full else self._changed[:used] & (alive | stored))
        self._changed[:used] = False
        frozen = _FrozenKeyedRows(
            self.keys,
            self._blocks.copy(),
            numbers=chosen,
            slots=self.slots[chosen],
            entries=self._entries[chosen],
            counts=self.counts[chosen],
            times_ms=self.times_ms[chosen] if self._has_times else None,
            alive=alive[chosen],
        )
        self._stored[:used] = alive
        return frozen

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        if isinstance(entry_keys, ArrayKeys) and isinstance(values, ArrayValues):
            self._restored.append(Piece(entry_keys, values))
            return
        alike: dict[int, tuple[list[Any], list[Any]]] = {}
        for place, value in dict(zip(entry_keys, values, strict=True)).items():
            # Those without a time are of a run that had no time to live.
            places, of_places = alike.setdefault(0 if value is None else len(value), ([], []))
            places.append(place)
            of_places.append(value)
        self._restored += [self._piece_of(*alike[length]) for length in sorted(alike)]

    def _piece_of(self, places: list[Any], values: list[Any]) -> Piece:
        keys, numbers = [key for key, _ in places], numpy.array([number for _, number in places], numpy.int64)
        if values[0] is None:
            return _removed(keys, numbers)
        counts, rows, *times = zip(*values, strict=True)
        batch = self._columns.exact_batch(list(zip(*rows, strict=True)))
        of_rows = numpy.array(counts, numpy.int64)
        return _piece(keys, numbers, batch, counts=of_rows, times=numpy.array(times[0]) if times else None)

    def load(self, now_ms: int) -> None:
        """Make rows of what was restored. They do not count as changed, but for those that get a time.

        `now_ms`: their time, if they had none when they were written.
        """
        pieces, self._restored = self._restored, []
        slots = [self.keys.slots_of(keys_of_values(piece.keys.of_python())) for piece in pieces]
        if not slots:
            return
        numbers = numpy.concatenate([piece.keys.starts for piece in pieces if piece.keys.starts is not None])
        of_pieces = numpy.repeat(numpy.arange(len(pieces)), [len(piece) for piece in pieces])
        places = numpy.concatenate([numpy.arange(len(piece)) for piece in pieces])
        all_slots = numpy.concatenate(slots)
        # Of an entry that is in several pieces the last one counts.
        order = numpy.lexsort((of_pieces, all_slots, numbers))
        is_last = numpy.ones(len(order), numpy.bool_)
        is_last[:-1] = (numbers[order][1:] != numbers[order][:-1]) | (all_slots[order][1:] != all_slots[order][:-1])
        exists = numpy.array([piece.values.columns is not None for piece in pieces], numpy.bool_)
        kept = order[is_last]
        kept = kept[exists[of_pieces[kept]]]
        if len(kept):
            self._append_restored(pieces, of_pieces[kept], places[kept], slots=all_slots[kept], now_ms=now_ms)
            self._entries[: len(kept)] = numbers[kept]
        self._next_entry = int(numbers.max(initial=-1)) + 1

    def _append_restored(
        self, pieces: Sequence[Piece], of_pieces: Integers, places: Integers, *, slots: Integers, now_ms: int
    ) -> None:
        batches, counts = [], numpy.zeros(len(slots), numpy.int64)
        times, had_times = numpy.full(len(slots), now_ms, numpy.int64), numpy.zeros(len(slots), numpy.bool_)
        by_piece = numpy.argsort(of_pieces, kind="stable")
        bounds = numpy.searchsorted(of_pieces[by_piece], numpy.arange(len(pieces) + 1))
        for piece, start, stop in zip(pieces, bounds.tolist(), bounds[1:].tolist(), strict=False):
            if start < stop:
                found = by_piece[start:stop]
                columns = piece.at(places[found]).values.columns or ()
                counts[found] = columns[0].parts[0]
                batches.append(self._columns_of(columns[1].parts[0].batch))
                if len(columns) > 2:
                    times[found], had_times[found] = columns[2].parts[0], True
        back = numpy.empty_like(by_piece)
        back[by_piece] = numpy.arange(len(by_piece))
        batch = pyarrow.concat_batches(batches).take(pyarrow.array(back))
        self.append(slots, batch, counts, times)
        # Otherwise their life would begin again with each restart.
        self._changed[: len(slots)] = ~had_times if self._has_times else False
        self._stored[: len(slots)] = True

    def _columns_of(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return rows of a snapshot in the types of this program."""
        if batch.schema.equals(self._columns.schema):
            return batch
        return self._columns.exact_batch(list(zip(*ArrowRows(batch).tuples(), strict=True)))

    def clear(self) -> None:
        self._restored, self._dropped = [], []
        self._empty()

    def __bool__(self) -> bool:
        return bool(self._restored) or self.used > self.gone


class _FrozenKeyedRows:
    """Rows at one moment, of a table that keeps changing: copies of what changes, the same blocks and keys."""

    row_bytes = _ROW_BYTES

    def __init__(
        self,
        keys: KeySlots,
        blocks: RowBlocks,
        *,
        numbers: Integers,
        slots: Integers,
        entries: Integers,
        counts: Integers,
        times_ms: Integers | None,
        alive: Mask,
    ) -> None:
        self._keys, self._blocks, self._numbers = keys, blocks, numbers
        self._slots, self._entries, self._counts = slots, entries, counts
        self._times_ms, self._alive = times_ms, alive

    def __len__(self) -> int:
        return len(self._numbers)

    def keys_at(self, slots: Integers) -> Integers | list[Any]:
        """Return the keys of rows, which are given by their positions here."""
        return _keys_at(self._keys, self._slots[slots])

    def rows_at(self, slots: Integers, start: int | None) -> list[tuple[Integers, Piece]]:
        """Return the entries at these positions: those that exist, and those that have gone."""
        alive = self._alive[slots]
        present, gone = slots[alive], slots[~alive]
        found = []
        if len(present):
            times = None if self._times_ms is None else self._times_ms[present]
            rows = self._blocks.take(self._numbers[present])
            keys, counts = self.keys_at(present), self._counts[present]
            piece = _piece(keys, self._entries[present], rows, counts=counts, times=times)
            found.append((present, piece))
        if len(gone):
            found.append((gone, _removed(self.keys_at(gone), self._entries[gone])))
        return found

    def release_rows(self, rows: FrozenRows) -> None:
        """Do nothing: the rows are copies."""


def _keys_at(keys: KeySlots, slots: Integers) -> Integers | list[Any]:
    return keys.keys(slots) if keys.has_others else keys.integers[slots]


def _piece(
    keys: Integers | list[Any],
    numbers: Integers,
    rows: pyarrow.RecordBatch,
    *,
    counts: Integers,
    times: Integers | None,
) -> Piece:
    exists = numpy.ones(len(counts), numpy.bool_)
    columns = [StoredColumn(COUNT, (counts,)), StoredColumn(ROWS, (ArrowRows(rows), exists))]
    if times is not None:
        columns.append(StoredColumn(COUNT, (times,)))
    return Piece(ArrayKeys(keys, numbers), ArrayValues(tuple(columns), len(counts)))


def _removed(keys: Integers | list[Any], numbers: Integers) -> Piece:
    return Piece(ArrayKeys(keys, numbers), ArrayValues(None, len(numbers)))
