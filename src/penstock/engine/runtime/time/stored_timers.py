"""Timers in RocksDB, of which only the next ones and the latest changes are in memory.

    in memory ("near")   those before the *horizon*, and those that are not in the store yet
    in the store         all that have been written; those from the horizon on have not been read

A timer fires if no timer of the store could come before it, so at the latest at the time of the horizon. When there is
none left, the next ones are read, some thousand at a time, and the horizon moves on: so the tombstones of timers
that have fired are never read again. When too many are near, the horizon moves back to the time before which there are
enough of them. Source: Flink docs, "State Backends", Timers (Heap vs. RocksDB); RocksDBCachingPriorityQueueSet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from penstock.engine.runtime.time.timer_heap import TimerHeap
from penstock.engine.runtime.time.timers import TimerQueue
from penstock.engine.state.backends.rocksdb.timer_table import FIRST, RocksDBTimerTable, order_of, time_of
from penstock.engine.state.tables import FrozenTable

READ_AT_ONCE = 2_048
"""How many timers are read from the store at a time, at most: some milliseconds' work, which a step cannot divide."""


class StoredTimerQueue(TimerQueue):
    """The timers of one time domain, in `table`. Those of one timestamp fire in any order."""

    __slots__ = ("_horizon", "_horizon_ms", "_left", "_near", "_read_at_once", "_table")

    def __init__(self, table: RocksDBTimerTable, read_at_once: int = READ_AT_ONCE) -> None:
        self._table = table
        self._near = TimerHeap()
        self._read_at_once = read_at_once
        self._left = 0
        self._begin()
        table.left_memory = self._left_memory

    def _begin(self) -> None:
        """Nothing of the store has been read."""
        self._horizon: bytes | None = FIRST
        """The order of the first timer of the store that has not been read; None: all have been."""
        self._horizon_ms = time_of(FIRST)

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        entry = key, timestamp, namespace
        # One that is in the store, and was not read, is written again: that is quicker than to look for it.
        if self._near.add(entry):
            self._table.current[entry] = True

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        entry = key, timestamp, namespace
        if self._near.discard(entry) or (self._horizon is not None and timestamp >= self._horizon_ms):
            self._table.discard(entry)

    def next_timestamp(self) -> int | None:
        timestamp = self._near.next_timestamp()
        while self._horizon is not None and (timestamp is None or timestamp > self._horizon_ms):
            self._read()
            timestamp = self._near.next_timestamp()
        return timestamp

    def _read(self) -> None:
        """Read the next timers of the store."""
        assert self._horizon is not None
        rest = self._table.from_order(self._horizon)
        for _, entry in islice(rest, self._read_at_once):
            # What is in memory is near already, or was removed.
            if not self._table.is_in_memory(entry):
                self._near.add(entry)
        self._move_horizon(next(rest, (None,))[0])

    def _move_horizon(self, order: bytes | None) -> None:
        self._horizon = order
        if order is not None:
            self._horizon_ms = time_of(order)

    def pop_due(self, until: int) -> tuple[int, Any, Any] | None:
        timestamp = self.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        entry = self._near.pop(timestamp)
        self._table.discard(entry)
        return timestamp, entry[0], entry[2]

    def _left_memory(self, entries: list[Any]) -> None:
        """These are in the store now: those from the horizon on need not stay in memory."""
        if self._horizon is not None:
            horizon_ms = self._horizon_ms
            for entry in entries:
                # The order is computed only where the time does not decide: it costs as much as all else here.
                if entry[1] > horizon_ms or (entry[1] == horizon_ms and self._table.order(entry) >= self._horizon):
                    self._near.discard(entry)
        self._left += len(entries)
        if self._left > self._read_at_once:
            self._limit()

    def _limit(self) -> None:
        """Have the horizon move back, if more timers are near than are needed."""
        in_memory, near = self._table.memory_max(), len(self._near)
        self._left = 0
        if near <= 2 * (in_memory + self._read_at_once):
            return
        kept = 0
        horizon_ms: int | None = None
        for timestamp, entries in self._near.by_time():
            kept += len(entries)
            if horizon_ms is None and kept > self._read_at_once:
                horizon_ms = timestamp
                # Also if the horizon is at this time: those before it that were added since then would never leave.
                if self._horizon is None or timestamp <= self._horizon_ms:
                    self._move_horizon(order_of(timestamp))
                else:
                    return
            if horizon_ms is not None:
                for entry in entries:
                    if not self._table.is_in_memory(entry):
                        self._near.discard(entry)

    @property
    def near(self) -> int:
        """How many timers are in memory."""
        return len(self._near)

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        timers = ((timestamp, key, namespace) for (key, timestamp, namespace), _ in self._table.items())
        return iter(sorted(timers, key=lambda timer: timer[0]))

    def __len__(self) -> int:
        return sum(1 for _ in self._table.items())

    def __bool__(self) -> bool:
        return self.next_timestamp() is not None

    def freeze(self, full: bool) -> FrozenTable:
        return self._table.freeze(full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        self._table.restore(entry_keys, values)
        self._begin()

    def compact(self, entries_max: int) -> int:
        return self._table.compact(entries_max)

    def clear(self) -> None:
        """Remove all timers."""
        self._near.clear()
        self._table.clear()
        self._move_horizon(None)
