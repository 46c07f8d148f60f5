"""Windows of TIMESTAMP_LTZ: they begin and end at local times of the session's zone, named as if these were UTC.

Where clocks are set back, a local time happens twice, and a window that ends there ends at the second one.
Source: Flink's TimeWindowUtil.
"""

from __future__ import annotations

from typing import Any

import numpy

from penstock.table.functions.zones import local_from_utc, utc_from_local

_MILLIS = 1000
_QUARTER_MS = 900_000
"""Clocks are set at multiples of a quarter of an hour."""
_LATEST_MS = 253_402_214_400_000
"""The last day of Python's years. Behind it is the end of time."""
_LONGEST_SHIFT_MS = 4 * _QUARTER_MS


def local_times(times: Any, zone: str | None) -> Any:
    """Return local times of times (ms, an array of int64). No zone: the same."""
    return times if zone is None else local_from_utc(times, _MILLIS, zone)


def times_of_local(local: Any, zone: str | None) -> Any:
    """Return times (ms) of local ones, the earlier one of two."""
    return local if zone is None else utc_from_local(local, _MILLIS, zone)


def timer_of(end: int, zone: str | None) -> int:
    """Return when a window ends (ms) whose end is this local time: the later one of two."""
    if zone is None or end >= _LATEST_MS:
        return end
    first, later = (_utc(one, zone) for one in (end, end + _LONGEST_SHIFT_MS))
    back = later - first - _LONGEST_SHIFT_MS
    # More time passes than clocks show: they are set back in between. The end may happen a second time.
    return first + back if back > 0 and _local(first + back, zone) == end else first


def local_progress(time: int, zone: str | None) -> int:
    """Return the last millisecond of local time of which all windows have ended, if their ends are up to it."""
    if zone is None or abs(time) >= _LATEST_MS:
        return time
    local = _local(time + 1, zone)
    if timer_of(local, zone) <= time + 1:
        return local - 1
    # The clocks will be set back before this: windows that end from where they go to on have not ended.
    start = local // _QUARTER_MS * _QUARTER_MS
    while timer_of(start, zone) > time + 1:
        start -= _QUARTER_MS
    return start + _QUARTER_MS - 2


def _utc(local: int, zone: str) -> int:
    return int(utc_from_local(numpy.array([local], numpy.int64), _MILLIS, zone)[0])


def _local(time: int, zone: str) -> int:
    return int(local_from_utc(numpy.array([time], numpy.int64), _MILLIS, zone)[0])
