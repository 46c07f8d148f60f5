"""A table of keyed state that is a struct of arrays: a slot for each key, and arrays of what keys have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy

from penstock.common.errors import CheckpointError
from penstock.engine.state.arrays.frozen_arrays import FrozenArrays
from penstock.engine.state.arrays.frozen_rows import FrozenRows
from penstock.engine.state.arrays.key_slots import BYTES_OF_INTEGER, FIRST_ROOM, KeySlots, bytes_of_keys
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, Mask, RowKeys, TupleKeys
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import ArrayKeys, ArrayValues, Piece, piece_of
from penstock.engine.state.memory_budget import MemoryAccount
from penstock.engine.state.tables import FrozenTable, Table

Read = Callable[[list[Any]], list[Any]]
"""Returns the values of keys that another table has, each a tuple, or None."""
CheckKeys = Callable[[Integers | list[Any]], None]
"""Raises CheckpointError for keys that a program cannot have."""
KEYS_MAX = 1 << 17
"""The most keys in arrays where the table behind is larger than memory."""
_ALIVE_SHARE = 2
"""Slots are given to others if so many times fewer have a value."""
ARRAYS_UNIT = "array"
"""The unit of an entry in snapshots (`TableInFile.unit`)."""
_KEY_BYTES = 8
_MARK_BYTES = 6
"""Bytes of marks per slot: whether it has changed or is removed, and what a snapshot notes while it is written."""


class ArrayTable(Table):
    """The values of all keys, a tuple of one value for each of the `arrays`.

    Its memory is reserved in `memory` before there is more room; `is_cache`: it takes the memory in any case.
    `check_keys`: raises CheckpointError for restored keys that do not fit those of the program.

    Operators ask for the slots of keys, tell which they are about to change, and change the arrays in place.
    """

    unit = ARRAYS_UNIT

    def __init__(
        self,
        arrays: Sequence[StateArray],
        memory: MemoryAccount | None = None,
        is_cache: bool = False,
        *,
        check_keys: CheckKeys | None = None,
    ) -> None:
        self.arrays = self.values = arrays
        """`values`: those that operators change, without a time of last use."""
        self._memory = memory
        self._is_cache = is_cache
        self._check_keys = check_keys
        self._reserved_bytes = 0
        self._room = FIRST_ROOM
        self._reserve(FIRST_ROOM, 0)
        self.keys = KeySlots(self._reserve)
        self._changed: Mask = numpy.zeros(FIRST_ROOM, numpy.bool_)
        self._removed: Mask | None = None
        """Slots whose keys have no value any more; None: there are no such."""
        self._gone = 0
        """How many these are: counted as they go, since each chunk asks."""
        self._frozen: list[FrozenRows] = []
        self.stored_slots = 0
        """How many slots earlier snapshots have."""
        self._dropped: list[Piece] = []
        """Entries that earlier snapshots have, and that have no slot any more."""

    # Calls of operators.

    def __len__(self) -> int:
        """Return the number of slots in use."""
        return len(self.keys)

    def slots_of(self, keys: RowKeys | TupleKeys) -> Integers:
        """Return the slot of each row's key. New keys get slots without a value."""
        slots = self.keys.slots_of(keys)
        if self.keys.room > self._room:
            self._grow()
        return slots

    def change(self, slots: Integers) -> None:
        """Note that values are going to be changed. Called before they are."""
        for rows in self._frozen:
            rows.hand_over(slots)
        self._changed[slots] = True
        if self._removed is not None:
            self._revive(slots)

    def change_few(self, slots: list[int]) -> None:
        """Note the same of few slots: a call of NumPy takes longer."""
        if self._frozen or self._removed is not None:
            self.change(numpy.array(slots))
            return
        changed = self._changed
        for slot in slots:
            changed[slot] = True

    def remove(self, slots: Integers) -> None:
        """Remove the values of keys."""
        self.change(slots)
        if self._removed is None:
            self._removed = numpy.zeros(self._room, numpy.bool_)
        self._removed[slots] = True
        self._gone += len(numpy.unique(slots))

    def exist(self, slots: Integers) -> Mask:
        """Return which of these slots have a value."""
        if self._removed is None:
            return numpy.ones(len(slots), numpy.bool_)
        exist: Mask = ~self._removed[slots]
        return exist

    def have_values(self, slots: Integers) -> Mask:
        """Return which of these slots have a value that has not expired."""
        return self.exist(slots)

    def drop_removed(self) -> None:
        """Give the slots of removed keys to others, if there are many and no snapshot is reading."""
        if self._removed is None or self._frozen or self.alive * _ALIVE_SHARE > len(self):
            return
        gone = numpy.flatnonzero(self._removed[: self.stored_slots])
        if len(gone):
            self._dropped.append(piece_of(self.keys_at(gone), None))
        slots = numpy.flatnonzero(~self._removed[: len(self)])
        keys, changed = self.keys_at(slots), self._changed[slots]
        self.stored_slots = int(numpy.searchsorted(slots, self.stored_slots))
        self._removed, self._gone = None, 0
        self._changed, self._room = changed, len(slots)
        self._reserve(FIRST_ROOM, 0)
        self.keys = KeySlots(self._reserve)
        for array in self.arrays:
            array.keep(slots)
        self.slots_of(BatchKeys(keys, numpy.arange(len(keys))) if isinstance(keys, list) else IntegerKeys(keys))

    def compact_arrays(self) -> None:
        """Give up the room of what has gone, unless a snapshot is reading."""
        if not self._frozen:
            for array in self.arrays:
                array.compact()

    def entries_at(self, slots: Integers) -> dict[Any, Any]:
        """Return the keys of slots with their values."""
        return {key: value for piece in self.pieces_at(slots) for key, value in zip(*piece, strict=True)}

    # Calls for a cache in front of another table.

    def take_changes(self) -> dict[Any, Any]:
        """Return the keys that have changed since the last call, with their values."""
        changed = numpy.flatnonzero(self._changed)
        self._changed[:] = False
        return self.entries_at(changed)

    def load_from(self, read: Read, slots: Integers) -> Mask:
        """Set the values of new keys to those that the other table has. Return for each whether it has one."""
        stored = read(self.keys.keys(slots))
        exist = numpy.array([value is not None for value in stored], numpy.bool_)
        found = [value for value in stored if value is not None]
        if found:
            self.load(slots[exist], found)
        return exist

    def keys_at(self, slots: Integers) -> Integers | list[Any]:
        """Return the keys of slots: as an array if all are integers."""
        return self.keys.keys(slots) if self.keys.has_others else self.keys.integers[slots]

    def pieces_at(self, slots: Integers) -> list[Piece]:
        """Return copies of the entries at these slots."""
        return [piece for _, piece in self.rows_at(slots, None)]

    def rows_at(self, slots: Integers, start: int | None) -> list[tuple[Integers, Piece]]:
        """Return copies of the entries at these slots, with the slots of each piece.

        `start`: of the slice of time that they belong to.
        """
        if self._removed is None:
            return [(slots, self._piece_at(slots, start))]
        removed = self._removed[slots]
        present, gone = slots[~removed], slots[removed]
        return [(present, self._piece_at(present, start)), (gone, piece_of(self.keys_at(gone), None, start))]

    def _piece_at(self, slots: Integers, start: int | None) -> Piece:
        return piece_of(self.keys_at(slots), tuple(array.stored(slots) for array in self.arrays), start)

    def _grow(self) -> None:
        self._room = self.keys.room
        more = numpy.zeros(self._room - len(self._changed), numpy.bool_)
        self._changed = numpy.concatenate([self._changed, more])
        if self._removed is not None:
            self._removed = numpy.concatenate([self._removed, more])
        for array in self.arrays:
            array.grow(self._room)

    def _reserve(self, room: int, others_room: int) -> None:
        """Reserve memory for so many slots, and keys that are not integers. Raises MemoryBudgetError."""
        if self._memory is None:
            return
        # The arrays keep their room when all keys are removed.
        more = self._bytes_of(max(room, self._room), others_room) - self._reserved_bytes
        if more < 0:
            self._memory.release(-more)
        else:
            # Array after array is copied: the former one of the largest is there together with all new ones.
            largest = max([BYTES_OF_INTEGER, *(array.bytes_per_key for array in self.arrays)])
            meanwhile = self._room * largest if room > self._room else 0
            (self._memory.take if self._is_cache else self._memory.reserve)(more, meanwhile)
        self._reserved_bytes += more

    def reserve_widened(self) -> None:
        """Reserve memory for arrays that have more bytes per key than before. Raises MemoryBudgetError."""
        if self._memory is not None and self.bytes_used != self._reserved_bytes:
            self._reserve(self._room, self.keys.others_room)

    def release_memory(self) -> None:
        """Return the memory to the budget. The table is not used any more."""
        if self._memory is not None:
            self._memory.release(self._reserved_bytes)
        self._reserved_bytes = 0
        self._memory = None

    @property
    def row_bytes(self) -> int:
        """About the size of a copied entry, in bytes."""
        return sum(array.bytes_per_key for array in self.arrays) + _KEY_BYTES

    def _bytes_of(self, room: int, others_room: int) -> int:
        per_key = sum(array.bytes_per_key for array in self.arrays) + _MARK_BYTES
        return room * per_key + bytes_of_keys(room, others_room)

    def _revive(self, slots: Integers) -> None:
        """Let keys that were removed begin again without a value."""
        back = self._bring_back(slots)
        if len(back):
            for array in self.arrays:
                array.clear(back)

    def _bring_back(self, slots: Integers) -> Integers:
        """Let keys have a value again. Return those that had none, each once."""
        if self._removed is None:
            return slots[:0]
        back = numpy.unique(slots[self._removed[slots]])
        self._removed[back] = False
        self._gone -= len(back)
        return back

    # Snapshots.

    def freeze(self, full: bool) -> FrozenTable:
        dropped, self._dropped = [] if full else self._dropped, []
        return FrozenArrays([self.freeze_rows(full)], full=full, has_starts=False, removed=dropped).table()

    @property
    def has_changed(self) -> bool:
        """Whether the last snapshot lacks changes."""
        return bool(self._changed.any())

    def freeze_rows(self, full: bool, start: int | None = None) -> FrozenRows:
        """Freeze all rows, or those that have changed since the last call, until `FrozenRows.release`."""
        changed, self._changed = self._changed, numpy.zeros(self._room, numpy.bool_)
        rows = FrozenRows(self, len(self.keys), None if full else changed, start, memory=self._memory)
        self._frozen.append(rows)
        self.stored_slots = len(self.keys)
        return rows

    def release_rows(self, rows: FrozenRows) -> None:
        """Forget rows that are no longer read."""
        if rows in self._frozen:
            self._frozen.remove(rows)

    def removed_piece(self, start: int) -> Piece:
        """Return the entries that snapshots have, of the slice of time that starts at `start`, as removed."""
        return piece_of(self.keys_at(numpy.arange(self.stored_slots)), None, start)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        if isinstance(entry_keys, ArrayKeys) and isinstance(values, ArrayValues):
            self.restore_piece(Piece(entry_keys, values))
            return
        # An entry may be there several times, perhaps removed at last: the layers of a table of rows are one piece.
        entries = dict(zip(entry_keys, values, strict=True))
        keys, found = list(entries), list(entries.values())
        exist = [value is not None for value in found]
        slots = self._restored_slots(keys)
        self._restore_removed(slots[~numpy.array(exist, numpy.bool_)])
        present = [value for value in found if value is not None]
        if present:
            self.load(slots[numpy.array(exist, numpy.bool_)], present)

    def restore_piece(self, piece: Piece) -> None:
        """Restore entries that are arrays. They do not count as changed."""
        slots = self._restored_slots(piece.keys.keys)
        columns = piece.values.columns
        if columns is None:
            self._restore_removed(slots)
            return
        self._bring_back(slots)
        for array, column in zip(self.arrays, columns, strict=True):
            array.restore(slots, column)
        self.reserve_widened()

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        """Set the values of slots, each a tuple of one value for each array."""
        self._bring_back(slots)
        for array, of_array in zip(self.arrays, zip(*values, strict=True), strict=True):
            try:
                array.load(slots, of_array)
            except (TypeError, OverflowError) as error:
                raise CheckpointError(
                    f"the state has a value that is not of the declared type of its field: {error}. Declare the type "
                    "with which it was written"
                ) from error
        self.reserve_widened()

    def _restored_slots(self, keys: Integers | list[Any]) -> Integers:
        if self._check_keys is not None:
            self._check_keys(keys)
        of_rows = BatchKeys(keys, numpy.arange(len(keys))) if isinstance(keys, list) else IntegerKeys(keys)
        slots = self.slots_of(of_rows)
        self.stored_slots = len(self.keys)
        return slots

    def _restore_removed(self, slots: Integers) -> None:
        if len(slots):
            if self._removed is None:
                self._removed = numpy.zeros(self._room, numpy.bool_)
            self._removed[slots] = True
            self._gone = int(numpy.count_nonzero(self._removed))

    # Queries.

    @property
    def is_namespaced(self) -> bool:
        return False

    def readable(self) -> ArrayTable:
        return self

    def get(self, entry_key: Any) -> Any:
        """Return the value of a key, or None."""
        slot = self.keys.slot_of(entry_key)
        if slot is None or (self._removed is not None and self._removed[slot]):
            return None
        (value,) = self._piece_at(numpy.array([slot]), None).values
        return value

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the keys themselves."""
        return list(keys)

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries; callers need only a few. Nothing may be stored during the iteration."""
        for first in range(0, len(self.keys), FIRST_ROOM):
            slots = numpy.arange(first, min(first + FIRST_ROOM, len(self.keys)))
            for piece in self.pieces_at(slots):
                if piece.values.columns is not None:
                    yield from zip(piece.keys, piece.values, strict=True)

    def clear(self) -> None:
        for rows in self._frozen:
            rows.hand_over(numpy.arange(len(self.keys)))
        for array in self.arrays:
            array.clear(numpy.arange(len(self.keys)))
        self.keys = KeySlots(self._reserve)
        self._changed[:] = False
        self._removed, self._gone = None, 0
        self.stored_slots = 0
        self._dropped = []
        self._reserve(self._room, 0)

    def __bool__(self) -> bool:
        return self.alive > 0

    @property
    def alive(self) -> int:
        """The number of keys with a value."""
        return len(self.keys) - self._gone

    @property
    def bytes_used(self) -> int:
        """The size in memory, in bytes."""
        return self._bytes_of(self._room, self.keys.others_room)
