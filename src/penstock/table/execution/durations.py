"""Durations as Java writes them in plans: ISO 8601, such as PT1M30S."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?")


def milliseconds(duration: str | None) -> int:
    """Return a duration in milliseconds; 0 for None. Raises ValueError for another text."""
    if duration is None:
        return 0
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"expected a duration such as PT10S, got {duration!r}")
    sign, days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000
    total += round(float(seconds or 0) * 1000)
    return -total if sign else total
