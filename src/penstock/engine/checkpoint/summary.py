"""Lowest, highest, mean and quantiles of some numbers, or of all that there will have been. Flink: StatsSummary."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
_WINDOW = 10_000
"""So many of the newest numbers count for quantiles, as in Flink."""


class Summary(NamedTuple):
    """Of some numbers. All 0 if there are none."""

    lowest: float = 0
    highest: float = 0
    mean: float = 0
    quantiles: Sequence[float] = (0.0,) * len(QUANTILES)
    """In the order of QUANTILES."""

    @staticmethod
    def of(values: Sequence[float]) -> Summary:
        """Of numbers in no particular order."""
        ordered = sorted(values)
        if not ordered:
            return Summary()
        return Summary(ordered[0], ordered[-1], sum(ordered) / len(ordered), _quantiles(ordered))


class RunningSummary:
    """Of all numbers so far."""

    def __init__(self) -> None:
        self.now = Summary()
        self._count = 0
        self._total = 0.0
        self._newest: deque[float] = deque()
        self._ordered: list[float] = []
        """The same, by size."""

    def add(self, value: float) -> None:
        """There is one more."""
        self._count += 1
        self._total += value
        self._newest.append(value)
        insort(self._ordered, value)
        if len(self._newest) > _WINDOW:
            del self._ordered[bisect_left(self._ordered, self._newest.popleft())]
        lowest, highest = (value, value) if self._count == 1 else (self.now.lowest, self.now.highest)
        mean = self._total / self._count
        self.now = Summary(min(lowest, value), max(highest, value), mean, _quantiles(self._ordered))


def _quantiles(ordered: Sequence[float]) -> Sequence[float]:
    last = len(ordered) - 1
    return tuple(float(ordered[min(last, int(part * len(ordered)))]) for part in QUANTILES.values())
