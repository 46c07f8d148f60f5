"""Dates and times of texts: whole columns of the usual form, others one by one. Source: Flink's TimeFormats."""

from __future__ import annotations

import re
from datetime import date

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

DATE, TIME = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}:[0-9]{2}"
"""Patterns of the usual form."""
_LEAST = len("2024-01-31 23:59:59")
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?(Z?)")
_EPOCH = date(1970, 1, 1).toordinal()


def date_of(text: str) -> int:
    """Return the days since 1970 of `2024-01-31`. Raises ValueError."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"expected a date such as 2024-01-31, got {text!r:.80}")
    return date(*map(int, found.groups())).toordinal() - _EPOCH


def time_of(text: str) -> int:
    """Return the milliseconds of the day of `23:59:59.999`. Raises ValueError."""
    nanos, zone = _nanos_of_day(text, needs_seconds=True)
    if zone:
        raise ValueError(f"expected a time without a zone, got {text!r:.80}")
    return nanos // 1_000_000


def moment_of(text: str, kind: pyarrow.TimestampType, separator: str) -> int:
    """Return a timestamp of `2024-01-31 23:59:59.999` in the type's unit; further digits are cut off.

    With a time zone the text ends with Z. Raises ValueError.
    """
    day, found, time = text.partition(separator)
    nanos, zone = _nanos_of_day(time, needs_seconds=separator == " ") if found else (0, "")
    if not found or bool(zone) != (kind.tz is not None):
        example = f"2024-01-31{separator}23:59:59.999{'Z' if kind.tz is not None else ''}"
        raise ValueError(f"expected a timestamp such as {example}, got {text!r:.80}")
    return (date_of(day) * 86_400_000_000_000 + nanos) // (1_000_000_000 // _PER_SECOND[kind.unit])


def _nanos_of_day(text: str, *, needs_seconds: bool) -> tuple[int, str]:
    found = _TIME.fullmatch(text)
    if found is None or (needs_seconds and found[3] is None):
        raise ValueError(f"expected a time such as 23:59:59.999, got {text!r:.80}")
    hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"there is no time {text!r:.80}")
    fraction = (found[4] or "").ljust(9, "0")
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + int(fraction), found[5]


def moments(texts: pyarrow.StringArray, kind: pyarrow.TimestampType, separator: str) -> pyarrow.Array:
    """Return the timestamps of texts such as `2024-01-31 23:59:59.999`, with no more digits than the type has.

    Raises ValueError, ArrowInvalid too, for other texts.
    """
    if texts.null_count < len(texts):
        starts = numpy.frombuffer(texts.buffers()[1], numpy.int32)[texts.offset :][: len(texts) + 1]
        starts, ends = starts[:-1], starts[1:]
        if texts.null_count:
            is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
            starts, ends = starts[is_valid], ends[is_valid]
        content = numpy.frombuffer(texts.buffers()[2], numpy.uint8)
        # Arrow refuses all but ISO 8601, of which it also reads times without seconds, either separator, and any zone.
        if not (
            (ends - starts >= _LEAST).all()
            and (content[starts + len("2024-01-31")] == ord(separator)).all()
            and (kind.tz is None or (content[ends - 1] == ord("Z")).all())
        ):
            raise ValueError("a text does not have the usual form")
    return texts.cast(kind)


def cast(texts: pyarrow.Array, pattern: str, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the values of texts that all match a pattern. Raises ValueError, ArrowInvalid too, if one does not."""
    is_usual = compute.all(compute.match_substring_regex(texts, f"^{pattern}$")).as_py()
    if not is_usual and texts.null_count < len(texts):
        raise ValueError("a text does not have the usual form")
    if arrow.is_time32(kind):
        moments = compute.binary_join_element_wise("1970-01-01", texts, " ").cast(pyarrow.timestamp(kind.unit))
        return moments.cast(kind)
    return texts.cast(kind)
