"""Convert columns of Arrow to Python values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

_FIRST_DAY, _DAY_BEYOND = -719_162, 2_932_897
"""The days from 1970-01-01 to the bounds of Python's dates: year 1, and year 10,000 (exclusive)."""
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}


def python_values(column: pyarrow.Array) -> list[Any]:
    """Return the values of a column: int, float, str, bytes, bool, Decimal, date, datetime, list, dict, and None.

    Nanoseconds become microseconds, as in Python's times. Raises pyarrow.ArrowInvalid for a time with nanoseconds that
    would be lost, ValueError or OverflowError for a date that Python cannot represent, and UnicodeDecodeError for a
    text that is not UTF-8.
    """
    kind = _in_microseconds(column.type)
    return _plain_values(column if kind == column.type else column.cast(kind))


def _plain_values(column: pyarrow.Array) -> list[Any]:
    """Convert an Arrow array to Python values.

    By NumPy where the result is equal: 20 ns per value instead of 150.
    """
    quick = _quick_reader(column.type)
    if quick is not None:
        return quick(column)
    if len(column) > column.null_count == 0 and are_usual_moments(column):
        # 30 ns per value instead of a microsecond. NumPy would return numbers for dates that Python cannot represent.
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def values_reader(kind: pyarrow.DataType) -> Callable[[pyarrow.Array], list[Any]]:
    """Return `python_values` for columns of one type: its questions about the type cost more than a few values."""
    return _quick_reader(kind) or python_values


def microseconds_reader(kind: pyarrow.DataType) -> Callable[[pyarrow.Array], list[Any]]:
    """Return `values_reader` for rows of SQL: nanoseconds, which Python's times do not have, are cut off."""
    in_microseconds = _in_microseconds(kind)
    read = values_reader(in_microseconds)
    return read if in_microseconds == kind else lambda column: read(column.cast(in_microseconds, safe=False))


def _quick_reader(kind: pyarrow.DataType) -> Callable[[pyarrow.Array], list[Any]] | None:
    if arrow.is_integer(kind) or arrow.is_floating(kind) or arrow.is_boolean(kind):
        return _numbers
    return _texts if arrow.is_string(kind) or arrow.is_large_string(kind) else None


def is_plain(kind: pyarrow.DataType) -> bool:
    """Return whether a column of this type has the same values when it is made again of its `python_values`."""
    return _quick_reader(kind) is not None and not arrow.is_float16(kind)


def _numbers(column: pyarrow.Array) -> list[Any]:
    if column.null_count:
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def _texts(column: pyarrow.Array) -> list[Any]:
    try:
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    except pyarrow.ArrowException:
        # Raises UnicodeDecodeError, which names the byte.
        return column.to_pylist()  # type: ignore[no-any-return]


def are_usual_moments(column: pyarrow.Array) -> bool:
    """Return whether all values are dates, or times without a zone and nanoseconds, that Python can represent."""
    per_day = _moments_per_day(column.type)
    if not per_day:
        return False
    least, most = (scalar.value for scalar in compute.min_max(column).values())
    return least is None or (_FIRST_DAY * per_day <= least and most < _DAY_BEYOND * per_day)


def may_be_beyond_python(column: pyarrow.Array) -> bool:
    """Return whether a column of plain values may have a day or a time before year 1 or after 9999, in any zone."""
    kind = column.type
    if arrow.is_dictionary(kind):
        return may_be_beyond_python(column.dictionary)
    if not (arrow.is_date(kind) or arrow.is_timestamp(kind)):
        return False
    per_day = 1 if arrow.is_date32(kind) else _PER_DAY.get("ms" if arrow.is_date64(kind) else kind.unit)
    least, most = (scalar.value for scalar in compute.min_max(column).values())
    if per_day is None or least is None:
        # Nanoseconds are between the years 1677 and 2262.
        return False
    margin = 1 if arrow.is_timestamp(kind) and kind.tz is not None else 0
    return bool(least < (_FIRST_DAY + margin) * per_day or most >= (_DAY_BEYOND - margin) * per_day)


def _moments_per_day(kind: pyarrow.DataType) -> int:
    """Return the units per day of dates and of timestamps without a zone, up to microseconds; 0 for other types."""
    if kind == pyarrow.date32():
        return 1
    return _PER_DAY.get(kind.unit, 0) if arrow.is_timestamp(kind) and kind.tz is None else 0


def _in_microseconds(stored: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type to which a column is cast before its values are taken: of nanoseconds, pyarrow makes pandas'."""
    if arrow.is_timestamp(stored) and stored.unit == "ns":
        return pyarrow.timestamp("us", stored.tz)
    if arrow.is_time64(stored) and stored.unit == "ns":
        return pyarrow.time64("us")
    if arrow.is_duration(stored) and stored.unit == "ns":
        return pyarrow.duration("us")
    if arrow.is_dictionary(stored):
        values = _in_microseconds(stored.value_type)
        return stored if values == stored.value_type else values
    return replaced_parts(stored, _in_microseconds)


def replaced_parts(
    kind: pyarrow.DataType, replaced: Callable[[pyarrow.DataType], pyarrow.DataType]
) -> pyarrow.DataType:
    """Return a type with the types of its parts replaced."""

    def of(field: pyarrow.Field) -> pyarrow.Field:
        return field.with_type(replaced(field.type))

    if arrow.is_map(kind):
        return pyarrow.map_(of(kind.key_field), of(kind.item_field))
    if arrow.is_struct(kind):
        return pyarrow.struct(list(map(of, kind)))
    if arrow.is_large_list(kind):
        return pyarrow.large_list(of(kind.value_field))
    if arrow.is_fixed_size_list(kind):
        return pyarrow.list_(of(kind.value_field), kind.list_size)
    return pyarrow.list_(of(kind.value_field)) if arrow.is_list(kind) else kind
