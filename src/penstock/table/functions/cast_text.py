"""Casts to CHAR and VARCHAR, and from text to dates and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions import bitmap_values, datetime_text, java_text
from penstock.table.functions.arrow_types import arrow_type, unit_of
from penstock.table.functions.columns import Column, is_constant, per_distinct, per_row
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.uniform_text import read_timestamps
from penstock.table.functions.zones import local_from_utc, utc_from_local
from penstock.table.logical_types import (
    BINARY_STRING,
    CHARACTER_STRING,
    INTEGER_NUMERIC,
    MAX_LENGTH,
    TIMESTAMPS,
    LogicalType,
)


def to_text(column: Column, source: LogicalType, target: LogicalType, zone: str) -> Column:
    """Cast to text: cut to its length, and padded if it is CHAR."""
    text = text_of(column, source, zone)
    fits = source.root in CHARACTER_STRING and source.length <= target.length
    if target.length != MAX_LENGTH and not fits:
        text = pc.utf8_slice_codeunits(text, 0, target.length)
    if target.root == "CHAR" and source != target:
        text = pc.utf8_rpad(text, target.length, " ")
    return text


def text_of(column: Column, source: LogicalType, zone: str) -> Column:
    """Return values as text, as CAST does."""
    if source.root in CHARACTER_STRING:
        return column
    if source.root == "NULL" or source.root in INTEGER_NUMERIC:
        return column.cast(pa.string())
    if source.root in BINARY_STRING:
        return per_distinct(lambda value: value.decode(errors="replace"), [column], pa.string())
    if source.root == "BOOLEAN":
        return pc.if_else(column, "TRUE", "FALSE")
    if source.root in TIMESTAMPS and not is_constant(column):
        return _timestamps_text(column, source, zone)
    if source.children:
        write = writer_of(source, zone)
        return per_row(write, [raw(column, source)], pa.string())
    return per_distinct(writer_of(source, zone), [raw(column, source)], pa.string())


def _timestamps_text(column: Any, source: LogicalType, zone: str) -> Any:
    """Arrow writes all digits of its unit: cut off what the type does not have."""
    unit, precision = unit_of(source.precision), source.precision
    if source.root == "TIMESTAMP_LTZ":
        local = shifted(column.cast(pa.int64()), datetime_text.PER_SECOND[unit], zone, local_from_utc)
        column = local.cast(pa.timestamp(unit))
    text = column.cast(pa.string())
    if 10**precision == datetime_text.PER_SECOND[unit]:
        return text
    return pc.utf8_slice_codeunits(text, 0, 19 + (precision + 1 if precision else 0))


def raw(column: Column, source: LogicalType) -> Column:
    """Return the column with dates and times, also nested ones, as the integers that Arrow holds."""
    return column.cast(_raw_type(arrow_type(source), source))


def _raw_type(kind: Any, source: LogicalType) -> Any:
    if source.root in ("DATE", "TIME"):
        return pa.int32()
    if source.root in TIMESTAMPS or source.root == "INTERVAL_SECOND":
        return pa.int64()
    children = [_raw_type(arrow_type(child), child) for child in source.children]
    if source.root == "ARRAY":
        return pa.list_(children[0])
    if source.root == "MAP":
        return pa.map_(children[0], children[1])
    if source.root in ("ROW", "STRUCTURED"):
        return pa.struct(list(zip(source.names, children, strict=True)))
    return kind


def writer_of(source: LogicalType, zone: str) -> Callable[[Any], str]:
    """Return the function that writes a value of this type, with dates and times as integers."""
    unit, precision = unit_of(source.precision), source.precision
    if source.root == "TIMESTAMP_LTZ":
        per_second = datetime_text.PER_SECOND[unit]
        return lambda value: datetime_text.timestamp_text(
            int(local_from_utc(np.array([value]), per_second, zone)[0]), unit, precision
        )
    writers: dict[str, Callable[[Any], str]] = {
        "BOOLEAN": lambda value: "TRUE" if value else "FALSE",
        "DECIMAL": java_text.decimal_text,
        "FLOAT": java_text.float_text,
        "DOUBLE": java_text.double_text,
        "DATE": datetime_text.date_text,
        "TIME": lambda value: datetime_text.time_text(value, precision),
        "TIMESTAMP": lambda value: datetime_text.timestamp_text(value, unit, precision),
        "INTERVAL_MONTH": java_text.months_text,
        "INTERVAL_SECOND": java_text.millis_text,
        "BINARY": lambda value: value.decode(errors="replace"),
        "VARBINARY": lambda value: value.decode(errors="replace"),
        "BITMAP": lambda value: bitmap_values.text_of(bitmap_values.decoded(value)),
    }
    if source.children:
        return _nested_writer(source, [_or_null(writer_of(child, zone)) for child in source.children])
    return writers.get(source.root, str)


def _or_null(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "NULL" if value is None else write(value)


def _nested_writer(source: LogicalType, writers: list[Callable[[Any], str]]) -> Callable[[Any], str]:
    if source.root == "ARRAY":
        return lambda values: f"[{', '.join(map(writers[0], values))}]"
    if source.root == "MAP":
        return lambda pairs: "{" + ", ".join(f"{writers[0](key)}={writers[1](value)}" for key, value in pairs) + "}"
    if source.root == "MULTISET":
        return lambda pairs: "{" + ", ".join(f"{writers[0](key)}={count}" for key, count in pairs) + "}"
    fields = list(zip(source.names, writers, strict=True))
    if source.root == "ROW":
        return lambda row: f"({', '.join(write(row[name]) for name, write in fields)})"
    return lambda row: f"({', '.join(f'{name}={write(row[name])}' for name, write in fields)})"


def temporal_of_text(column: Column, target: LogicalType, zone: str) -> Column:
    """Cast text to DATE, TIME, TIMESTAMP or TIMESTAMP_LTZ."""
    unit, precision = unit_of(target.precision), target.precision
    parsers: dict[str, Callable[[str], int | None]] = {
        "DATE": datetime_text.parse_date,
        "TIME": datetime_text.parse_time,
        "TIMESTAMP": lambda text: datetime_text.parse_timestamp(text, unit, precision),
        "TIMESTAMP_LTZ": lambda text: datetime_text.parse_timestamp(text, unit, precision),
    }
    parse = parsers[target.root]

    def checked(text: str) -> int:
        value = parse(text)
        if value is None:
            raise FunctionError(f"Cannot parse '{text}' as {target.summary}.")
        if abs(value) > datetime_text.MAX_UNITS:
            raise FunctionError(f"{text!r} {datetime_text.BEYOND_NANOSECONDS}.")
        if target.root == "TIME":
            value -= value % 10 ** max(3 - precision, 0)
        return int(value)

    if target.root in TIMESTAMPS and (fast := _uniform(column, unit, precision)) is not None:
        integers = fast
    else:
        integers = per_distinct(checked, [column], pa.int32() if target.root in ("DATE", "TIME") else pa.int64())
    if target.root == "TIMESTAMP_LTZ":
        integers = shifted(integers, datetime_text.PER_SECOND[unit], zone, utc_from_local)
    return integers.cast(arrow_type(target))


def _uniform(column: Column, unit: str, precision: int) -> Column | None:
    values = None if is_constant(column) else read_timestamps(column, unit, precision)
    return None if values is None else pa.array(values)


def shifted(integers: Column, per_second: int, zone: str, conversion: Callable[[Any, int, str], Any]) -> Column:
    """Convert a column of int64 times between local time and UTC."""
    if is_constant(integers):
        return shifted(pa.array([integers.as_py()], pa.int64()), per_second, zone, conversion)[0]
    values = conversion(integers.fill_null(0).to_numpy(), per_second, zone)
    return pa.array(values, mask=integers.is_null().to_numpy(zero_copy_only=False))
