"""Time zones by Java's names, and conversions between local time and UTC.

A local time that a change of offset skips is moved forward by the gap; one that happens twice is the earlier one: the
rules of `java.time.LocalDateTime.atZone`, and those of Python's `fold=0`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from penstock.table.functions.errors import FunctionError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_STEP_S = 900
"""All offsets of the present and all their changes are multiples of a quarter of an hour of local time."""
_EPOCH = datetime(1970, 1, 1)
_YEARS_S = (-62135596800 + 86400, 253402300800 - 86400)
"""Python's dates, less a day. Before and after, the offset is that at the limit."""


@cache
def zone_of(name: str) -> tzinfo:
    """Return the zone with Java's name. Raises FunctionError with Java's message."""
    if name in ("UTC", "Z", "GMT", "UT"):
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset > timedelta(hours=18):
            raise FunctionError("Zone offset not in valid range: -18:00 to +18:00")
        return timezone(offset if sign == "+" else -offset)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9~/._+-]+", name):
        raise FunctionError(f"Invalid ID for region-based ZoneId, invalid format: {name}")
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise FunctionError(f"Unknown time-zone ID: {name}") from None


def local_from_utc(values: Any, per_second: int, zone: str) -> Any:
    """Return local times from UTC: int64 arrays in units of which `per_second` make a second."""
    return values + _offsets(values // per_second, zone, local=False) * per_second


def utc_from_local(values: Any, per_second: int, zone: str) -> Any:
    """Return times in UTC from local ones."""
    return values - _offsets(values // per_second, zone, local=True) * per_second


def _offsets(seconds: Any, zone: str, *, local: bool) -> Any:
    """Return the offset from UTC at each time, in seconds."""
    info = zone_of(zone)
    if isinstance(info, timezone):
        return np.int64(_seconds(info.utcoffset(None)))
    steps, index = np.unique(seconds // _STEP_S, return_inverse=True)
    low, high = _YEARS_S
    offsets = [_offset_at(info, min(max(step * _STEP_S, low), high), local) for step in steps.tolist()]
    return np.array(offsets, np.int64)[index]


def _offset_at(info: tzinfo, second: int, local: bool) -> int:
    time = _EPOCH + timedelta(seconds=second)
    if local:
        return _seconds(info.utcoffset(time))
    return _seconds(time.replace(tzinfo=UTC).astimezone(info).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    return 0 if offset is None else round(offset.total_seconds())
