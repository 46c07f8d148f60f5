"""Lowest, highest, mean and quantiles of some numbers, as Flink writes them. Flink: StatsSummaryDto."""

from __future__ import annotations

from collections.abc import Sequence


def summary_of(values: Sequence[float]) -> dict[str, float]:
    """Of numbers in no particular order. All 0 if there are none."""
    ordered = sorted(values) or [0]

    def quantile(part: float) -> float:
        return float(ordered[min(len(ordered) - 1, int(part * len(ordered)))])

    return {
        "min": int(ordered[0]),
        "max": int(ordered[-1]),
        "avg": int(sum(ordered) / len(ordered)),
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p95": quantile(0.95),
        "p99": quantile(0.99),
        "p999": quantile(0.999),
    }
