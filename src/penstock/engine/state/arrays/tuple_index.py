"""The slots of keys that are tuples of one length: an integer for each tuple, made of the codes of its parts.

Python sees only the distinct parts of a batch. A part has as many bits as its codes need, and some more; when there are
more codes all integers are made again. Another thread may read keys meanwhile: it sees integers with their widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy

from penstock.engine.state.arrays.key_index import MISSING, KeyIndex, key_index
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, TupleKeys

BITS = 63
"""An integer that is not negative has so many bits."""
_FIRST_BITS = 4
_MORE_BITS = 2
"""The room of a part that has become too small grows to four times as many codes as there are."""
_FIRST_ROOM = 64


class PartSlots(Protocol):
    """Gives each value of a part a code: `KeySlots`."""

    def __len__(self) -> int: ...

    def slots_of(self, keys: IntegerKeys | BatchKeys) -> Integers:
        """Return the code of each value."""

    def slot_of(self, key: Any) -> int | None:
        """Return the code of a value; None for an unknown one."""

    def keys(self, slots: Integers) -> list[Any]:
        """Return the values of codes."""


class TupleIndex:
    """`parts`: gives the values of each part a code, from 0 on. NULL has the code 0, all others one more than that."""

    def __init__(self, length: int, new_slots: Callable[[], PartSlots]) -> None:
        self.length = length
        self._parts = [new_slots() for _ in range(length)]
        self._index: KeyIndex = key_index()
        self._used = 0
        self._layout: tuple[Integers, tuple[int, ...]] = numpy.zeros(_FIRST_ROOM, numpy.int64), (_FIRST_BITS,) * length
        """The integer of each slot, and the bits of each part."""

    def packed(self, keys: TupleKeys) -> Integers | None:
        """Return the integer of each row's tuple; None if all parts together need too many bits."""
        codes = [
            slots.slots_of(part) + 1 if valid is None else numpy.where(valid, slots.slots_of(part) + 1, 0)
            for slots, part, valid in zip(self._parts, keys.parts, keys.valid, strict=True)
        ]
        if not self._make_room():
            return None
        return _packed(codes, self._layout[1])

    def numbers_of(self, packed: Integers) -> Integers:
        """Return the slots of tuples by their integers, or MISSING."""
        return self._index.numbers_of(packed)

    def add(self, packed: Integers, first: int) -> None:
        """Give new tuples, which are distinct, the slots from `first` on: the next ones."""
        values, widths = self._layout
        self._used = first + len(packed)
        if self._used > len(values):
            larger = numpy.zeros(max(self._used, 2 * len(values)), numpy.int64)
            larger[:first] = values[:first]
            values = larger
        values[first : self._used] = packed
        self._layout = values, widths
        self._index.put(packed, first)

    def slot_of(self, key: Any) -> int | None:
        """Return the slot of a key; None for an unknown one."""
        if type(key) is not tuple or len(key) != self.length:
            return None
        codes = []
        for slots, part in zip(self._parts, key, strict=True):
            found = -1 if part is None else slots.slot_of(part)
            if found is None:
                return None
            codes.append(numpy.array([found + 1], numpy.int64))
        slot = int(self.numbers_of(_packed(codes, self._layout[1]))[0])
        return None if slot == MISSING else slot

    def keys(self, numbers: Integers) -> list[tuple[Any, ...]]:
        """Return the tuples of slots."""
        values, widths = self._layout
        columns = []
        for slots, codes in zip(self._parts, _unpacked(values[numbers], widths), strict=True):
            found: list[Any] = slots.keys(numpy.maximum(codes - 1, 0)) if len(slots) else [None] * len(codes)
            nulls = codes == 0
            if nulls.any():
                found = [None if null else value for null, value in zip(nulls.tolist(), found, strict=True)]
            columns.append(found)
        return list(zip(*columns, strict=True))

    def _make_room(self) -> bool:
        """Give parts whose codes need more bits these. Return False if there are not so many."""
        values, widths = self._layout
        needed = [len(slots).bit_length() for slots in self._parts]
        if all(need <= width for need, width in zip(needed, widths, strict=True)):
            return True
        more = [width if need <= width else need + _MORE_BITS for need, width in zip(needed, widths, strict=True)]
        if sum(more) > BITS:
            more = needed
        if sum(more) > BITS:
            return False
        values = _packed(_unpacked(values[: self._used], widths), more)
        self._index = key_index()
        self._index.put(values, 0)
        room = numpy.zeros(max(_FIRST_ROOM, 2 * self._used), numpy.int64)
        room[: self._used] = values
        self._layout = room, tuple(more)
        return True


def tuple_keys_of(keys: Sequence[Any], length: int) -> TupleKeys | None:
    """Return keys as tuples, part by part; None if any is something else than a tuple of this length."""
    if any(type(key) is not tuple or len(key) != length for key in keys):
        return None
    rows = numpy.arange(len(keys))
    parts: list[IntegerKeys | BatchKeys] = []
    valid = []
    for values in zip(*keys, strict=True):
        nulls = [value is None for value in values]
        valid.append(~numpy.array(nulls, numpy.bool_) if any(nulls) else None)
        plain = [0 if value is None else value for value in values] if int in set(map(type, values)) else list(values)
        if all(type(value) is int and -(1 << 63) <= value < 1 << 63 for value in plain):
            parts.append(IntegerKeys(numpy.array(plain, numpy.int64)))
        else:
            parts.append(BatchKeys(plain, rows))
    return TupleKeys(tuple(parts), tuple(valid))


def _packed(codes: Sequence[Integers], widths: Sequence[int]) -> Integers:
    packed = codes[0]
    for more, width in zip(codes[1:], widths[1:], strict=True):
        packed = packed << width | more
    return packed


def _unpacked(packed: Integers, widths: Sequence[int]) -> list[Integers]:
    codes = []
    for width in reversed(widths):
        codes.append(packed & ((1 << width) - 1))
        packed = packed >> width
    return codes[::-1]
