"""Precision and scale of the results of decimal arithmetic. Source: Flink's `LogicalTypeMerging`."""

from __future__ import annotations

from penstock.table.logical_types import MAX_PRECISION, LogicalType, decimal

_MIN_SCALE = 6


def _adjusted(precision: int, scale: int) -> LogicalType:
    """Keep the digits before the point where there are more than 38, and at least six after it."""
    if precision <= MAX_PRECISION:
        return decimal(precision, scale)
    whole = precision - scale
    return decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MIN_SCALE)))


def sum_type(left: LogicalType, right: LogicalType) -> LogicalType:
    """Return the type of a sum or difference."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return _adjusted(whole + scale + 1, scale)


def product_type(left: LogicalType, right: LogicalType) -> LogicalType:
    """Return the type of a product."""
    return _adjusted(left.precision + right.precision + 1, left.scale + right.scale)


def quotient_type(left: LogicalType, right: LogicalType) -> LogicalType:
    """Return the type of a quotient."""
    scale = max(_MIN_SCALE, left.scale + right.precision + 1)
    return _adjusted(left.precision - left.scale + right.scale + scale, scale)


def remainder_type(left: LogicalType, right: LogicalType) -> LogicalType:
    """Return the type of a remainder."""
    scale = max(left.scale, right.scale)
    return _adjusted(min(left.precision - left.scale, right.precision - right.scale) + scale, scale)


def rounded_type(one: LogicalType, digits: int) -> LogicalType:
    """Return the type of a decimal rounded to so many digits after the point."""
    if digits >= one.scale:
        return one
    if digits < 0:
        return decimal(min(MAX_PRECISION, 1 + one.precision - one.scale), 0)
    return decimal(1 + one.precision - one.scale + digits, digits)
