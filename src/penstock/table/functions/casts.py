"""CAST, TRY_CAST and REINTERPRET. Source: Flink docs, "Casting"; its rules below `functions.casting`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.arrow_types import arrow_type, unit_of
from penstock.table.functions.calendar import toward_zero
from penstock.table.functions.cast_numbers import to_boolean, to_number
from penstock.table.functions.cast_rules import check_cast
from penstock.table.functions.cast_text import temporal_of_text, to_text
from penstock.table.functions.columns import Column, all_null, is_constant, per_distinct
from penstock.table.functions.datetime_text import PER_SECOND, in_units
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.java_text import MILLIS_PER_DAY
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.zones import local_from_utc, utc_from_local
from penstock.table.logical_types import (
    BINARY_STRING,
    CHARACTER_STRING,
    INTERVALS,
    MAX_LENGTH,
    NUMERIC,
    ROWS,
    TIMESTAMPS,
    LogicalType,
)

FAMILY = Family()


def cast(column: Column, source: LogicalType, target: LogicalType, zone: str = "UTC") -> Column:
    """Return the column as values of another type.

    Raises InvalidCallError if there is no such cast, FunctionError if a value cannot be converted.
    """
    if source == target:
        # Most branches of CASE are of its type, and a small chunk costs what is checked for it.
        return column
    check_cast(source, target)
    return _cast(column, source, target, zone)


def _cast(column: Column, source: LogicalType, target: LogicalType, zone: str) -> Column:
    goal = arrow_type(target)
    if source.root == "NULL":
        return all_null([column], goal)
    if source.with_nullability(True) == target.with_nullability(True):
        return column
    if target.root in CHARACTER_STRING:
        return to_text(column, source, target, zone)
    if target.root in NUMERIC:
        return to_number(column, source, target)
    if target.root == "BOOLEAN":
        return to_boolean(column, source)
    if target.root in BINARY_STRING:
        return _to_binary(column, source, target)
    if source.children:
        return _cast_nested(column, source, target, zone)
    if target.root in INTERVALS:
        return to_number(column, source, LogicalType("BIGINT")).cast(goal, safe=False)
    if source.root in CHARACTER_STRING:
        return temporal_of_text(column, target, zone)
    return _temporal_of_temporal(column, source, target, zone)


def _to_binary(column: Column, source: LogicalType, target: LogicalType) -> Column:
    if source.root == "BITMAP":
        return column
    if source.root in CHARACTER_STRING:
        column = column.cast(pa.binary())
    if target.length == MAX_LENGTH:
        return column
    length = target.length

    def fitted(value: bytes) -> bytes:
        return value[:length].ljust(length, b"\0") if target.root == "BINARY" else value[:length]

    return per_distinct(fitted, [column], pa.binary())


def _temporal_of_temporal(column: Column, source: LogicalType, target: LogicalType, zone: str) -> Column:
    if is_constant(column):
        return _temporal_of_temporal(pa.array([column.as_py()], column.type), source, target, zone)[0]
    mask = column.is_null().to_numpy(zero_copy_only=False)
    values = column.cast(pa.int32() if source.root in ("DATE", "TIME") else pa.int64()).fill_null(0)
    result = rescaled(values.to_numpy().astype(np.int64), source, target, zone)
    integers = pa.array(result.astype(np.int32 if target.root in ("DATE", "TIME") else np.int64), mask=mask)
    return integers.cast(arrow_type(target))


def rescaled(values: Any, source: LogicalType, target: LogicalType, zone: str) -> Any:
    """Convert int64 dates, times or timestamps of one type to another; digits of a second are cut off."""
    per_second = PER_SECOND[unit_of(source.precision)]
    if source.root == "TIME":
        values, per_second = values, 1000
    elif source.root == "DATE":
        values, per_second = values * 86_400, 1
    if source.root == "TIMESTAMP_LTZ" and target.root != "TIMESTAMP_LTZ":
        values = local_from_utc(values, per_second, zone)
    if target.root == "DATE":
        return (
            toward_zero(values, per_second * 86_400) if source.root == "TIMESTAMP" else values // (per_second * 86_400)
        )
    if target.root == "TIME":
        step = 10 ** max(3 - target.precision, 0)
        return _in_units(values, per_second, 1000) % MILLIS_PER_DAY // step * step
    goal = PER_SECOND[unit_of(target.precision)]
    if source.root != "TIMESTAMP_LTZ" and target.root == "TIMESTAMP_LTZ":
        values = utc_from_local(values, per_second, zone)
    step = goal // 10**target.precision
    units = _in_units(values, per_second, goal)
    if target.precision < 3:  # Flink divides milliseconds as Java does
        return toward_zero(units, step) * step
    return units // step * step


def _in_units(values: Any, per_second: int, goal: int) -> Any:
    return in_units(values, goal // per_second) if goal >= per_second else values // (per_second // goal)


def _cast_nested(column: Column, source: LogicalType, target: LogicalType, zone: str) -> Column:
    if is_constant(column):
        return _cast_nested(pa.array([column.as_py()], column.type), source, target, zone)[0]
    mask = column.is_null()
    if source.root in ROWS:
        children = [
            _cast(child, one, other, zone)
            for child, one, other in zip(column.flatten(), source.children, target.children, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(target)), mask=mask)
    if column.offset:
        column = pa.concat_arrays([column])
    if source.root == "ARRAY":
        values = _cast(column.values, source.children[0], target.children[0], zone)
        return pa.ListArray.from_arrays(column.offsets, values, type=arrow_type(target), mask=mask)
    keys = _cast(column.keys, source.children[0], target.children[0], zone)
    items = column.items if source.root == "MULTISET" else _cast(
        column.items, source.children[1], target.children[1], zone
    )  # fmt: skip
    return pa.MapArray.from_arrays(column.offsets, keys, items, type=arrow_type(target), mask=mask)


def try_cast(column: Column, source: LogicalType, target: LogicalType, zone: str = "UTC") -> Column:
    """Return the column as values of another type, NULL where a value cannot be converted."""
    check_cast(source, target)
    try:
        return _cast(column, source, target, zone)
    except FunctionError:
        if is_constant(column):
            return pa.scalar(None, arrow_type(target))
        encoded = column if source.children else pc.dictionary_encode(column)
        distinct = column if source.children else encoded.dictionary
        results = pa.array([_or_null(value, source, target, zone) for value in distinct], arrow_type(target))
        return results if source.children else results.take(encoded.indices)


def _or_null(value: Any, source: LogicalType, target: LogicalType, zone: str) -> Any:
    try:
        return _cast(value, source, target, zone).as_py()
    except FunctionError:
        return None


def _never_inferred(arguments: Arguments) -> LogicalType:
    raise ValueError("CAST needs the type of its result")


@FAMILY.kernel("CAST", signatures=["<ANY>"], result=_never_inferred)
def _cast_kernel(call: Call) -> Column:
    return cast(call.columns[0], call.types[0], call.result, call.context.zone)


@FAMILY.kernel("TRY_CAST", signatures=["<ANY>"], result=_never_inferred)
def _try_cast_kernel(call: Call) -> Column:
    return try_cast(call.columns[0], call.types[0], call.result, call.context.zone)


@FAMILY.kernel("REINTERPRET", signatures=["<ANY>"], result=_never_inferred)
def _reinterpret(call: Call) -> Column:
    """The planner's: the same value by another name, as an interval that is a number of milliseconds."""
    goal = call.arrow_type
    column = call.columns[0]
    if call.types[0].root in TIMESTAMPS and call.result.root in TIMESTAMPS:
        return cast(column, call.types[0], call.result, "UTC")
    return column.cast(pa.int64()).cast(goal)
