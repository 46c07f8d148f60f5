"""Casts to numbers and booleans, as Java converts them: integers wrap, floats saturate, decimals round half up.

A decimal that does not fit is NULL, as in Flink.
"""

from __future__ import annotations

import re
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.java_text import parse_double
from penstock.table.logical_types import (
    APPROXIMATE_NUMERIC,
    CHARACTER_STRING,
    INTEGER_NUMERIC,
    LogicalType,
)

WIDE = Context(prec=80, rounding=ROUND_HALF_UP)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}


def to_number(column: Column, source: LogicalType, target: LogicalType) -> Column:
    """Cast to a number."""
    if is_constant(column):
        return to_number(pa.array([column.as_py()], column.type), source, target)[0]
    if source.root in CHARACTER_STRING:
        return _number_of_text(column, target)
    if source.root == "BOOLEAN":
        column, source = column.cast(pa.int8()), LogicalType("TINYINT")
    if source.root.startswith("INTERVAL"):
        column, source = column.cast(pa.int64()), LogicalType("BIGINT")
    if target.root == "DECIMAL":
        return to_decimal(column, source, target)
    if target.root in APPROXIMATE_NUMERIC:
        return to_float(column, source).cast(arrow_type(target), safe=False)
    if source.root in INTEGER_NUMERIC:
        return column.cast(arrow_type(target), safe=False)
    if source.root == "DECIMAL":
        return _integer_of_decimal(column, source, target)
    return _integer_of_float(column, target)


def to_boolean(column: Column, source: LogicalType) -> Column:
    """Cast to BOOLEAN."""
    if source.root in CHARACTER_STRING:
        return per_distinct(_boolean_of_text, [column], pa.bool_())
    return pc.not_equal(column, pa.scalar(0, column.type))


def _boolean_of_text(text: str) -> bool:
    lower = text.lower()
    if lower in _TRUE or lower in _FALSE:
        return lower in _TRUE
    raise FunctionError(f"Cannot parse '{text}' as BOOLEAN.")


def to_float(column: Column, source: LogicalType) -> Column:
    """Return the doubles nearest to numbers."""
    if source.root != "DECIMAL":
        return column.cast(pa.float64(), safe=False)
    exact = _exact_digits(column, source)
    if exact is None:
        return per_distinct(float, [column], pa.float64())
    return pc.divide(exact.cast(pa.float64()), float(10**source.scale))


def _exact_digits(column: Column, source: LogicalType) -> Column | None:
    """Return the digits if these and the power of ten are exact as doubles, as their quotient is then rounded once."""
    if is_constant(column) or source.scale > 22:
        return None
    try:
        digits = unscaled(column)
    except pa.ArrowInvalid:
        return None
    limits = pc.min_max(digits)
    low, high = limits["min"].as_py(), limits["max"].as_py()
    return digits if low is None or (low > -(2**53) and high < 2**53) else None


def unscaled(column: Any) -> Any:
    """Return the digits of decimals of at most 18 digits as int64: 1.23 is 123."""
    scale = column.type.scale
    return column.cast(pa.decimal128(38, scale)).view(pa.decimal128(38, 0)).cast(pa.int64())


def to_decimal(column: Column, source: LogicalType, target: LogicalType) -> Column:
    """Return numbers as decimals: rounded half up, NULL where they do not fit."""
    goal = arrow_type(target)
    if source.root in APPROXIMATE_NUMERIC:
        return per_distinct(lambda value: _decimal_of_float(value, target), [column], goal)
    if source.root != "DECIMAL":
        column = column.cast(pa.int64()).cast(pa.decimal128(19, 0))
    try:
        if column.type.scale > target.scale:
            wide = column.cast(pa.decimal128(38, column.type.scale))
            column = pc.round(wide, target.scale, round_mode="half_towards_infinity")
        return column.cast(goal)
    except pa.ArrowInvalid:
        return per_distinct(lambda value: fitted(value, target.precision, target.scale), [column], goal)


def fitted(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return the decimal rounded half up to this scale, or None if it has more digits than `precision`."""
    rounded = WIDE.quantize(value, Decimal(1).scaleb(-scale)) if value.adjusted() < 40 else None
    if rounded is None or (rounded and rounded.adjusted() + 1 > precision - scale):
        return None
    return rounded


def _decimal_of_float(value: float, target: LogicalType) -> Decimal | None:
    number = Decimal(repr(value))
    if not number.is_finite():
        raise FunctionError(f"Cannot convert {value} to {target.summary}: it is not a number.")
    return fitted(number, target.precision, target.scale)


def _integer_of_decimal(column: Any, source: LogicalType, target: LogicalType) -> Any:
    if source.precision - source.scale <= 18:
        wide = column.cast(pa.decimal128(38, source.scale))
        whole = pc.round(wide, 0, round_mode="towards_zero").cast(pa.int64())
        return whole.cast(arrow_type(target), safe=False)

    def cut(value: Decimal) -> int:
        with localcontext(WIDE):
            return wrapped(int(value.to_integral_value(ROUND_DOWN)), target)

    return per_distinct(cut, [column], arrow_type(target))


def wrapped(value: int, target: LogicalType) -> int:
    """Return the lowest bits of an integer as one of an integer type, as Java's narrowing does."""
    bits = _BITS[target.root]
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _integer_of_float(column: Any, target: LogicalType) -> Any:
    """Java's narrowing: NaN is 0, what is too large the largest; a byte or short is cut out of such an int."""
    values = np.nan_to_num(column.fill_null(0).to_numpy().astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    kind: Any = np.int64 if target.root == "BIGINT" else np.int32
    limits = np.iinfo(kind)
    whole = np.clip(np.trunc(values), float(limits.min), float(limits.max))
    above = whole >= float(limits.max)
    integers = np.where(above, limits.max, np.where(above, 0, whole).astype(kind))
    result = pa.array(integers.astype(kind), mask=column.is_null().to_numpy(zero_copy_only=False))
    return result.cast(arrow_type(target), safe=False)


_INTEGER = re.compile(r"([+-]?\d+)(?:\.\d*)?|([+-]?)\.\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def _number_of_text(column: Any, target: LogicalType) -> Any:
    if target.root != "DECIMAL" and (fast := _plain_numbers(column, target)) is not None:
        return fast
    if target.root in INTEGER_NUMERIC:
        convert: Any = lambda text: _integer_of_text(text, target)  # noqa: E731
    elif target.root == "DECIMAL":
        convert = lambda text: _decimal_of_text(text, target)  # noqa: E731
    else:
        convert = _float_of_text
    return per_distinct(convert, [column], arrow_type(target))


def _plain_numbers(column: Any, target: LogicalType) -> Any | None:
    """Return numbers that Arrow reads as Flink does; None if any text is one that only one of them reads."""
    try:
        numbers = column.cast(arrow_type(target))
    except pa.ArrowInvalid:
        return None
    if target.root in APPROXIMATE_NUMERIC:  # `inf` and `nan` are not Java's
        return numbers if pc.all(pc.is_finite(numbers)).as_py() is not False else None
    hexadecimal = pc.match_substring(column, "x", ignore_case=True)
    return None if pc.any(hexadecimal).as_py() else numbers


def _integer_of_text(text: str, target: LogicalType) -> int:
    match = _INTEGER.fullmatch(text.strip(" "))
    if match is None or not text.isascii():
        raise FunctionError(f"For input string: '{text}'. Invalid character found.")
    value = int(match[1] or 0)
    if wrapped(value, target) != value:
        raise FunctionError(f"For input string: '{text}'. Value is out of the range of {target.summary}.")
    return value


def _decimal_of_text(text: str, target: LogicalType) -> Decimal:
    stripped = text.strip(" ")
    result = fitted(Decimal(stripped), target.precision, target.scale) if _DECIMAL.fullmatch(stripped) else None
    if result is None:
        raise FunctionError(f"Cannot convert '{text}' to {target.summary}: it is not a number, or does not fit.")
    return result


def _float_of_text(text: str) -> float:
    try:
        return parse_double(text)
    except ValueError as error:
        raise FunctionError(str(error)) from None
