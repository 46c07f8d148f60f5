"""FLOOR, CEIL, ROUND and TRUNCATE. Decimals round half up, that is: away from zero."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions import decimal_types
from penstock.table.functions.cast_numbers import WIDE, fitted, wrapped
from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.time_fields import floor_to
from penstock.table.logical_types import APPROXIMATE_NUMERIC, INTEGER_NUMERIC, LogicalType, decimal

FAMILY = Family()

_DIGITS_MAX = 340
"""No double has a digit farther from its decimal point."""
_WIDEST = Context(prec=2 * _DIGITS_MAX)

_FLOORED = ["<NUMERIC>", "<DATETIME>, <SYMBOL>"]


def _whole(arguments: Arguments) -> LogicalType:
    one = arguments.types[0]
    return decimal(one.precision, 0).with_nullability(one.nullable) if one.root == "DECIMAL" else one


def _register(name: str, mode: str, python_mode: str, kernel: Any, up: bool) -> None:
    @FAMILY.kernel(name, signatures=_FLOORED, result=_whole)
    def _(call: Call) -> Column:
        if len(call.columns) == 2:
            return floor_to(call, up=up)
        if call.types[0].root in INTEGER_NUMERIC:
            return call.columns[0]
        if call.types[0].root in APPROXIMATE_NUMERIC:
            return kernel(call.columns[0])
        return _decimals(call, 0, python_mode, mode)


def _decimals(call: Call, digits: int, python_mode: str, mode: str) -> Column:
    column, goal = call.columns[0], call.arrow_type
    try:
        wide = column.cast(pa.decimal128(38, column.type.scale))
        return pc.round(wide, digits, round_mode=mode).cast(goal)
    except pa.ArrowInvalid:

        def rounded(value: Decimal) -> Decimal | None:
            cut = value.quantize(Decimal(1).scaleb(-digits), python_mode, WIDE)
            return fitted(cut, call.result.precision, call.result.scale)

        return per_distinct(rounded, [column], goal)


_register("FLOOR", "down", ROUND_FLOOR, pc.floor, up=False)
_register("CEIL", "up", ROUND_CEILING, pc.ceil, up=True)
FAMILY.functions["CEILING"] = FAMILY.functions["CEIL"]


def _rounded(arguments: Arguments) -> LogicalType:
    one = arguments.types[0]
    if one.root != "DECIMAL":
        return one.with_nullability(arguments.nullable)
    digits = 0 if len(arguments.types) == 1 else arguments.literal(1)
    result = one if digits is None else decimal_types.rounded_type(one, digits)
    return result.with_nullability(arguments.nullable)


_ROUNDED = ["<NUMERIC>", "<NUMERIC>, <INTEGER>"]


@FAMILY.kernel("ROUND", signatures=_ROUNDED, result=_rounded)
def round_(call: Call) -> Column:
    """Round half up to a number of digits after the point; before it, if it is negative."""
    return _to_digits(call, ROUND_HALF_UP, "half_towards_infinity")


@FAMILY.kernel("TRUNCATE", signatures=_ROUNDED, result=_rounded)
def truncate(call: Call) -> Column:
    """Cut to a number of digits after the point."""
    return _to_digits(call, ROUND_DOWN, "towards_zero")


def _to_digits(call: Call, python_mode: str, mode: str) -> Column:
    column, kind = call.columns[0], call.types[0]
    digits = call.columns[1] if len(call.columns) > 1 else pa.scalar(0, pa.int32())
    if is_constant(digits) and digits.is_valid:
        if kind.root in INTEGER_NUMERIC and digits.as_py() >= 0:
            return column
        if kind.root == "DECIMAL":
            return _decimals(call, _within(digits.as_py(), kind.scale), python_mode, mode)
    precision, scale = call.result.precision, call.result.scale

    def rounded(value: Any, count: int) -> Any:
        if isinstance(value, float) and not abs(value) < float("inf"):
            return value
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        number = exact.quantize(Decimal(1).scaleb(-_within(count, _DIGITS_MAX)), python_mode, _WIDEST)
        if isinstance(value, Decimal):
            return fitted(number, precision, scale)
        return float(number) if isinstance(value, float) else wrapped(int(number), kind)

    return per_distinct(rounded, [column, digits], call.arrow_type)


def _within(digits: int, most: int) -> int:
    return max(min(digits, most), -_DIGITS_MAX)
