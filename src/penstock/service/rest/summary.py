"""Summaries of figures of checkpoints, in Flink's form. Flink: StatsSummaryDto."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine.checkpoint.summary import QUANTILES, Summary


def summary_of(values: Sequence[float]) -> dict[str, float]:
    """Statistics of numbers in any order."""
    return written(Summary.of(values))


def written(summary: Summary) -> dict[str, float]:
    """A summary in Flink's form."""
    return {
        "min": int(summary.lowest),
        "max": int(summary.highest),
        "avg": int(summary.mean),
        **dict(zip(QUANTILES, summary.quantiles, strict=True)),
    }
