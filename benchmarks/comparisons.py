"""What is compared with what: figures of one measurement relative to another of the same item."""

from __future__ import annotations

import dataclasses

from benchmarks.goals import Bound, Goal


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A figure of one measurement relative to another of the same item: `how` is "ratio" or "difference"."""

    item: int
    name: str
    of: str
    against: str
    figure: str
    how: str
    goal: Goal


COMPARISONS = [
    Comparison(10, "penstock : RDD", "penstock", "rdd", "mb_per_s", "ratio", Goal("", "×", 1.5)),
    Comparison(10, "penstock : DataFrame", "penstock", "dataframe", "mb_per_s", "ratio", Goal("", "×")),
    Comparison(
        13,
        "beyond Spark's own",
        "penstock",
        "the same plan, Spark alone",
        "cores",
        "difference",
        Goal("", "cores", 0.05, Bound.AT_MOST),
    ),
    Comparison(
        15,
        "with : without",
        "throughput, one each second",
        "throughput, no checkpoints",
        "records_per_s",
        "ratio",
        Goal("", "×", 0.95),
    ),
    Comparison(
        15,
        "99th percentile, above that without",
        "20,000/s, one every 10 s",
        "20,000/s, no checkpoints",
        "p99_ms",
        "difference",
        Goal("", "ms", 10, Bound.AT_MOST),
    ),
    Comparison(
        2, "memory for 5,000,000 keys", "5,000,000 keys", "1,000 keys", "python_mb", "difference", Goal("", "MB")
    ),
    Comparison(
        32,
        "upserts exactly once, columns : rows",
        "upsert-exactly-once, columns",
        "upsert-exactly-once, rows",
        "records_per_s",
        "ratio",
        Goal("", "×", 1.5),
    ),
]
