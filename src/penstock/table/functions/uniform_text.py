"""Read a column of timestamps whose texts all have the same length and layout: `yyyy-MM-dd[ HH:mm:ss[.fraction]]`.

Digits become numbers in numpy, for all rows at once. Columns with any other text are left to the slower reading.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from penstock.table.functions import calendar
from penstock.table.functions.datetime_text import DAY_S, PER_SECOND

_SEPARATORS = {4: "-", 7: "-", 10: " ", 13: ":", 16: ":", 19: "."}
_LONGEST = 29
_NANOSECOND_YEARS = (1678, 2261)
"""The years of which all times are int64 in nanoseconds."""


def read_timestamps(column: Any, unit: str, precision: int) -> Any | None:
    """Return the timestamps as int64 of a unit, cut to digits of a second; or None if the texts are not uniform."""
    if not len(column) or column.null_count:
        return None
    lengths = pc.min_max(pc.binary_length(column))
    length = lengths["min"].as_py()
    if length != lengths["max"].as_py() or length not in (10, 19, *range(21, _LONGEST + 1)):
        return None
    texts = _characters(column, length)
    digits = texts - ord("0")
    for at in range(length):
        expected = _SEPARATORS.get(at)
        fits = digits[:, at] < 10 if expected is None else texts[:, at] == ord(expected)
        if not fits.all():
            return None
    return _numbers(digits, length, unit, precision)


def _characters(column: Any, length: int) -> Any:
    """Return the bytes of the texts, a row each."""
    _, offsets, data = column.buffers()
    start = int(np.frombuffer(offsets, np.int32, 1, column.offset * 4)[0])
    return np.frombuffer(data, np.uint8, len(column) * length, start).reshape(-1, length)


def _number(digits: Any, start: int, end: int) -> Any:
    result = digits[:, start].astype(np.int64)
    for at in range(start + 1, end):
        result = result * 10 + digits[:, at]
    return result


def _numbers(digits: Any, length: int, unit: str, precision: int) -> Any | None:
    year, month, day = (_number(digits, *part) for part in ((0, 4), (5, 7), (8, 10)))
    if not ((month >= 1) & (month <= 12) & (day >= 1)).all():
        return None
    if unit == "ns" and not ((year >= _NANOSECOND_YEARS[0]) & (year <= _NANOSECOND_YEARS[1])).all():
        return None
    months = (year - 1970) * 12 + month - 1
    if not (day <= calendar.days_in_month(months)).all():
        return None
    seconds = (calendar.first_day(months) + day - 1) * DAY_S
    if length > 10:
        hour, minute, second = (_number(digits, *part) for part in ((11, 13), (14, 16), (17, 19)))
        if not ((hour <= 23) & (minute <= 59) & (second <= 59)).all():
            return None
        seconds += (hour * 60 + minute) * 60 + second
    result = seconds * PER_SECOND[unit]
    kept = min(max(length - 20, 0), precision)
    if kept:
        result += _number(digits, 20, 20 + kept) * (PER_SECOND[unit] // 10**kept)
    return result
