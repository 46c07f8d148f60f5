"""Latency markers: sent by sources at an interval, measured and passed on by every task.

Source: Flink docs, "Metrics", Latency tracking.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.elements import LatencyMarker
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.task.counters import TaskCounters


class LatencyMarkers:
    """Of one task. `interval_ms` 0: a source sends none."""

    __slots__ = ("_counters", "_edges", "_interval_ms", "_next_ms", "_now_ms", "_sent", "_subtask")

    def __init__(
        self,
        subtask: SubtaskId,
        edges: Sequence[OutputEdge],
        counters: TaskCounters,
        interval_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._subtask = subtask
        self._edges = edges
        self._counters = counters
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._next_ms = 0
        self._sent = 0

    def begin(self) -> None:
        """In a source: send a marker if one is due."""
        if self._interval_ms and (now_ms := self._now_ms()) >= self._next_ms:
            self._next_ms = now_ms + self._interval_ms
            self._send(LatencyMarker(now_ms, *self._subtask))

    def arrived(self, marker: LatencyMarker) -> None:
        """A marker came in: note how long it took, and pass it on."""
        self._counters.latency(self._now_ms() - marker.marked_ms)
        self._send(marker)

    def _send(self, marker: LatencyMarker) -> None:
        # To one channel of each edge, in turn: a marker measures one path, and costs the others nothing.
        self._sent += 1
        for edge in self._edges:
            edge.element_to_one(marker, self._sent)
