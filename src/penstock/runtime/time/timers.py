"""Timers of one operator: event time and processing time, fired in timestamp order, one of each (key, namespace, time).

Timers of one timestamp fire in the order in which they were registered (after a restart in any), but for those
registered while that timestamp is firing: they come next. A timer registered in the past fires with the next advance,
in the order of time: while timers are firing, one registered by `on_timer` for an earlier moment comes next. Source:
Flink docs, "Process Function", Timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.state.layers import LayeredTable
from penstock.state.tables import FrozenTable, Layer, Table

Entry = tuple[Any, int, Any]
_EMPTIED_MIN = 64


class TimerQueue(Table):
    """The timers of one time domain: a heap of timestamps, and for each the keys that wait for it, in order.

    Entries are (key, timestamp, namespace). A dict a timestamp rather than a heap of (timestamp, key): keys need no
    order, registering twice costs one lookup, and the many timers of one window end share one entry of the heap.
    The same entries are kept in a layered table, so that freezing a snapshot is cheap however many timers there are.
    """

    __slots__ = ("_due", "_emptied", "_firing", "_heap", "_kept", "_layer")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._due: dict[int, dict[Entry, None]] = {}
        self._firing: set[int] = set()
        self._emptied = 0
        """How many timestamps have lost their last timer by `delete` since the heap was rebuilt."""
        self._kept = LayeredTable(namespaced=True)
        self._kept.hold(self)

    def use_layer(self, layer: Layer) -> None:
        """A snapshot has frozen the previous layer."""
        self._layer = layer

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Add a timer; one that exists already stays as it is."""
        entry = key, timestamp, namespace
        waiting = self._due.get(timestamp)
        if waiting is None:
            waiting = self._first_at(timestamp)
        elif entry in waiting:
            return
        waiting[entry] = None
        self._layer[entry] = True

    def _first_at(self, timestamp: int) -> dict[Entry, None]:
        heappush(self._heap, timestamp)
        waiting = self._due[timestamp] = {}
        return waiting

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Remove a timer, if it exists."""
        entry = key, timestamp, namespace
        waiting = self._due.get(timestamp)
        if waiting is not None and entry in waiting:
            del waiting[entry]
            self._kept.discard(entry)
            if not waiting:
                self._emptied += 1
                if self._emptied >= _EMPTIED_MIN and self._emptied * 2 > len(self._heap):
                    self._rebuild()

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

    def pop_due(self, until: int) -> tuple[int, Any, Any] | None:
        """Take the earliest timer at or before `until`: (timestamp, key, namespace), or None if there is none."""
        timestamp = self.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        waiting = self._due[timestamp]
        if timestamp not in self._firing:
            # A dict removes its last entry in constant time, but finds its first only by skipping the slots of all that
            # were removed. So the order is reversed once; timers that are registered from now on fire next.
            waiting = self._due[timestamp] = dict(reversed(waiting.items()))
            self._firing.add(timestamp)
        entry, _ = waiting.popitem()
        self._kept.discard(entry)
        return timestamp, entry[0], entry[2]

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        """All timers as (timestamp, key, namespace), by time."""
        for timestamp in sorted(self._due):
            for key, _, namespace in self._due[timestamp]:
                yield timestamp, key, namespace

    def __len__(self) -> int:
        return sum(map(len, self._due.values()))

    def __bool__(self) -> bool:
        return any(self._due.values())

    def freeze(self, full: bool) -> FrozenTable:
        return self._kept.freeze(full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        for entry, value in zip(entry_keys, values, strict=True):
            # Unlike `register`: what is restored is in the snapshot, so it must not count as changed.
            self._kept.restore([entry], [value])
            waiting = self._due.get(entry[1])
            if waiting is None:
                waiting = self._first_at(entry[1])
            if value is None:
                waiting.pop(entry, None)
            else:
                waiting[entry] = None

    def compact(self, entries_max: int) -> int:
        return self._kept.compact(entries_max)

    def clear(self) -> None:
        """Remove all timers."""
        if not self._heap and not self._kept.has_older:
            # Batched mode asks after each key, and most have none.
            return
        self._heap.clear()
        self._due.clear()
        self._firing.clear()
        self._emptied = 0
        self._kept.clear()


class Timers:
    """Both queues of an operator, and the event time it has reached."""

    __slots__ = ("event_time", "processing_time", "watermark")

    def __init__(self) -> None:
        self.event_time = TimerQueue()
        self.processing_time = TimerQueue()
        self.watermark = MIN_TIMESTAMP
