"""Figures aggregated over several tasks, as integers. Flink: AggregatedTaskDetailsInfo.

Summaries of checkpoints have another form: summary.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def aggregate_of(values: Sequence[int]) -> dict[str, int]:
    """Aggregate numbers in any order. All results are 0 without any."""
    ordered = sorted(values) or [0]
    total = sum(ordered)
    # Java's division, towards zero. The time in a state that no task has reached is -1.
    mean = abs(total) // len(ordered) * (-1 if total < 0 else 1)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": mean,
        "sum": total,
        "median": _percentile(ordered, 50),
        "p25": _percentile(ordered, 25),
        "p75": _percentile(ordered, 75),
        "p95": _percentile(ordered, 95),
    }


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Interpolate between the two nearest numbers, like commons-math's Percentile."""
    place = percent * (len(ordered) + 1) / 100
    if place < 1:
        return ordered[0]
    if place >= len(ordered):
        return ordered[-1]
    below, above = ordered[math.floor(place) - 1], ordered[math.floor(place)]
    return int(below + (place - math.floor(place)) * (above - below))
