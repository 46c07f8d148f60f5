"""Puts events in order of event time: one buffer for all keys of a subtask, without a timer per event.

Events wait in buckets of time. A watermark takes whole buckets, and the first part of one, each sorted once; events
mostly come in order, which costs little to sort. So an event costs an append, and its share of a sort.

Before a snapshot, `store` writes what waits into a table of keyed state, (key, bucket) -> [(timestamp, event), ...]:
buckets that have changed since the last snapshot, which are few, for most events wait shorter than that. With keys it
is rescaled like any keyed state. Source: Flink docs, "Event Processing (CEP)", Handling Lateness in Event Time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from penstock.engine.state.layers import LayeredTable

Event: TypeAlias = tuple[int, Any, Any, int]
"""Timestamp (ms), key, value and bits."""
SortKey: TypeAlias = Callable[[Event], Any]

WIDTH_MS = 1_000
"""The length of a bucket. Stored keys contain the bucket's number, so it must not change."""

by_time: SortKey = itemgetter(0)


class EventBuffer:
    """Events that wait for event time. `order` sorts those of a bucket, by timestamp first."""

    def __init__(self, order: SortKey = by_time) -> None:
        self._order = order
        self._buckets: dict[int, list[Event]] = {}
        self._numbers: list[int] = []
        """A heap of the numbers of buckets."""
        self._changed: set[int] = set()
        """Buckets that differ from what is stored of them."""
        self._stored: dict[int, set[Any]] = {}
        """The keys under which a bucket is stored."""
        self._sorted: int | None = None
        """The bucket that is sorted, because its first part was taken."""
        self.count = 0
        """Number of events."""

    def add(self, events: Sequence[Event], first_ms: int, last_ms: int) -> None:
        """Add events, in the order in which they came, with timestamps from `first_ms` to `last_ms`."""
        if not events:
            return
        self.count += len(events)
        number = first_ms // WIDTH_MS
        if number == last_ms // WIDTH_MS:
            self._bucket(number).extend(events)
            return
        bucket, last = self._bucket(number), number
        for event in events:
            number = event[0] // WIDTH_MS
            if number != last:
                bucket, last = self._bucket(number), number
            bucket.append(event)

    def take(self, until: int) -> Iterator[list[Event]]:
        """Remove and yield the events up to and including the time `until`, sorted, a bucket at a time."""
        numbers, last = self._numbers, until // WIDTH_MS
        while numbers and numbers[0] <= last:
            number = numbers[0]
            events = self._buckets[number]
            if number != self._sorted:
                events.sort(key=self._order)
            if number < last or events[-1][0] <= until:
                heapq.heappop(numbers)
                del self._buckets[number]
                self._changed.discard(number)
                if number in self._stored:
                    self._changed.add(number)
                self._sorted = None
                self.count -= len(events)
                yield events
                continue
            self._sorted = number
            end = bisect_right(events, until, key=by_time)
            if end:
                taken = events[:end]
                del events[:end]
                self._changed.add(number)
                self.count -= end
                yield taken
            return

    def earliest(self) -> int | None:
        """Return the timestamp of the first event (ms); None without events."""
        return min(self._buckets[self._numbers[0]], key=by_time)[0] if self._numbers else None

    def store(self, table: LayeredTable) -> None:
        """Write what has changed since the last call into the table."""
        for number in self._changed:
            by_key: dict[Any, list[tuple[int, Any]]] = {}
            for timestamp, key, value, _ in self._buckets.get(number, ()):
                by_key.setdefault(key, []).append((timestamp, value))
            for key in self._stored.pop(number, ()):
                if key not in by_key:
                    table.discard((key, number))
            for key, events in by_key.items():
                table.put((key, number), events)
            if by_key:
                self._stored[number] = set(by_key)
        self._changed.clear()

    def restore(self, entries: Iterable[tuple[Any, Any]], bits: Callable[[Sequence[Any]], list[int]]) -> None:
        """Read the entries of the table. `bits`: see `Automaton.bits_of_chunk`."""
        for (key, number), events in entries:
            times, values = [timestamp for timestamp, _ in events], [value for _, value in events]
            count = len(events)
            self._bucket(number).extend(zip(times, [key] * count, values, bits(values), strict=True))
            self._stored.setdefault(number, set()).add(key)
            self.count += count
        self._changed.clear()

    def clear(self) -> None:
        """Remove all events."""
        self._buckets.clear()
        self._numbers.clear()
        self._changed.clear()
        self._stored.clear()
        self._sorted = None
        self.count = 0

    def _bucket(self, number: int) -> list[Event]:
        """Return the bucket to add events to."""
        if number == self._sorted:
            self._sorted = None
        self._changed.add(number)
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = []
            heapq.heappush(self._numbers, number)
        return bucket
