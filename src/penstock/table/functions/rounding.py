"""FLOOR, CEIL, ROUND and TRUNCATE. Decimals round half up, that is: away from zero."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions import decimal_types
from penstock.table.functions.cast_numbers import WIDE, fitted
from penstock.table.functions.columns import Column, per_distinct
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.time_fields import floor_to
from penstock.table.logical_types import APPROXIMATE_NUMERIC, INTEGER_NUMERIC, LogicalType, decimal

FAMILY = Family()

_WIDEST = Context(prec=400)
"""For all digits of a double."""

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
    digits = call.constant(1, 0)
    if digits is None:
        return pc.if_else(pc.is_null(column), column, pa.scalar(None, column.type)).cast(call.arrow_type)
    if kind.root in INTEGER_NUMERIC and digits >= 0:
        return column
    if kind.root == "DECIMAL":
        return _decimals(call, min(digits, kind.scale), python_mode, mode)

    def rounded(value: Any) -> Any:
        if isinstance(value, float) and not abs(value) < float("inf"):
            return value
        number = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), python_mode, _WIDEST)
        return float(number) if isinstance(value, float) else int(number)

    return per_distinct(rounded, [column], call.arrow_type)
