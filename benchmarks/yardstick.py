"""The yardstick: speed of a plain Python loop that counts keys in a dict, on one core.

Machines differ by a factor of three and more, so figures are also given relative to the speed of this loop on the same
machine at the same time. Prints records/s as JSON: `python -m benchmarks.yardstick`.
"""

from __future__ import annotations

import json
import statistics
import time

REFERENCE_PER_S = 11_700_000
"""On the 2-core machine for which the goals were set."""

_RECORDS = 3_000_000
_ROUNDS = 3


def count_keys(records: int) -> dict[int, int]:
    """Count 1,000 keys."""
    counts: dict[int, int] = {}
    for i in range(records):
        k = i * 2654435761 % 1000
        counts[k] = counts.get(k, 0) + 1
    return counts


def records_per_s() -> float:
    """Return the median of several rounds."""
    rates = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        count_keys(_RECORDS)
        rates.append(_RECORDS / (time.perf_counter() - began))
    return statistics.median(rates)


if __name__ == "__main__":
    print(json.dumps({"records_per_s": records_per_s()}))
