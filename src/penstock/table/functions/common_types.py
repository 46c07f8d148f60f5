"""The type that several arguments have in common, and what is converted without a CAST.

Source: Flink's `LogicalTypeMerging` and `LogicalTypeCasts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from penstock.table.logical_types import (
    BINARY_STRING,
    CHARACTER_STRING,
    INTEGER_DIGITS,
    INTEGER_NUMERIC,
    INTERVALS,
    MAX_PRECISION,
    NUMERIC,
    ROWS,
    TIMESTAMPS,
    LogicalType,
    decimal,
)

_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def common_type(types: Sequence[LogicalType]) -> LogicalType | None:
    """Return the type to which all are converted without a CAST, or None."""
    if not types:
        return None
    nullable = any(one.nullable or one.root == "NULL" for one in types)
    known = [one for one in types if one.root != "NULL"]
    if not known:
        return types[0]
    found: LogicalType | None = known[0]
    for one in known[1:]:
        found = None if found is None else _common(found, one)
    return None if found is None else found.with_nullability(nullable)


def _common(left: LogicalType, right: LogicalType) -> LogicalType | None:
    if left.with_nullability(True) == right.with_nullability(True):
        return left.with_nullability(left.nullable or right.nullable)
    for family, variable in ((CHARACTER_STRING, "VARCHAR"), (BINARY_STRING, "VARBINARY")):
        if left.root in family and right.root in family:
            root = left.root if left.root == right.root and left.length == right.length else variable
            return LogicalType(root, length=max(left.length, right.length))
    if left.root in NUMERIC and right.root in NUMERIC:
        return _common_number(left, right)
    if left.root in TIMESTAMPS | {"DATE"} and right.root in TIMESTAMPS | {"DATE"}:
        root = "TIMESTAMP_LTZ" if "TIMESTAMP_LTZ" in (left.root, right.root) else "TIMESTAMP"
        return LogicalType(root, precision=max(left.precision, right.precision))
    if left.root == right.root == "TIME":
        return LogicalType("TIME", precision=max(left.precision, right.precision))
    if left.root == right.root and left.root in INTERVALS:
        return left
    if left.children and len(left.children) == len(right.children):
        same = left.root == right.root or {left.root, right.root} == ROWS
        children = [common_type(pair) for pair in zip(left.children, right.children, strict=True)]
        if same and left.class_name == right.class_name and None not in children:
            return left.with_children([child for child in children if child is not None])
    return None


def _common_number(left: LogicalType, right: LogicalType) -> LogicalType:
    if left.root in INTEGER_NUMERIC and right.root in INTEGER_NUMERIC:
        return LogicalType(max(left.root, right.root, key=_INTEGERS.index))
    if "DOUBLE" in (left.root, right.root):
        return LogicalType("DOUBLE")
    if "FLOAT" in (left.root, right.root):
        other = right if left.root == "FLOAT" else left
        return LogicalType("DOUBLE" if other.root == "DECIMAL" else "FLOAT")
    one, two = as_decimal(left), as_decimal(right)
    scale = max(one.scale, two.scale)
    return decimal(min(max(one.precision - one.scale, two.precision - two.scale) + scale, MAX_PRECISION), scale)


def as_decimal(one: LogicalType) -> LogicalType:
    """Return the decimal that holds all values of an exact numeric type."""
    return one if one.root == "DECIMAL" else decimal(INTEGER_DIGITS[one.root], 0).with_nullability(one.nullable)


def is_castable_implicitly(source: LogicalType, target: LogicalType) -> bool:
    """Tell whether Flink converts `source` to `target` without a CAST."""
    if source.root == "NULL":
        return True
    if source.root == target.root and not source.children:
        return source.class_name == target.class_name
    for family in (CHARACTER_STRING, BINARY_STRING):
        if source.root in family and target.root in family:
            return True
    if source.root in NUMERIC and target.root in NUMERIC:
        order = [*_INTEGERS, "DECIMAL", "FLOAT", "DOUBLE"]
        return order.index(source.root) <= order.index(target.root)
    if source.root in TIMESTAMPS | {"DATE"} and target.root in TIMESTAMPS:
        return True
    if source.root == target.root or {source.root, target.root} == ROWS:
        pairs = list(zip(source.children, target.children, strict=False))
        return len(source.children) == len(target.children) and all(
            is_castable_implicitly(child, other) for child, other in pairs
        )
    return False


def widest(types: Sequence[LogicalType]) -> LogicalType:
    """Return the number type that holds all of these number types."""
    return reduce(_common_number, types)
