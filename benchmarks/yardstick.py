"""The yardstick: how fast one core runs a plain Python loop that counts keys in a dict.

Machines differ by a factor of three and more, so every figure is also given as a share of what this loop makes at the
same moment on the same machine. Prints records/s as JSON: `python -m benchmarks.yardstick`.
"""

from __future__ import annotations

import json
import statistics
import time

REFERENCE_PER_S = 11_700_000
"""On the 2-core machine that the figures to reach were set for."""

_RECORDS = 3_000_000
_ROUNDS = 3


def count_keys(records: int) -> dict[int, int]:
    """1,000 keys, counted."""
    counts: dict[int, int] = {}
    for i in range(records):
        k = i * 2654435761 % 1000
        counts[k] = counts.get(k, 0) + 1
    return counts


def records_per_s() -> float:
    """The median of a few rounds."""
    rates = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        count_keys(_RECORDS)
        rates.append(_RECORDS / (time.perf_counter() - began))
    return statistics.median(rates)


if __name__ == "__main__":
    print(json.dumps({"records_per_s": records_per_s()}))
