"""Durations, rates, sizes and times as commands and pages show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 24 * 3_600_000


def as_duration(ms: float) -> str:
    """Format a duration (ms): `1.5 s`, `2 min 5 s` or `3 h 20 min`."""
    if ms < 0:
        return f"-{as_duration(-ms)}"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    return f"{minutes} min {int(seconds % 60)} s" if not hours else f"{hours} h {minutes % 60} min"


def as_event_time(lag_ms: float, now_ms: float) -> str:
    """Format how far event time is behind the clock; as the time itself, in UTC, where that is more than a day.

    Then the records are not those of today, so their distance from today tells nothing.
    """
    if is_live(lag_ms):
        return f"{as_duration(lag_ms)} behind"
    moment = _EPOCH + timedelta(milliseconds=now_ms - lag_ms)
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def is_live(lag_ms: float) -> bool:
    """Return whether an event time that is this far behind the clock is that of current records: within a day."""
    return abs(lag_ms) <= _DAY_MS


def as_rate(per_second: float) -> str:
    """Format a number of records per second."""
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
