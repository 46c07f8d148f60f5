"""What refuses a value that Arrow would write as another: 1.5 as 1, 1e39 as infinity, microseconds as none."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow
from pyarrow import types as arrow

from penstock.common.floats import are_singles, within_half, within_single
from penstock.common.whole_numbers import whole_number

Check = Callable[[Any], Any]
"""From a value, or None, to that value, as Arrow takes it. Raises TypeError or ValueError."""
_WHOLE = {int, type(None)}
_NANOSECONDS_OF = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def column_check(kind: pyarrow.DataType) -> Check | None:
    """Of one value of a column; None: Arrow refuses by itself what it can't hold."""
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
        # Microseconds are what Python's datetimes have: almost all columns are of these, and pay for no check.
        return partial(_moment, kind.unit) if kind.unit in ("s", "ms") else None
    if arrow.is_duration(kind):
        return partial(_duration, kind.unit) if kind.unit in ("s", "ms") else None
    if arrow.is_dictionary(kind):
        return column_check(kind.value_type)
    if arrow.is_list(kind) or arrow.is_large_list(kind) or arrow.is_fixed_size_list(kind):
        of_item = column_check(kind.value_type)
        return _no_text if of_item is None else partial(_items, of_item)
    if arrow.is_map(kind):
        of_key, of_item = column_check(kind.key_type), column_check(kind.item_type)
        return partial(_entries, of_key or _same, of_item or _same) if of_key or of_item else None
    if arrow.is_struct(kind):
        parts = {field.name: of_field for field in kind if (of_field := column_check(field.type)) is not None}
        return partial(_parts, parts) if parts else None
    return None


def are_sure(check: Check, values: Sequence[Any]) -> bool:
    """Whether none needs a look of its own, which costs some times more."""
    return are_singles(values) if check is within_single else _WHOLE.issuperset(map(type, values))


def _whole(value: Any) -> Any:
    # A bool is refused by Arrow.
    return value if value is None or type(value) is bool else whole_number(value)


def _day(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r:.200} is no date: its time of day would be lost")
    return value


def _time(unit: str, value: Any) -> Any:
    if isinstance(value, datetime.time):
        if value.tzinfo is not None:
            raise ValueError(f"{value!r:.200} has a zone, and a column of times has none")
        _check_unit(unit, value.microsecond * 1_000, value)
    return value


def _moment(unit: str, value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        _check_unit(unit, value.microsecond * 1_000, value)
    return value


def _duration(unit: str, value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        _check_unit(unit, value.microseconds * 1_000, value)
    return value


def _check_unit(unit: str, nanoseconds: int, value: Any) -> None:
    """`nanoseconds`: those beside whole seconds."""
    if nanoseconds % _NANOSECONDS_OF[unit]:
        raise ValueError(f"{value!r:.200} is finer than the column, which has {unit}: round it, or have a finer one")


def _same(value: Any) -> Any:
    return value


def _no_text(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"{value!r:.200} is no list: it would be written letter by letter")
    return value


def _items(of_item: Check, value: Any) -> Any:
    return list(map(of_item, value)) if isinstance(value, (list, tuple)) else _no_text(value)


def _entries(of_key: Check, of_item: Check, value: Any) -> Any:
    entries = value.items() if isinstance(value, dict) else value
    return None if value is None else [(of_key(key), of_item(item)) for key, item in entries]


def _parts(parts: dict[str, Check], value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return value | {name: of_field(value[name]) for name, of_field in parts.items() if name in value}
