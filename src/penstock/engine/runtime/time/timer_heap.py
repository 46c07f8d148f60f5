"""Timers in memory in the order of time: a heap of timestamps, and for each the timers that wait for it, in order.

A dict a timestamp rather than a heap of (timestamp, key): keys need no order, adding a timer twice costs one lookup,
and the many timers of one window end share one entry of the heap. Where they are many, it is an OrderedDict, which
takes its first entry in constant time; it needs 60 bytes more for each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Any

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
