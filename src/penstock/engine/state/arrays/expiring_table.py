"""A table of arrays whose keys expire: each has the time of its last use.

A key that has expired begins again without a value when it is next used. Others are removed by `ArrayExpiry`, which
looks at the times of all keys, a million in a few milliseconds. Source: Flink docs, "Working with State", TTL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from penstock.engine.state.arrays.array_table import ArrayTable, CheckKeys
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import TIME, StoredColumn
from penstock.engine.state.expiry import Expiry
from penstock.engine.state.memory_budget import MemoryAccount

if TYPE_CHECKING:
    from penstock.engine.state.backends.backend import KeyedStateBackend

_STEPS = 8
"""A key is removed at most 1/_STEPS of its time to live after it has expired."""


class TimeArray(StateArray):
    """The time of each key's last use (ms)."""

    def __init__(self) -> None:
        self.times: Integers = numpy.zeros(FIRST_ROOM, numpy.int64)

    def grow(self, room: int) -> None:
        larger = numpy.zeros(room, numpy.int64)
        larger[: len(self.times)] = self.times
        self.times = larger

    def clear(self, slots: Integers) -> None:
        self.times[slots] = 0

    def keep(self, slots: Integers) -> None:
        self.times = self.times[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        return StoredColumn(TIME, (self.times[slots],))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        (self.times[slots],) = column.parts

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.times[slots] = values

    @property
    def bytes_per_key(self) -> int:
        return self.times.itemsize


class ExpiringArrayTable(ArrayTable):
    """Values are pairs of the time of the last use (ms) and a tuple of one value for each of `arrays`.

    `ttl_ms`: how long a key lives after its last use. `now_ms`: the time.
    """

    def __init__(
        self,
        arrays: Sequence[StateArray],
        ttl_ms: int,
        now_ms: Callable[[], int],
        *,
        memory: MemoryAccount | None = None,
        is_cache: bool = False,
        check_keys: CheckKeys | None = None,
    ) -> None:
        self._times = TimeArray()
        super().__init__([self._times, *arrays], memory, is_cache, check_keys=check_keys)
        self.values = arrays
        self.ttl_ms = ttl_ms
        self._now_ms = now_ms

    def change(self, slots: Integers) -> None:
        super().change(slots)
        now_ms, times = self._now_ms(), self._times.times
        expired = slots[times[slots] <= now_ms - self.ttl_ms]
        if len(expired):
            # A new key has the time 0, and no value either.
            for array in self.arrays:
                array.clear(expired)
        times[slots] = now_ms

    def change_few(self, slots: list[int]) -> None:
        self.change(numpy.array(slots))

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        super().load(slots, [(used_ms, *value) for used_ms, value in values])

    def visible_value(self, stored: Any) -> Any:
        """Return a value without its time; None if it has expired."""
        used_ms, value = stored
        return None if used_ms <= self._now_ms() - self.ttl_ms else value

    def have_values(self, slots: Integers) -> Mask:
        have: Mask = super().have_values(slots) & (self._times.times[slots] > self._now_ms() - self.ttl_ms)
        return have

    def remove_expired(self, first: int, stop: int) -> None:
        """Remove keys in these slots that have expired."""
        now_ms, slots = self._now_ms(), numpy.arange(first, min(stop, len(self)))
        alive = slots[self.exist(slots)]
        expired = alive[self._times.times[alive] <= now_ms - self.ttl_ms]
        if len(expired):
            self.remove(expired)


def array_table(
    arrays: Sequence[StateArray],
    ttl_ms: int | None,
    now_ms: Callable[[], int],
    *,
    memory: MemoryAccount | None = None,
    is_cache: bool = False,
    check_keys: CheckKeys | None = None,
) -> ArrayTable:
    """Return a table, whose keys expire if there is a time to live."""
    if ttl_ms is None:
        return ArrayTable(arrays, memory, is_cache, check_keys=check_keys)
    return ExpiringArrayTable(arrays, ttl_ms, now_ms, memory=memory, is_cache=is_cache, check_keys=check_keys)


def expire_arrays(backend: KeyedStateBackend, name: str, table: ArrayTable, now_ms: int) -> None:
    """Let the backend remove the keys of one of its tables that have expired, if they expire."""
    if isinstance(table, ExpiringArrayTable):
        backend.expire(name, table.visible_value, ArrayExpiry(table, table.ttl_ms, now_ms))


class ArrayExpiry(Expiry):
    """Removes the keys of a table that have expired."""

    def __init__(self, table: ExpiringArrayTable, ttl_ms: int, now_ms: int) -> None:
        super().__init__(ttl_ms, lambda entry_key: None)
        self._table = table
        self._period_ms = max(1, ttl_ms // _STEPS)
        self._place = 0
        self.next_ms = now_ms + self._period_ms

    def touch(self, entry_key: Any, expires_ms: int) -> None:
        """Do nothing: the table has the times."""

    def expire(self, now_ms: int, entries_max: int) -> int:
        if self.next_ms is None or self.next_ms > now_ms:
            return 0
        stop = self._place + _EXAMINED * entries_max
        self._table.remove_expired(self._place, stop)
        self._place = stop
        if stop >= len(self._table):
            self._place = 0
            self.next_ms = now_ms + self._period_ms
            self._table.drop_removed()
        return entries_max

    def clear(self) -> None:
        """Examine from the first key on: keys may come again."""
        self._place = 0


_EXAMINED = 100
"""So many keys are examined in arrays in the time of one Python object."""
