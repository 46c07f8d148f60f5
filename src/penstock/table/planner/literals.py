"""Literals of plans as Arrow scalars, and sets of values as tests of columns."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.calls import call
from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, is_constant
from penstock.table.logical_types import (
    APPROXIMATE_NUMERIC,
    BINARY_STRING,
    BOOLEAN,
    DATETIME,
    INTERVALS,
    STRING,
    LogicalType,
)
from penstock.table.planner.rex_nodes import JsonValue, RexLiteral, Sarg, SargBound, SargRange


def literal_value(literal: RexLiteral) -> Column:
    """Return the value as a scalar of its type."""
    return scalar(literal.value, literal.type.logical)


def scalar(value: JsonValue, logical: LogicalType) -> Column:
    """Return what JSON has for a value of this type, as an Arrow scalar."""
    if value is None:
        return pa.scalar(None) if logical.root == "NULL" else pa.scalar(None, arrow_type(logical))
    if logical.root == "SYMBOL":
        return pa.scalar(str(value))
    if logical.root in DATETIME:
        return cast(pa.scalar(str(value)), STRING, logical)
    return pa.scalar(_python_value(value, logical), arrow_type(logical))


def _python_value(value: bool | int | float | str, logical: LogicalType) -> Any:
    if logical.root == "DECIMAL":
        return Decimal(str(value))
    if logical.root in APPROXIMATE_NUMERIC:
        return float(value)
    if logical.root in INTERVALS:
        return int(value)
    if logical.root in BINARY_STRING:
        return base64.b64decode(str(value))
    return value


def search(sarg: Sarg, values: LogicalType, operand: LogicalType) -> Callable[[Column], Column]:
    """Return the test whether a value of the type `operand` is in the set, whose values have the type `values`."""
    points = [scalar(one.lower.value, values) for one in sarg.ranges if one.lower is not None and _is_point(one)]
    ranges = [one for one in sarg.ranges if not _is_point(one)]
    tests: list[Callable[[Column], Column]] = [_range_test(one, values, operand) for one in ranges]
    if points:
        tests.append(_points_test(points, values, operand))

    def test(column: Column) -> Column:
        found = reduce(pc.or_kleene, [one(column) for one in tests])
        # Flink's set says itself what NULL gives.
        if sarg.null_as in ("TRUE", "FALSE"):
            found = pc.if_else(pc.is_null(column), sarg.null_as == "TRUE", found)
        return found

    return test


def _is_point(one: SargRange) -> bool:
    return one.lower is not None and one.lower == one.upper and one.lower.bound_type == "CLOSED"


def _points_test(points: list[Any], values: LogicalType, operand: LogicalType) -> Callable[[Column], Column]:
    def equals(column: Column) -> Column:
        return reduce(pc.or_kleene, [_compare("=", (column, operand), (point, values)) for point in points])

    same = pa.array([point.as_py() for point in points], points[0].type)

    def contained(column: Column) -> Column:
        if is_constant(column) or column.type != same.type:
            return equals(column)
        return pc.if_else(pc.is_null(column), pa.scalar(None, pa.bool_()), pc.is_in(column, value_set=same))

    return equals if len(points) == 1 else contained


def _range_test(one: SargRange, values: LogicalType, operand: LogicalType) -> Callable[[Column], Column]:
    bounds: list[tuple[str, SargBound]] = []
    if one.lower is not None:
        bounds.append((">=" if one.lower.bound_type == "CLOSED" else ">", one.lower))
    if one.upper is not None:
        bounds.append(("<=" if one.upper.bound_type == "CLOSED" else "<", one.upper))
    comparisons = [(operator, scalar(bound.value, values)) for operator, bound in bounds]

    def test(column: Column) -> Column:
        if not comparisons:
            return pc.is_valid(column)
        return reduce(pc.and_kleene, [_compare(name, (column, operand), (to, values)) for name, to in comparisons])

    return test


def _compare(operator: str, left: tuple[Column, LogicalType], right: tuple[Column, LogicalType]) -> Column:
    return call(operator, [left[0], right[0]], [left[1], right[1]], result=BOOLEAN)
