"""Timers of one operator: event time and processing time, fired in timestamp order, one of each (key, namespace, time).

Timers of one timestamp fire in the order in which they were registered (after a restart in any), but for those
registered while that timestamp is firing: they come next. A timer registered in the past fires with the next advance,
in its place in time: while timers are firing, one registered by `on_timer` for an earlier moment comes next. Source:
Flink docs, "Process Function", Timers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.state.layers import LayeredTable
from penstock.state.tables import FrozenTable, Layer, Table

Place = tuple[Any, int, Any]


class TimerQueue(Table):
    """The timers of one time domain: a heap of timestamps, and for each the keys that wait for it, in order.

    Places are (key, timestamp, namespace). A dict a timestamp rather than a heap of (timestamp, key): keys need no
    order, registering twice costs one lookup, and the many timers of one window end share one entry of the heap.
    For snapshots, which are to be cheap however many timers there are, the same places are in a layered table.
    """

    __slots__ = ("_due", "_firing", "_heap", "_kept", "_layer")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._due: dict[int, dict[Place, None]] = {}
        self._firing: set[int] = set()
        self._kept = LayeredTable(namespaced=True)
        self._kept.hold(self)

    def use_layer(self, layer: Layer) -> None:
        """A snapshot has frozen the layer before."""
        self._layer = layer

    def register(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Add a timer; one that is there already stays as it is."""
        place = key, timestamp, namespace
        waiting = self._due.get(timestamp)
        if waiting is None:
            waiting = self._first_at(timestamp)
        elif place in waiting:
            return
        waiting[place] = None
        self._layer[place] = True

    def _first_at(self, timestamp: int) -> dict[Place, None]:
        heappush(self._heap, timestamp)
        waiting = self._due[timestamp] = {}
        return waiting

    def delete(self, timestamp: int, key: Any, namespace: Any = None) -> None:
        """Remove a timer, if it is there."""
        place = key, timestamp, namespace
        waiting = self._due.get(timestamp)
        if waiting is not None and place in waiting:
            del waiting[place]
            self._kept.discard(place)

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
            # A dict gives up its last entry in constant time, its first only by walking over all that went before.
            waiting = self._due[timestamp] = dict(reversed(waiting.items()))
            self._firing.add(timestamp)
        place, _ = waiting.popitem()
        self._kept.discard(place)
        return timestamp, place[0], place[2]

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

    def restore(self, places: Iterable[Any], values: Iterable[Any]) -> None:
        for place, value in zip(places, values, strict=True):
            # Not as `register` does: nothing has changed since the snapshot.
            self._kept.restore([place], [value])
            waiting = self._due.get(place[1])
            if waiting is None:
                waiting = self._first_at(place[1])
            if value is None:
                waiting.pop(place, None)
            else:
                waiting[place] = None

    def compact(self, entries_max: int) -> int:
        return self._kept.compact(entries_max)

    def clear(self) -> None:
        """Forget all timers."""
        self._heap.clear()
        self._due.clear()
        self._firing.clear()
        self._kept.clear()


class Timers:
    """Both queues of an operator, and the event time it has reached."""

    __slots__ = ("event_time", "processing_time", "watermark")

    def __init__(self) -> None:
        self.event_time = TimerQueue()
        self.processing_time = TimerQueue()
        self.watermark = MIN_TIMESTAMP
