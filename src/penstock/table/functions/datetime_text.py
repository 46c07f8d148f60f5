"""Dates and times as SQL writes them, and back. Source: Flink's `DateTimeUtils`.

Dates are days since the epoch, times of the day milliseconds, timestamps a number of units since the epoch.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np

from penstock.table.functions.errors import FunctionError
from penstock.table.functions.java_text import clock_text

PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGITS = {"ms": 3, "us": 6, "ns": 9}
MAX_UNITS = 2**63 - 1
"""The last time that a column has, in its unit."""
BEYOND_NANOSECONDS = "does not fit TIMESTAMP(7) to (9): they have the years 1678 to 2261, others 0001 to 9999"
DAY_S = 86_400
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS = 146_097


def in_units(values: Any, factor: int) -> Any:
    """Return times (int64) in a unit that is `factor` times smaller. Raises FunctionError if they do not fit."""
    if np.any(np.abs(values) > MAX_UNITS // factor):
        raise FunctionError(f"a time {BEYOND_NANOSECONDS}")
    return values * factor


def days_of(year: int, month: int, day: int) -> int | None:
    """Return the days since the epoch of a date of the proleptic Gregorian calendar, or None if there is none."""
    if not 0 <= year <= 9999:
        return None
    try:
        # Python's dates begin with the year 1. The year 400 has the calendar of the year 0.
        return date(year or 400, month, day).toordinal() - _EPOCH_ORDINAL - (0 if year else _DAYS_OF_400_YEARS)
    except ValueError:
        return None


def days_within(year: int, month: int, day: int) -> int | None:
    """Return the days since the epoch of a date; the 30th of February is its last day, the 32nd does not exist."""
    for last in (day, 30, 29, 28) if day <= 31 else ():
        if last <= day and (days := days_of(year, month, last)) is not None:
            return days
    return None


def date_text(days: int) -> str:
    """Return a date as `yyyy-MM-dd`."""
    return str(np.datetime64(days, "D"))


def time_text(millis: int, precision: int) -> str:
    """Return a time of the day, with at most `precision` digits of a second and without trailing zeros."""
    fraction = f"{millis % 1000:03d}"[:precision].rstrip("0")
    return clock_text(millis) + (f".{fraction}" if fraction else "")


def timestamp_text(value: int, unit: str, precision: int) -> str:
    """Return a timestamp as `yyyy-MM-dd HH:mm:ss`, and exactly `precision` digits of a second."""
    seconds, rest = divmod(value, PER_SECOND[unit])
    days, second = divmod(seconds, DAY_S)
    text = f"{date_text(days)} {clock_text(second * 1000)}"
    fraction = str(rest).rjust(_DIGITS[unit], "0").ljust(precision, "0")[:precision]
    return f"{text}.{fraction}" if precision else text


_NUMBER = re.compile(r"\d+")


def parse_date(text: str) -> int | None:
    """Read a date: `2021-09-27`, `2021-9`, `2021`; a time after a space is ignored. Return None for other text."""
    if text.find(" ") > 0:
        text = text.partition(" ")[0]
    parts = [part.strip() for part in text.split("-", 2)]
    if not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    year, month, day = [int(part) for part in parts] + [1] * (3 - len(parts))
    return days_of(year, month, day)


_TIME = re.compile(r"\s*(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*")


def parse_time(text: str) -> int | None:
    """Read a time of the day: `12:34:56.789`, `12:34`, `12`. Return milliseconds, rounded half up, or None."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = (match[4] or "").ljust(4, "0")
    millis = int(fraction[:3]) + (fraction[3] >= "5")
    return ((hour * 60 + minute) * 60 + second) * 1000 + millis


_TIMESTAMP = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?)?")


def parse_timestamp(text: str, unit: str, precision: int) -> int | None:
    """Read `yyyy-MM-dd[ HH:mm:ss[.fraction]]`, cut to `precision` digits of a second. Return units, or None."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    days = days_within(int(match[1]), int(match[2]), int(match[3]))
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = (match[7] or "")[:precision].ljust(_DIGITS[unit], "0")[: _DIGITS[unit]]
    seconds = days * DAY_S + (hour * 60 + minute) * 60 + second
    return seconds * PER_SECOND[unit] + int(fraction)
