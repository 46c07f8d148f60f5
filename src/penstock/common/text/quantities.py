"""Durations, rates, sizes and moments as commands and pages write them."""

from __future__ import annotations

from datetime import datetime


def as_duration(ms: float) -> str:
    """Format a length of time, to a tenth of a second, or to minutes and seconds, or hours and minutes."""
    if ms < 0:
        return f"-{as_duration(-ms)}"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{minutes} min {int(seconds % 60)} s" if not hours else f"{hours} h {minutes % 60} min"


def as_rate(per_second: float) -> str:
    """Format a number of records a second."""
    return f"{per_second:,.0f}/s"


def as_moment(timestamp_ms: int) -> str:
    """Format a timestamp (ms since the epoch) in the local time zone."""
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def as_size(count: float) -> str:
    """Format a size in bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError
