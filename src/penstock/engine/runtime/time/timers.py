"""Timers of one operator, in event time and processing time: unique by (key, namespace, time), fired in order of time.

Timers of one timestamp fire in the order of registration (after a restart, or in RocksDB, in any order). A timer that
is registered for the timestamp that is firing comes next. A timer for the past fires with the next advance, in order of
time: while timers fire, a timer that `on_timer` registers for an earlier time comes next. Source: Flink docs, "Process
Function", Timers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import FrozenTable, Layer, Table
from penstock.engine.state.timer_table import FIRST, TimerTable, order_of, time_of

Entry = tuple[Any, int, Any]
"""key, timestamp, namespace"""
_EMPTIED_MIN = 64
_MANY = 1_024
"""With fewer timers of a timestamp, they are reordered in one call when they start to fire, in about 50 us."""


class TimerHeap:
    """Unique timers in order of time; timers of one timestamp are in the order in which they were added.

    A heap of timestamps, with a dict of the waiting timers for each. Compared with a heap of (timestamp, key), keys
    need no order, adding a timer twice costs one lookup, and the many timers of one window end share one heap entry.
    From _MANY timers of a timestamp on, the dict is an OrderedDict, which removes its first entry in constant time but
    needs 60 bytes more per timer.
    """

    __slots__ = ("_due", "_emptied", "_firing", "_heap")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._due: dict[int, dict[Entry, None]] = {}
        self._firing: set[int] = set()
        self._emptied = 0
        """How many timestamps have lost their last timer by `discard` since the heap was rebuilt."""

    def add(self, entry: Entry) -> bool:
        """Add a timer. False: it exists already, and does not change."""
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
                # The timer comes next.
                waiting.move_to_end(entry, last=False)
        elif len(waiting) == _MANY and timestamp not in self._firing:
            self._due[timestamp] = OrderedDict(waiting)
        return True

    def discard(self, entry: Entry) -> bool:
        """Remove a timer. False: it does not exist."""
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
        """Remove timestamps without timers: a timer that moves with each record would leave one for each move."""
        due, firing = self._due, self._firing
        self._heap[:] = [timestamp for timestamp in self._heap if due[timestamp] or timestamp in firing]
        self._due = {timestamp: due[timestamp] for timestamp in self._heap}
        heapify(self._heap)
        self._emptied = 0

    def next_timestamp(self) -> int | None:
        """Return the time of the earliest timer."""
        heap, due = self._heap, self._due
        while heap and not due[heap[0]]:
            timestamp = heappop(heap)
            del due[timestamp]
            self._firing.discard(timestamp)
        return heap[0] if heap else None

    def pop(self, timestamp: int) -> Entry:
        """Remove and return the next timer of the earliest time, which is `timestamp`."""
        waiting = self._due[timestamp]
        if type(waiting) is OrderedDict:
            self._firing.add(timestamp)
            entry: Entry = waiting.popitem(last=False)[0]
            return entry
        if timestamp not in self._firing:
            # A dict removes its last entry in constant time, but finds its first only by skipping the slots of removed
            # entries. So reverse the order once; timers that are added from now on come next.
            waiting = self._due[timestamp] = dict(reversed(waiting.items()))
            self._firing.add(timestamp)
        return waiting.popitem()[0]

    def pop_some(self, timestamp: int, timers_max: int) -> list[Entry]:
        """Remove and return up to `timers_max` timers of the earliest time, which is `timestamp`, in order."""
        waiting = self._due[timestamp]
        if len(waiting) > timers_max or timestamp in self._firing:
            return [self.pop(timestamp) for _ in range(min(timers_max, len(waiting)))]
        entries = list(waiting)
        waiting.clear()
        return entries

    def by_time(self) -> Iterator[tuple[int, list[Entry]]]:
        """Yield each timestamp with its timers, in order of time. Timers may be added and removed meanwhile."""
        for timestamp in sorted(self._due):
            yield timestamp, list(self._due.get(timestamp, ()))

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Iterate over all timers as (timestamp, key, namespace), in order of time."""
        return ((timestamp, key, namespace) for _, timers in self.by_time() for key, timestamp, namespace in timers)

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    def __bool__(self) -> bool:
        return any(self._due.values())

    @property
    def is_untouched(self) -> bool:
        """Whether no timer was added since it was cleared."""
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
        """Add a timer. A timer that exists already does not change."""

    @abstractmethod
    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Remove a timer, if it exists."""

    @abstractmethod
    def next_timestamp(self) -> int | None:
        """Return the time of the earliest timer, or None."""

    @abstractmethod
    def pop_due(self, until: int) -> tuple[int, Any, Any] | None:
        """Remove and return the earliest timer at or before `until`, as (timestamp, key, namespace), or None."""

    def register_all(self, entries: Iterable[Entry]) -> None:
        """Add timers, each as (key, timestamp, namespace)."""
        for key, timestamp, namespace in entries:
            self.register(timestamp, key, namespace)

    def pop_all_due(self, until: int, timers_max: int) -> list[Entry]:
        """Remove and return the timers of the earliest time, if it is at most `until`, up to `timers_max`.

        Returns an empty list if no timer is due. Only for timers that do not register others when they fire.
        """
        due = self.pop_due(until)
        return [] if due is None else [(due[1], due[0], due[2])]

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """Iterate over all timers as (timestamp, key, namespace), in order of time."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of timers."""


class HeapTimerQueue(TimerQueue):
    """Timers on the heap. They are also in a layered table, so that freezing costs little even for many timers."""

    __slots__ = ("_layer", "_table", "_timers")

    def __init__(self) -> None:
        self._timers = TimerHeap()
        self._table = LayeredTable(namespaced=True)
        self._table.register(self)

    def use_layer(self, layer: Layer) -> None:
        """Write to `layer` from now on: a snapshot has frozen the previous one."""
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
            self._table.discard(entry)

    def next_timestamp(self) -> int | None:
        return self._timers.next_timestamp()

    def pop_due(self, until: int) -> tuple[int, Any, Any] | None:
        timestamp = self._timers.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        entry = self._timers.pop(timestamp)
        self._table.discard(entry)
        return timestamp, entry[0], entry[2]

    def pop_all_due(self, until: int, timers_max: int) -> list[Entry]:
        timestamp = self._timers.next_timestamp()
        if timestamp is None or timestamp > until:
            return []
        entries = self._timers.pop_some(timestamp, timers_max)
        self._table.discard_all(entries)
        return entries

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        return iter(self._timers)

    def __len__(self) -> int:
        return len(self._timers)

    def __bool__(self) -> bool:
        return bool(self._timers)

    def freeze(self, full: bool) -> FrozenTable:
        return self._table.freeze(full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        for entry, value in zip(entry_keys, values, strict=True):
            # Unlike `register`: restored timers are in the snapshot, so they must not count as changed.
            self._table.restore([entry], [value])
            if value is None:
                self._timers.discard(entry)
            else:
                self._timers.add(entry)

    def compact(self, entries_max: int) -> int:
        return self._table.compact(entries_max)

    def clear(self) -> None:
        """Remove all timers."""
        if self._timers.is_untouched and not self._table.has_older:
            # A fast path: batched mode clears after each key, and most keys have no timers.
            return
        self._timers.clear()
        self._table.clear()


class Timers:
    """Both queues of an operator, and its event time."""

    __slots__ = ("event_time", "processing_time", "watermark")

    def __init__(self, event_time: TimerQueue, processing_time: TimerQueue) -> None:
        self.event_time = event_time
        self.processing_time = processing_time
        self.watermark = MIN_TIMESTAMP


READ_AT_ONCE = 2_048
"""The most timers read from the store in one call: a few milliseconds' work, which a step cannot divide."""


class StoredTimerQueue(TimerQueue):
    """The timers of one time domain in RocksDB, in `table`. Timers of one timestamp fire in any order.

        in memory ("near")   timers before the *horizon*, and timers that are not in the store yet
        in the store         all written timers; those from the horizon on have not been read

    A timer fires if no timer of the store can come before it, so at the latest at the time of the horizon. When no near
    timer is left, the queue reads the next ones, about two thousand at a time, and moves the horizon forward. So it
    never reads tombstones of fired timers again. When too many timers are near, the horizon moves back, to the time
    before which there are enough. Source: Flink docs, "State Backends", Timers (Heap vs. RocksDB);
    RocksDBCachingPriorityQueueSet.
    """

    __slots__ = ("_horizon", "_horizon_ms", "_left", "_near", "_read_at_once", "_table")

    def __init__(self, table: TimerTable, read_at_once: int = READ_AT_ONCE) -> None:
        self._table = table
        self._near = TimerHeap()
        self._read_at_once = read_at_once
        self._left = 0
        self._reset_horizon()
        table.on_spilled = self._left_memory

    def _reset_horizon(self) -> None:
        """Set the horizon to the first timer of the store."""
        self._horizon: bytes | None = FIRST
        """The order of the first timer of the store that has not been read; None if all are read."""
        self._horizon_ms = time_of(FIRST)

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        entry = key, timestamp, namespace
        # A timer that is in the store but was not read is written again: that is faster than a lookup.
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
            # An entry in memory is near already, or was removed.
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
        """Drop timers from the horizon on from memory: they are in the store now."""
        if self._horizon is not None:
            horizon_ms = self._horizon_ms
            for entry in entries:
                # Compute the order only if the time does not decide: it costs as much as the rest of this loop.
                if entry[1] > horizon_ms or (entry[1] == horizon_ms and self._table.order(entry) >= self._horizon):
                    self._near.discard(entry)
        self._left += len(entries)
        if self._left > self._read_at_once:
            self._limit()

    def _limit(self) -> None:
        """Move the horizon back if more timers are near than needed."""
        in_memory, near = self._table.memory_max(), len(self._near)
        self._left = 0
        if near <= 2 * (in_memory + self._read_at_once):
            return
        retained = 0
        horizon_ms: int | None = None
        for timestamp, entries in self._near.by_time():
            retained += len(entries)
            if horizon_ms is None and retained > self._read_at_once:
                horizon_ms = timestamp
                # Also if the horizon is at this time: otherwise timers that were added before it would stay forever.
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
        self._reset_horizon()

    def compact(self, entries_max: int) -> int:
        return self._table.compact(entries_max)

    def clear(self) -> None:
        """Remove all timers."""
        self._near.clear()
        self._table.clear()
        self._move_horizon(None)
