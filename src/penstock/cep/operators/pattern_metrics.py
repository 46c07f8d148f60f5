"""The figures of a pattern's operator, and the names of its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.runtime.task.metrics import OperatorMetricGroup

if TYPE_CHECKING:
    from penstock.cep.operators.event_buffer import EventBuffer
    from penstock.engine.runtime.task.metrics import OperatorCounters


class PatternMetrics:
    """The figures of a pattern's operator in one subtask."""

    __slots__ = ("discarded", "largest_key", "matches", "partial_matches", "timeouts")

    def __init__(self) -> None:
        self.partial_matches = 0
        self.largest_key = 0
        self.matches = 0
        self.timeouts = 0
        self.discarded = 0

    def group(self, counters: OperatorCounters, buffer: EventBuffer) -> OperatorMetricGroup:
        """Return the metrics, by name."""
        group = OperatorMetricGroup(counters)
        group.gauge("numPartialMatches", lambda: self.partial_matches)
        group.gauge("maxPartialMatchesOfKey", lambda: self.largest_key)
        group.gauge("numMatches", lambda: self.matches)
        group.gauge("numTimedOutMatches", lambda: self.timeouts)
        group.gauge("numDiscardedPartialMatches", lambda: self.discarded)
        group.gauge("numBufferedEvents", lambda: buffer.count)
        counters.extremes["maxPartialMatchesOfKey"] = "max"
        return group
