"""Watermarks behind interval joins, which are held back: rows come with times that may be before the input's watermark.

A row is paired until the last of its partners has come, and each pair has the times of both rows; a row that finds no
partner goes after that. Without this, windows behind the join would drop them as late. Source: Flink's
KeyedCoProcessOperatorWithWatermarkDelay, and getMaxOutputDelay of TimeIntervalJoin.
"""

from __future__ import annotations

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP


def held_back(timestamp: int, lower: int, upper: int) -> int:
    """Return the watermark (ms) to emit at that of the input. `lower`, `upper`: bounds of one time minus the other.

    A millisecond before Flink's: a row without a partner goes when the watermark is beyond its last partner.
    """
    if timestamp == MAX_TIMESTAMP:
        return timestamp
    return max(MIN_TIMESTAMP, timestamp - max(-lower, upper, 0) - 1)
