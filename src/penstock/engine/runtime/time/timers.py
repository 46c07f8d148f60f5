"""Timers of one operator: event time and processing time, fired in timestamp order, one of each (key, namespace, time).

Timers of one timestamp fire in the order in which they were registered (after a restart, or in RocksDB, in any), but
for those registered while that timestamp is firing: they come next. A timer registered in the past fires with the next
advance, in the order of time: while timers are firing, one registered by `on_timer` for an earlier moment comes next.
Source: Flink docs, "Process Function", Timers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.state.backends.rocksdb.timer_table import FIRST, RocksDBTimerTable, order_of, time_of
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import FrozenTable, Layer, Table

# Timers in memory in the order of time: a heap of timestamps, and for each the timers that wait for it, in order.
#
# A dict a timestamp rather than a heap of (timestamp, key): keys need no order, adding a timer twice costs one lookup,
# and the many timers of one window end share one entry of the heap. Where they are many, it is an OrderedDict, which
# takes its first entry in constant time; it needs 60 bytes more for each.

Entry = tuple[Any, int, Any]
"""key, timestamp, namespace"""
_EMPTIED_MIN = 64
_MANY = 1_024
"""So many timers of one timestamp are reordered at once when they begin to fire: some 50 microseconds' work."""


class TimerHeap:
    """Timers, one of each. Those of one timestamp come in the order in which they were added."""

    __slots__ = ("_due", "_emptied", "_firing", "_heap")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._due: dict[int, dict[Entry, None]] = {}
        self._firing: set[int] = set()
        self._emptied = 0
        """How many timestamps have lost their last timer by `discard` since the heap was rebuilt."""

    def add(self, entry: Entry) -> bool:
        """Add a timer. False: it is there already, and stays as it is."""
        timestamp = entry[1]
        waiting = self._due.get(timestamp)
        if waiting is None:
            heappush(self._heap, timestamp)
            waiting = self._due[timestamp] = {}
        elif entry in waiting:
            return False
        waiting[entry] = None
        if type(waiting) is OrderedDict:
            if timestamp in self._firing:
                # It comes next.
                waiting.move_to_end(entry, last=False)
        elif len(waiting) == _MANY and timestamp not in self._firing:
            self._due[timestamp] = OrderedDict(waiting)
        return True

    def discard(self, entry: Entry) -> bool:
        """Remove a timer. False: it is not there."""
        waiting = self._due.get(entry[1])
        if waiting is None or entry not in waiting:
            return False
        del waiting[entry]
        if not waiting:
            self._emptied += 1
            if self._emptied >= _EMPTIED_MIN and self._emptied * 2 > len(self._heap):
                self._rebuild()
        return True

    def _rebuild(self) -> None:
        """Leave out timestamps without timers: a timer that is moved with each record would leave one for each move."""
        due, firing = self._due, self._firing
        self._heap[:] = [timestamp for timestamp in self._heap if due[timestamp] or timestamp in firing]
        self._due = {timestamp: due[timestamp] for timestamp in self._heap}
        heapify(self._heap)
        self._emptied = 0

    def next_timestamp(self) -> int | None:
        """The earliest time for which a timer waits."""
        heap, due = self._heap, self._due
        while heap and not due[heap[0]]:
            timestamp = heappop(heap)
            del due[timestamp]
            self._firing.discard(timestamp)
        return heap[0] if heap else None

    def pop(self, timestamp: int) -> Entry:
        """Take a timer of the earliest time, which is `timestamp`."""
        waiting = self._due[timestamp]
        if type(waiting) is OrderedDict:
            self._firing.add(timestamp)
            entry: Entry = waiting.popitem(last=False)[0]
            return entry
        if timestamp not in self._firing:
            # A dict removes its last entry in constant time, but finds its first only by skipping the slots of all that
            # were removed. So the order is reversed once; timers that are added from now on come next.
            waiting = self._due[timestamp] = dict(reversed(waiting.items()))
            self._firing.add(timestamp)
        return waiting.popitem()[0]

    def pop_some(self, timestamp: int, most: int) -> list[Entry]:
        """Take timers of the earliest time, which is `timestamp`, in their order: all of them, or so many."""
        waiting = self._due[timestamp]
        if len(waiting) > most or timestamp in self._firing:
            return [self.pop(timestamp) for _ in range(min(most, len(waiting)))]
        entries = list(waiting)
        waiting.clear()
        return entries

    def by_time(self) -> Iterator[tuple[int, list[Entry]]]:
        """All timers, by time: timestamp, the timers of that time. Timers may be added and removed meanwhile."""
        for timestamp in sorted(self._due):
            yield timestamp, list(self._due.get(timestamp, ()))

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """All timers as (timestamp, key, namespace), by time."""
        return ((timestamp, key, namespace) for _, timers in self.by_time() for key, timestamp, namespace in timers)

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    def __bool__(self) -> bool:
        return any(self._due.values())

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was added since it was cleared."""
        return not self._heap

    def clear(self) -> None:
        """Remove all timers."""
        self._heap.clear()
        self._due.clear()
        self._firing.clear()
        self._emptied = 0


class TimerQueue(Table):
    """The timers of one time domain. In snapshots, an entry is (key, timestamp, namespace) -> True."""

    __slots__ = ()

    @abstractmethod
    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Add a timer; one that exists already stays as it is."""

    @abstractmethod
    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Remove a timer, if it exists."""

    @abstractmethod
    def next_timestamp(self) -> int | None:
        """The earliest time for which a timer waits."""

    @abstractmethod
    def pop_due(self, until: int) -> tuple[int, Any, Any] | None:
        """Take the earliest timer at or before `until`: (timestamp, key, namespace), or None if there is none."""

    def register_all(self, entries: Iterable[Entry]) -> None:
        """Add timers: (key, timestamp, namespace) each."""
        for key, timestamp, namespace in entries:
            self.register(timestamp, key, namespace)

    def pop_all_due(self, until: int, most: int) -> list[Entry]:
        """Take the earliest timers at or before `until`, at most so many, and fewer if there are some at a later time.

        Empty: there is none. For timers that register no others when they fire.
        """
        due = self.pop_due(until)
        return [] if due is None else [(due[1], due[0], due[2])]

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """All timers as (timestamp, key, namespace), by time."""

    @abstractmethod
    def __len__(self) -> int:
        """How many timers there are."""


class HeapTimerQueue(TimerQueue):
    """On the heap. The timers are also in a layered table, so that freezing is cheap however many there are."""

    __slots__ = ("_kept", "_layer", "_timers")

    def __init__(self) -> None:
        self._timers = TimerHeap()
        self._kept = LayeredTable(namespaced=True)
        self._kept.hold(self)

    def use_layer(self, layer: Layer) -> None:
        """A snapshot has frozen the previous layer."""
        self._layer = layer

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        entry = key, timestamp, namespace
        if self._timers.add(entry):
            self._layer[entry] = True

    def register_all(self, entries: Iterable[Entry]) -> None:
        add, layer = self._timers.add, self._layer
        for entry in entries:
            if add(entry):
                layer[entry] = True

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        entry = key, timestamp, namespace
        if self._timers.discard(entry):
            self._kept.discard(entry)

    def next_timestamp(self) -> int | None:
        return self._timers.next_timestamp()

    def pop_due(self, until: int) -> tuple[int, Any, Any] | None:
        timestamp = self._timers.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        entry = self._timers.pop(timestamp)
        self._kept.discard(entry)
        return timestamp, entry[0], entry[2]

    def pop_all_due(self, until: int, most: int) -> list[Entry]:
        timestamp = self._timers.next_timestamp()
        if timestamp is None or timestamp > until:
            return []
        entries = self._timers.pop_some(timestamp, most)
        self._kept.discard_all(entries)
        return entries

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        return iter(self._timers)

    def __len__(self) -> int:
        return len(self._timers)

    def __bool__(self) -> bool:
        return bool(self._timers)

    def freeze(self, full: bool) -> FrozenTable:
        return self._kept.freeze(full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        for entry, value in zip(entry_keys, values, strict=True):
            # Unlike `register`: what is restored is in the snapshot, so it must not count as changed.
            self._kept.restore([entry], [value])
            if value is None:
                self._timers.discard(entry)
            else:
                self._timers.add(entry)

    def compact(self, entries_max: int) -> int:
        return self._kept.compact(entries_max)

    def clear(self) -> None:
        """Remove all timers."""
        if self._timers.is_untouched and not self._kept.has_older:
            # Batched mode asks after each key, and most have none.
            return
        self._timers.clear()
        self._kept.clear()


class Timers:
    """Both queues of an operator, and the event time it has reached."""

    __slots__ = ("event_time", "processing_time", "watermark")

    def __init__(self, event_time: TimerQueue, processing_time: TimerQueue) -> None:
        self.event_time = event_time
        self.processing_time = processing_time
        self.watermark = MIN_TIMESTAMP


# Timers in RocksDB, of which only the next ones and the latest changes are in memory.
#
#     in memory ("near")   those before the *horizon*, and those that are not in the store yet
#     in the store         all that have been written; those from the horizon on have not been read
#
# A timer fires if no timer of the store could come before it, so at the latest at the time of the horizon. When there
# is none left, the next ones are read, some thousand at a time, and the horizon moves on: so the tombstones of timers
# that have fired are never read again. When too many are near, the horizon moves back to the time before which there
# are enough of them. Source: Flink docs, "State Backends", Timers (Heap vs. RocksDB); RocksDBCachingPriorityQueueSet.

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
