"""The slots of keys in arrays: 0, 1, 2 and so on, in the order in which keys first occur."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from penstock.engine.state.arrays.key_index import MISSING, distinct_in_order, key_index
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys, TupleKeys
from penstock.engine.state.arrays.tuple_index import TupleIndex, tuple_keys_of

FIRST_ROOM = 64
"""The slots that there is room for at first. The room doubles."""
_BYTES_OF_SLOT = 8
BYTES_OF_INTEGER = 33
"""Two buckets of the hash table per slot for an integer: the table is half full when the slots are all in use."""
_BYTES_OF_OTHER = 200
"""A key that is not an integer takes a text of some 50 characters, and entries of two dicts."""
_OTHERS_STEP = 8
"""Memory for other keys is accounted an eighth more at a time."""
_FEW = 64
"""Among so few slots Python finds a missing one in less time than NumPy."""
_RECENT_MAX = 4096
_INTEGER_MIN, _INTEGER_MAX = -(1 << 63), (1 << 63) - 1


class KeySlots:
    """Gives each key a slot. Integers of 64 bits need no Python code per key, others a step for each distinct one.

    Tuples that come part by part need a step for each distinct part. Then all keys are tuples of this length, or those
    that there are become keys like others.
    """

    def __init__(self, before_growth: Callable[[int, int], None] = lambda room, others: None) -> None:
        """`before_growth`: called with room for slots, and for other keys than integers, before there is more of it.

        If it raises, no slot without room has been given.
        """
        self._before_growth = before_growth
        self._others_room = 0
        self._integers = key_index()
        self._slots_of_others: dict[Any, int] = {}
        self._values: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)
        """The key of each slot, if it is such an integer."""
        self._others: dict[int, Any] = {}
        """The keys of other slots."""
        self._tuples: TupleIndex | None = None
        """All keys, if they are tuples that came part by part."""
        self._may_be_tuples = True
        self._used = 0
        self._recent: dict[int, int] = {}
        """The slots of integers that came in small chunks lately."""

    def __len__(self) -> int:
        return self._used

    def slots_of(self, keys: RowKeys | TupleKeys) -> Integers:
        """Return the slot of each row's key. New keys get the next slots."""
        if isinstance(keys, TupleKeys):
            found = self._of_tuples(keys) if self._takes_tuples(len(keys.parts)) else None
            if found is not None:
                return found
            values = keys.to_list()
            keys = BatchKeys(values, numpy.arange(len(values)))
        if self._tuples is not None:
            found = self._found_in(self._tuples, keys)
            if found is not None:
                return found
        if isinstance(keys, IntegerKeys):
            return self._of_integers(keys.values)
        return self._of_objects(keys)

    def recent_slots(self, values: list[Any]) -> list[int] | None:
        """Return the slot of each of few keys, if all are integers that have been remembered; otherwise None."""
        slots = list(map(self._recent.get, values))
        # True is equal to 1, and another key.
        return None if None in slots or {*map(type, values)} != {int} else slots  # type: ignore[return-value]

    def remember(self, integers: list[int], slots: list[int]) -> None:
        """Let `recent_slots` find these keys."""
        if len(self._recent) > _RECENT_MAX:
            self._recent.clear()
        self._recent.update(zip(integers, slots, strict=True))

    def find(self, keys: RowKeys) -> Integers:
        """Return the slot of each row's key, or MISSING for a key without one."""
        if isinstance(keys, IntegerKeys):
            # Where all keys are tuples there are no integers.
            return self._integers.numbers_of(keys.values)
        slots = numpy.full(len(keys.keys), MISSING, numpy.int64)
        used = distinct_in_order(keys.codes)
        found = [self.slot_of(keys.keys[code]) for code in used.tolist()]
        slots[used] = [MISSING if slot is None else slot for slot in found]
        of_rows: Integers = slots[keys.codes]
        return of_rows

    def keys(self, slots: Integers | slice) -> list[Any]:
        """Return the keys of these slots."""
        # Another thread may read keys while these become others.
        tuples = self._tuples
        if tuples is not None:
            return tuples.keys(_numbers(slots, self._used))
        found: list[Any] = self._values[: self._used][slots].tolist()
        if self._others:
            others = self._others
            numbers = _numbers(slots, self._used).tolist()
            found = [others.get(number, value) for number, value in zip(numbers, found, strict=True)]
        return found

    @property
    def integers(self) -> Integers:
        """The keys of all slots, if all are integers."""
        return self._values[: self._used]

    @property
    def has_others(self) -> bool:
        """Whether there are keys of other types than integers."""
        return self._tuples is not None or bool(self._others)

    def slot_of(self, key: Any) -> int | None:
        """Return the slot of a key; None for an unknown key."""
        if self._tuples is not None:
            return self._tuples.slot_of(key)
        if type(key) is int and _INTEGER_MIN <= key <= _INTEGER_MAX:
            slot = int(self._integers.numbers_of(numpy.array([key], numpy.int64))[0])
            return None if slot == MISSING else slot
        return self._slots_of_others.get(key)

    @property
    def room(self) -> int:
        """For how many slots there is room."""
        return len(self._values)

    @property
    def others_room(self) -> int:
        """For how many keys that are not integers memory is accounted."""
        return self._others_room

    def _of_integers(self, values: Integers) -> Integers:
        slots = self._integers.numbers_of(values)
        if len(slots) <= _FEW and MISSING not in slots.tolist():
            return slots
        missing = slots == MISSING
        if missing.any():
            rows = values[missing]
            new = distinct_in_order(rows)
            first = self._take(len(new))
            self._values[first : self._used] = new
            self._integers.put(new, first)
            slots[missing] = self._integers.numbers_of(rows)
        return slots

    def _takes_tuples(self, length: int) -> bool:
        """Return whether all keys are tuples of this length."""
        if self._tuples is not None or not self._may_be_tuples:
            return self._tuples is not None and self._tuples.length == length
        known = list(self._slots_of_others)
        present = tuple_keys_of(known, length) if len(known) == self._used else None
        tuples = TupleIndex(length, KeySlots)
        packed = None if present is None else tuples.packed(present) if known else numpy.zeros(0, numpy.int64)
        if packed is None:
            self._may_be_tuples = False
            return False
        tuples.add(packed, 0)
        self._tuples, self._slots_of_others, self._others = tuples, {}, {}
        return True

    def _of_tuples(self, keys: TupleKeys) -> Integers | None:
        """Return the slots of tuples; None if they need too many bits: then keys are no longer stored by parts."""
        assert self._tuples is not None
        packed = self._tuples.packed(keys)
        if packed is None:
            self._end_tuples(self._tuples)
            return None
        slots = self._tuples.numbers_of(packed)
        missing = slots == MISSING
        if missing.any():
            rows = packed[missing]
            new = distinct_in_order(rows)
            self._make_room_for_others(len(new))
            self._tuples.add(new, self._take(len(new)))
            slots[missing] = self._tuples.numbers_of(rows)
        return slots

    def _found_in(self, tuples: TupleIndex, keys: RowKeys) -> Integers | None:
        """Return the slots of keys that may be tuples; None if they are others."""
        if isinstance(keys, BatchKeys):
            slots = numpy.zeros(len(keys.keys), numpy.int64)
            used = distinct_in_order(keys.codes)
            if not len(used):
                return slots[keys.codes]
            wanted = tuple_keys_of([keys.keys[code] for code in used.tolist()], tuples.length)
            found = None if wanted is None else self._of_tuples(wanted)
            if found is not None:
                slots[used] = found
                return slots[keys.codes]
        if self._tuples is not None:
            self._end_tuples(tuples)
        return None

    def _end_tuples(self, tuples: TupleIndex) -> None:
        keys = tuples.keys(numpy.arange(self._used))
        self._others = dict(enumerate(keys))
        self._slots_of_others = dict(zip(keys, range(self._used), strict=True))
        self._tuples, self._may_be_tuples = None, False

    def _of_objects(self, keys: BatchKeys) -> Integers:
        slots = numpy.zeros(len(keys.keys), numpy.int64)
        # In the order of these rows: the keys may be those of a larger batch.
        used = distinct_in_order(keys.codes)
        wanted = [keys.keys[code] for code in used.tolist()]
        if int in set(map(type, wanted)):
            slots[used] = [self._of_object(key) for key in wanted]
        else:
            slots[used] = self._of_others(wanted)
        of_rows: Integers = slots[keys.codes]
        return of_rows

    def _of_others(self, keys: list[Any]) -> list[int]:
        """Return the slots of keys of which none is an integer."""
        known = self._slots_of_others
        found: list[Any] = list(map(known.get, keys))
        if None in found:
            new = dict.fromkeys(key for key, slot in zip(keys, found, strict=True) if slot is None)
            self._make_room_for_others(len(new))
            first = self._take(len(new))
            numbers = range(first, first + len(new))
            known.update(zip(new, numbers, strict=True))
            self._others.update(zip(numbers, new, strict=True))
            found = list(map(known.get, keys))
        return found

    def _of_object(self, key: Any) -> int:
        if type(key) is int and _INTEGER_MIN <= key <= _INTEGER_MAX:
            # Of a batch with a null. In other batches it is one of an array of integers.
            return int(self._of_integers(numpy.array([key], numpy.int64))[0])
        slot = self._slots_of_others.get(key)
        if slot is None:
            self._make_room_for_others(1)
            slot = self._slots_of_others[key] = self._take(1)
            self._others[slot] = key
        return slot

    def _take(self, count: int) -> int:
        """Use so many more slots. Return the first."""
        first = self._used
        room = len(self._values)
        if first + count > room:
            while room < first + count:
                room *= 2
            self._before_growth(room, self._others_room)
            larger = numpy.zeros(room, numpy.int64)
            larger[:first] = self._values[:first]
            self._values = larger
        self._used += count
        return first

    def _make_room_for_others(self, count: int) -> None:
        known = len(self._others) if self._tuples is None else self._used
        needed = known + count
        if needed > self._others_room:
            more = FIRST_ROOM + known // _OTHERS_STEP
            room = max(needed, self._others_room + more)
            self._before_growth(len(self._values), room)
            self._others_room = room


def _numbers(slots: Integers | slice, used: int) -> Integers:
    """Return slots one by one: a call for few of them must not pay for all that are in use."""
    return numpy.arange(*slots.indices(used)) if isinstance(slots, slice) else slots


def bytes_of_keys(room: int, others_room: int) -> int:
    """Return about how much memory so many slots take, with so many keys that are not integers (bytes)."""
    integers_room = max(0, room - others_room)
    return room * _BYTES_OF_SLOT + integers_room * BYTES_OF_INTEGER + others_room * _BYTES_OF_OTHER
