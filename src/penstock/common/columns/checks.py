"""Refuse values that Arrow would change silently: 1.5 to 1, 1e39 to infinity, or cut their microseconds."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow
from pyarrow import types as arrow

from penstock.common.types.floats import are_singles, within_half, within_single
from penstock.common.types.whole_numbers import whole_number

Check = Callable[[Any], Any]
"""Returns the value, or None, as Arrow needs it. Raises TypeError or ValueError."""
_WHOLE = {int, type(None)}
_MOMENTS = {int, datetime.datetime, type(None)}
"""Types of values that need no check in columns of microseconds, the usual ones: Python's datetimes fit."""
_LISTS = (
    arrow.is_list, arrow.is_large_list, arrow.is_fixed_size_list, arrow.is_list_view, arrow.is_large_list_view,
)  # fmt: skip
_NANOSECONDS_OF = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def column_check(kind: pyarrow.DataType) -> Check | None:
    """Return the check of a column's values, or None if Arrow itself refuses what does not fit."""
    if arrow.is_integer(kind):
        return _whole
    if arrow.is_float32(kind):
        return within_single
    if arrow.is_float16(kind):
        return within_half
    if arrow.is_date(kind):
        return _day
    if arrow.is_time(kind):
        return partial(_time, kind.unit)
    if arrow.is_timestamp(kind):
        return partial(_moment, kind.unit)
    if arrow.is_duration(kind):
        return partial(_duration, kind.unit)
    if arrow.is_dictionary(kind) or arrow.is_run_end_encoded(kind):
        return column_check(kind.value_type)
    if any(is_list(kind) for is_list in _LISTS):
        of_item = column_check(kind.value_type)
        return _refuse_text if of_item is None else partial(_items, of_item)
    if arrow.is_map(kind):
        of_key, of_item = column_check(kind.key_type), column_check(kind.item_type)
        return partial(_entries, of_key or _same, of_item or _same) if of_key or of_item else None
    if arrow.is_struct(kind):
        parts = {field.name: of_field for field in kind if (of_field := column_check(field.type)) is not None}
        return partial(_parts, parts) if parts else None
    return None


def need_no_check(check: Check, values: Sequence[Any]) -> bool:
    """Return whether all values pass without a check of each, which takes several times longer."""
    if check is within_single:
        return are_singles(values)
    kinds = set(map(type, values))
    return kinds <= _WHOLE or (kinds <= _MOMENTS and isinstance(check, partial) and check.args == ("us",))


def checked_array(values: Sequence[Any], kind: pyarrow.DataType, check: Check | None) -> pyarrow.Array:
    """Convert Python values to a column. Raises what the check, or Arrow, raises. `check`: `column_check(kind)`."""
    if check is not None and not need_no_check(check, values):
        values = list(map(check, values))
    return pyarrow.array(values, kind)


def _whole(value: Any) -> Any:
    # Arrow refuses a bool.
    return value if value is None or type(value) is bool else whole_number(value)


def _day(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r:.200} is not a date, but has a time of day")
    return _whole_units(value)


def _time(unit: str, value: Any) -> Any:
    if not isinstance(value, datetime.time):
        return _whole_units(value)
    if value.tzinfo is not None:
        raise ValueError(f"{value!r:.200} has a zone, expected a time of day without a zone")
    return _exact_in_unit(unit, value.microsecond * 1_000, value)


def _moment(unit: str, value: Any) -> Any:
    if not isinstance(value, datetime.datetime):
        # Arrow refuses numpy's datetimes in units other than its own.
        return value if type(value).__name__ == "datetime64" else _whole_units(value)
    if value != value:
        # Not equal to itself: NaT, by which pandas represents a missing value.
        return None
    return _exact_in_unit(unit, value.microsecond * 1_000 + getattr(value, "nanosecond", 0), value)


def _duration(unit: str, value: Any) -> Any:
    if not isinstance(value, datetime.timedelta):
        return value if type(value).__name__ == "timedelta64" else _whole_units(value)
    if value != value:
        return None
    return _exact_in_unit(unit, value.microseconds * 1_000 + getattr(value, "nanoseconds", 0), value)


def _exact_in_unit(unit: str, nanoseconds: int, value: Any) -> Any:
    """`nanoseconds`: the part below one second."""
    if nanoseconds % _NANOSECONDS_OF[unit]:
        raise ValueError(f"{value!r:.200} is finer than the column's {unit}: round it, or declare a finer unit")
    return value


def _whole_units(value: Any) -> Any:
    """Return a whole number of units. Refuse numpy's times: Arrow would read them in any unit."""
    if value is None or type(value) is int:
        return value
    if type(value).__name__ in ("datetime64", "timedelta64"):
        raise ValueError(f"{value!r:.200} is a value of numpy with a unit of its own: convert it to one of Python's")
    return whole_number(value) if hasattr(value, "__float__") else value


def _same(value: Any) -> Any:
    return value


def _refuse_text(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"{value!r:.200} is not a list")
    return value


def _items(of_item: Check, value: Any) -> Any:
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__iter__"):
        return _refuse_text(value)
    return [of_item(item) for item in value]


def _entries(of_key: Check, of_item: Check, value: Any) -> Any:
    entries = value.items() if isinstance(value, dict) else value
    return None if value is None else [(of_key(key), of_item(item)) for key, item in entries]


def _parts(parts: dict[str, Check], value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return value | {name: of_field(value[name]) for name, of_field in parts.items() if name in value}
