"""Timers of one operator: event time and processing time, fired in timestamp order, one of each (key, namespace, time).

Timers of one timestamp fire in the order in which they were registered (after a restart, or in RocksDB, in any), but
for those registered while that timestamp is firing: they come next. A timer registered in the past fires with the next
advance, in the order of time: while timers are firing, one registered by `on_timer` for an earlier moment comes next.
Source: Flink docs, "Process Function", Timers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.time.timer_heap import Entry, TimerHeap
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import FrozenTable, Layer, Table


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
