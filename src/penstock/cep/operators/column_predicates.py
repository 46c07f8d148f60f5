"""Conditions on whole columns: where Arrow computes exactly what `evaluation` computes for each record.

Arrow and Python differ in parts: overflow, division, values of different types, remainders. So only comparisons of a
column with a constant of its kind, tests of texts, lists and None, and their combinations are computed on columns. For
another condition records are made of the rows. Null follows three-valued logic in both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy
import pyarrow
import pyarrow.compute as compute

from penstock.cep.expressions import COMPARISONS, FIELD, IN, TEXTS, VALUE, Expression

Evaluate: TypeAlias = "Callable[[pyarrow.RecordBatch], Any]"
"""Returns a boolean array with nulls."""
Mask: TypeAlias = "numpy.ndarray[Any, numpy.dtype[numpy.bool_]]"

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": compute.equal,
    "!=": compute.not_equal,
    "<": compute.less,
    "<=": compute.less_equal,
    ">": compute.greater,
    ">=": compute.greater_equal,
}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TEXT: dict[str, Callable[..., Any]] = {
    "starts_with": compute.starts_with,
    "ends_with": compute.ends_with,
    "contains": compute.match_substring,
}
_EXACT_MAX = 1 << 53
"""A float has all integers up to here."""


def on_columns(expression: Expression | None, schema: pyarrow.Schema) -> Evaluate | None:
    """Return the condition on batches of a schema; None if records decide."""
    if expression is None:
        return None
    symbol, operands = expression.symbol, expression.operands
    if symbol in ("and", "or"):
        left, right = on_columns(operands[0], schema), on_columns(operands[1], schema)
        if left is None or right is None:
            return None
        combine = compute.and_kleene if symbol == "and" else compute.or_kleene
        return lambda batch: combine(left(batch), right(batch))
    if symbol == "not":
        inner = on_columns(operands[0], schema)
        return None if inner is None else lambda batch: compute.invert(inner(batch))
    if symbol == "is_null":
        name = _field(operands[0], schema)
        return None if name is None else lambda batch: compute.is_null(batch.column(name))
    if symbol == IN:
        return _contained(operands[0], operands[1], schema)
    if symbol in COMPARISONS or symbol in TEXTS:
        return _compared(symbol, operands, schema)
    return _boolean_field(expression, schema)


def holds(evaluate: Evaluate, batch: pyarrow.RecordBatch) -> Mask:
    """Return for which rows a condition holds; unknown does not hold."""
    return compute.fill_null(evaluate(batch), False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _field(expression: Expression, schema: pyarrow.Schema) -> str | None:
    name = expression.operands[0] if expression.symbol == FIELD else None
    return name if name in schema.names else None


def _boolean_field(expression: Expression, schema: pyarrow.Schema) -> Evaluate | None:
    name = _field(expression, schema)
    if name is None or not pyarrow.types.is_boolean(schema.field(name).type):
        return None
    return lambda batch: batch.column(name)


def _compared(symbol: str, operands: tuple[Any, ...], schema: pyarrow.Schema) -> Evaluate | None:
    left, right = operands
    if left.symbol == VALUE and symbol in COMPARISONS:
        left, right, symbol = right, left, _SWAPPED[symbol]
    name = _field(left, schema)
    if name is None or right.symbol != VALUE:
        return None
    value = right.operands[0]
    if not _fits(value, schema.field(name).type, symbol):
        return None
    if symbol in TEXTS:
        test = _TEXT[symbol]
        return lambda batch: test(batch.column(name), value)
    compare, constant = _COMPARE[symbol], pyarrow.scalar(value, schema.field(name).type)
    return lambda batch: compare(batch.column(name), constant)


def _contained(expression: Expression, values: tuple[Any, ...], schema: pyarrow.Schema) -> Evaluate | None:
    name = _field(expression, schema)
    among = [value for value in values if value is not None]
    if name is None or not among or not all(_fits(value, schema.field(name).type, "==") for value in among):
        return None
    kind = schema.field(name).type
    if 0 in among and pyarrow.types.is_float64(kind):
        # Arrow tells 0.0 and -0.0 apart here, and nowhere else.
        among += [0.0, -0.0]
    known = pyarrow.array(among, kind)

    def contained(batch: pyarrow.RecordBatch) -> Any:
        column = batch.column(name)
        # Arrow finds a null nowhere, but here it is unknown.
        return compute.if_else(compute.is_null(column), pyarrow.scalar(None, pyarrow.bool_()), _is_in(column, known))

    return contained


def _is_in(column: Any, known: Any) -> Any:
    return compute.is_in(column, value_set=known)


def _fits(value: Any, kind: pyarrow.DataType, symbol: str) -> bool:
    """Return whether a constant is of the kind of a column, so that both compare as in Python."""
    types = pyarrow.types
    if types.is_string(kind):
        return isinstance(value, str) and not _has_surrogates(value)
    if symbol in TEXTS:
        return False
    if types.is_boolean(kind):
        return isinstance(value, bool) and symbol in ("==", "!=")
    if isinstance(value, bool):
        return False
    if types.is_integer(kind):
        if not isinstance(value, int):
            return False
        bits = kind.bit_width
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if types.is_signed_integer(kind) else (0, (1 << bits) - 1)
        return bool(low <= value <= high)
    if types.is_float64(kind):
        return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT_MAX)
    return False


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
