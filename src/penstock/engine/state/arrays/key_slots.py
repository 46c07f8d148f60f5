"""The slots of keys in arrays: 0, 1, 2 and so on, in the order in which keys first occur."""

from __future__ import annotations

from typing import Any

import numpy

from penstock.engine.state.arrays.key_index import MISSING, distinct_in_order, key_index
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys

_FIRST_SLOTS = 64
_BYTES_OF_INDEX = 34
"""Per key, of a hash table that is half full."""
_BYTES_OF_OTHER = 300
_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 63) - 1


class KeySlots:
    """Gives each key a slot. Integers of 64 bits need no Python code per key, others a step for each distinct one."""

    def __init__(self) -> None:
        self._integers = key_index()
        self._slots_of_others: dict[Any, int] = {}
        self._values: Integers = numpy.zeros(_FIRST_SLOTS, numpy.int64)
        """The key of each slot, if it is such an integer."""
        self._others: dict[int, Any] = {}
        """The keys of other slots."""
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def slots_of(self, keys: RowKeys) -> Integers:
        """Return the slot of each row's key. New keys get the next slots."""
        if isinstance(keys, IntegerKeys):
            return self._of_integers(keys.values)
        return self._of_objects(keys)

    def find(self, keys: RowKeys) -> Integers:
        """Return the slot of each row's key, or MISSING for a key without one."""
        if isinstance(keys, IntegerKeys):
            return self._integers.numbers_of(keys.values)
        slots = numpy.full(len(keys.keys), MISSING, numpy.int64)
        used = distinct_in_order(keys.codes)
        found = [self.slot_of(keys.keys[code]) for code in used.tolist()]
        slots[used] = [MISSING if slot is None else slot for slot in found]
        of_rows: Integers = slots[keys.codes]
        return of_rows

    def keys(self, slots: Integers | slice) -> list[Any]:
        """Return the keys of these slots."""
        found: list[Any] = self._values[: self._used][slots].tolist()
        if self._others:
            others = self._others
            numbers = numpy.arange(self._used)[slots].tolist()
            found = [others.get(number, value) for number, value in zip(numbers, found, strict=True)]
        return found

    @property
    def integers(self) -> Integers:
        """The keys of all slots, if all are integers."""
        return self._values[: self._used]

    @property
    def has_others(self) -> bool:
        """Whether there are keys of other types than integers."""
        return bool(self._others)

    def slot_of(self, key: Any) -> int | None:
        """Return the slot of a key; None for an unknown key."""
        if type(key) is int and _INTEGER_MIN <= key <= _INTEGER_MAX:
            slot = int(self._integers.numbers_of(numpy.array([key], numpy.int64))[0])
            return None if slot == MISSING else slot
        return self._slots_of_others.get(key)

    @property
    def bytes_used(self) -> int:
        """About the size in memory, in bytes."""
        return self._values.nbytes + self._used * _BYTES_OF_INDEX + len(self._others) * _BYTES_OF_OTHER

    def _of_integers(self, values: Integers) -> Integers:
        slots = self._integers.numbers_of(values)
        missing = slots == MISSING
        if missing.any():
            rows = values[missing]
            new = distinct_in_order(rows)
            first = self._take(len(new))
            self._values[first : self._used] = new
            self._integers.put(new, first)
            slots[missing] = self._integers.numbers_of(rows)
        return slots

    def _of_objects(self, keys: BatchKeys) -> Integers:
        slots = numpy.zeros(len(keys.keys), numpy.int64)
        # In the order of these rows: the keys may be those of a larger batch.
        used = distinct_in_order(keys.codes)
        slots[used] = [self._of_object(keys.keys[code]) for code in used.tolist()]
        of_rows: Integers = slots[keys.codes]
        return of_rows

    def _of_object(self, key: Any) -> int:
        if type(key) is int and _INTEGER_MIN <= key <= _INTEGER_MAX:
            # Of a batch with a null. In other batches it is one of an array of integers.
            return int(self._of_integers(numpy.array([key], numpy.int64))[0])
        slot = self._slots_of_others.get(key)
        if slot is None:
            slot = self._slots_of_others[key] = self._take(1)
            self._others[slot] = key
        return slot

    def _take(self, count: int) -> int:
        """Use so many more slots. Return the first."""
        first = self._used
        self._used += count
        if self._used > len(self._values):
            room = numpy.zeros(max(2 * len(self._values), self._used), numpy.int64)
            room[:first] = self._values[:first]
            self._values = room
        return first
