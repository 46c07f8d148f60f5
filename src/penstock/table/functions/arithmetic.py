"""`+ - * / MOD` and the sign. Integers wrap as in Java; decimals that do not fit are NULL; 1 / 0 is an error.

Source: Flink docs, "System (Built-in) Functions", arithmetic; types as in `decimal_types`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions import decimal_types, temporal_arithmetic
from penstock.table.functions.cast_numbers import WIDE, fitted, to_number
from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.common_types import as_decimal, widest
from penstock.table.functions.errors import FunctionError, InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import (
    BIGINT,
    DATETIME,
    EXACT_NUMERIC,
    INTEGER_NUMERIC,
    INTERVALS,
    NUMERIC,
    LogicalType,
)

FAMILY = Family()

_QUOTIENT = Context(prec=38, rounding=ROUND_HALF_UP)
_TEMPORAL = DATETIME | INTERVALS


def _numeric_result(
    arguments: Arguments, of_decimals: Callable[[LogicalType, LogicalType], LogicalType]
) -> LogicalType:
    left, right = arguments.types
    if left.root == right.root == "NULL":
        raise InvalidCallError("the types of both operands are unknown: cast one of them")
    left, right = (right if left.root == "NULL" else left), (left if right.root == "NULL" else right)
    if not (left.root in NUMERIC and right.root in NUMERIC):
        raise InvalidCallError(f"Cannot apply arithmetic to arguments of type <{left.summary}> and <{right.summary}>.")
    if left.root in EXACT_NUMERIC and right.root in EXACT_NUMERIC and "DECIMAL" in (left.root, right.root):
        return of_decimals(as_decimal(left), as_decimal(right)).with_nullability(arguments.nullable)
    return widest([left, right]).with_nullability(arguments.nullable)


def _sum_result(arguments: Arguments) -> LogicalType:
    if any(one.root in _TEMPORAL for one in arguments.types):
        return temporal_arithmetic.sum_type(arguments.types)
    return _numeric_result(arguments, decimal_types.sum_type)


def _product_result(arguments: Arguments) -> LogicalType:
    for one, other in (arguments.types, arguments.types[::-1]):
        if one.root in INTERVALS and other.root in NUMERIC:
            return one.with_nullability(arguments.nullable)
    return _numeric_result(arguments, decimal_types.product_type)


def _remainder_result(arguments: Arguments) -> LogicalType:
    left, right = arguments.types
    if left.root in EXACT_NUMERIC and right.root in EXACT_NUMERIC and left.scale == right.scale == 0:
        return right.with_nullability(arguments.nullable)
    return _numeric_result(arguments, decimal_types.remainder_type)


_PAIR = ["<NUMERIC>, <NUMERIC>"]
_SUMMANDS = ["<NUMERIC | DATETIME | INTERVAL>, <NUMERIC | DATETIME | INTERVAL>"]


@FAMILY.kernel("+", "PLUS", signatures=_SUMMANDS, result=_sum_result)
def add(call: Call) -> Column:
    """Add numbers, or an interval to a time."""
    if any(one.root in _TEMPORAL for one in call.types):
        return temporal_arithmetic.add(call)
    return _calculate(call, pc.add, WIDE.add)


@FAMILY.kernel(
    "-", "MINUS", signatures=["<NUMERIC | INTERVAL>", *_SUMMANDS], result=lambda arguments: _difference(arguments)
)
def subtract(call: Call) -> Column:
    """Subtract, or negate a single operand."""
    if len(call.columns) == 1:
        return pc.negate(call.columns[0]).cast(call.arrow_type)
    if any(one.root in _TEMPORAL for one in call.types):
        return temporal_arithmetic.add(call, sign=-1)
    return _calculate(call, pc.subtract, WIDE.subtract)


def _difference(arguments: Arguments) -> LogicalType:
    return arguments.types[0] if len(arguments.types) == 1 else _sum_result(arguments)


_FACTORS = ["<NUMERIC | INTERVAL>, <NUMERIC | INTERVAL>"]


@FAMILY.kernel("*", "TIMES", signatures=_FACTORS, result=_product_result)
def multiply(call: Call) -> Column:
    """Multiply."""
    if call.result.root in INTERVALS:
        amounts = [
            to_number(column, kind, BIGINT) if kind.root in NUMERIC else column.cast(pa.int64())
            for column, kind in zip(call.columns, call.types, strict=True)
        ]
        return pc.multiply(*amounts).cast(call.arrow_type, safe=False)
    return _calculate(call, pc.multiply, WIDE.multiply)


@FAMILY.kernel(
    "/", "DIVIDE", "/INT", signatures=_PAIR, result=lambda one: _numeric_result(one, decimal_types.quotient_type)
)
def divide(call: Call) -> Column:
    """Divide: integers toward zero, decimals to 38 digits and then to the scale of the result."""
    if call.result.root == "DECIMAL":
        return _decimals(call, lambda left, right: _QUOTIENT.divide(left, right))
    left, right = _operands(call, call.result)
    if call.result.root not in INTEGER_NUMERIC:
        return pc.divide(left, right)
    return _whole_quotient(left, right)


def _whole_quotient(left: Column, right: Column) -> Column:
    """Divide integers. Arrow returns 0 for the smallest by -1, Java the smallest."""
    try:
        quotient = pc.divide(left, right)
    except pa.ArrowInvalid:
        raise FunctionError("/ by zero") from None
    by_minus_one = pc.equal(right, pa.scalar(-1, right.type))
    if is_constant(by_minus_one) and not by_minus_one.as_py():
        return quotient
    return pc.if_else(by_minus_one, pc.negate(left), quotient)


@FAMILY.kernel("MOD", "%", signatures=_PAIR, result=_remainder_result)
def remainder(call: Call) -> Column:
    """Return the remainder, with the sign of the first operand."""
    if any(one.root == "DECIMAL" for one in call.types) and call.result.root in EXACT_NUMERIC:
        return _decimals(call, WIDE.remainder)
    wide = widest(call.types) if call.result.root in INTEGER_NUMERIC else call.result
    left, right = _operands(call, wide)
    if wide.root in INTEGER_NUMERIC:
        return pc.subtract(left, pc.multiply(_whole_quotient(left, right), right)).cast(call.arrow_type, safe=False)
    return per_distinct(_float_remainder, [left, right], call.arrow_type)


def _float_remainder(left: float, right: float) -> float:
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


def _operands(call: Call, goal: LogicalType) -> tuple[Column, Column]:
    left, right = (
        column if one.with_nullability(True) == goal.with_nullability(True) else _converted(column, one, goal)
        for column, one in zip(call.columns, call.types, strict=True)
    )
    return left, right


def _converted(column: Column, source: LogicalType, goal: LogicalType) -> Column:
    if source.root == "NULL":
        return column.cast(pa.int32()).cast(pa.float64() if goal.root == "DOUBLE" else pa.int32())
    return to_number(column, source, goal)


def _calculate(call: Call, kernel: Callable[..., Column], exact: Callable[[Decimal, Decimal], Decimal]) -> Column:
    if call.result.root != "DECIMAL":
        left, right = _operands(call, call.result)
        return kernel(left, right)
    left, right = _decimal_operands(call)
    try:
        result = kernel(left, right)
        if (result.type.precision, result.type.scale) == (call.result.precision, call.result.scale):
            return result
    except pa.ArrowInvalid:
        pass
    return _decimals(call, exact)


def _decimal_operands(call: Call) -> list[Column]:
    return [
        column if one.root == "DECIMAL" else to_number(column, one, as_decimal(one))
        for column, one in zip(call.columns, call.types, strict=True)
    ]


def _decimals(call: Call, exact: Callable[[Decimal, Decimal], Decimal]) -> Column:
    """Calculate with more digits than Arrow has, then round to the type of the result."""
    precision, scale = call.result.precision, call.result.scale

    def fitting(left: Decimal, right: Decimal) -> Any:
        try:
            result = exact(left, right)
        except ArithmeticError:
            raise FunctionError("/ by zero") from None
        if call.result.root == "DECIMAL":
            return fitted(result, precision, scale)
        return int(result)

    return per_distinct(fitting, _decimal_operands(call), call.arrow_type)
