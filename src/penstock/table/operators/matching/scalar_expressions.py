"""Expressions of plans over the values of one row, for conditions that no column can answer.

What the conditions of patterns mostly are made of is computed in Python: comparisons, logic, arithmetic of integers
and of DOUBLE. All else is computed by the functions of columns, of columns with one row: for the same results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.task.context import OperatorContext
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import as_array
from penstock.table.logical_types import CHARACTER_STRING, INTEGER_NUMERIC, LogicalType
from penstock.table.operators.matching.match_aggregates import BITS, wrapped
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.planner.literals import literal_value
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexInputRef, RexLiteral

Value = Callable[[Sequence[Any]], Any]
"""From the values of a row to that of an expression."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_NULL_TESTS = {"IS NULL": True, "IS NOT NULL": False}
_SAME_FORM = (CHARACTER_STRING, frozenset({"BOOLEAN"}), frozenset({"DATE"}), frozenset({"DECIMAL"}) | INTEGER_NUMERIC)
"""Types whose values compare in Python as in SQL."""


class ScalarExpression:
    """An expression over the values of a row. Picklable before `open`.

    `types`: those of the values. The other arguments are those of `RowExpressions`. Raises UnsupportedPlanError for a
    function that is not supported.
    """

    def __init__(
        self,
        expression: AnyRexNode,
        types: Sequence[LogicalType],
        *,
        zone: str = "UTC",
        functions: Mapping[str, PythonCall] | None = None,
        sql: str = "",
    ) -> None:
        self._expression = expression
        self._types = tuple(types)
        self._zone = zone
        self._functions = functions or {}
        self.sql = sql
        self._now_ms = 0
        self._columns: list[RowExpressions] = []
        self._value: Value | None = None
        self._checked = RowExpressions([expression], zone=zone, functions=functions, sql=sql)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_columns": [], "_value": None}

    def open(self, context: OperatorContext) -> None:
        """Bind the functions, and open those of the user."""
        self._checked.open(context)
        self._bind()

    def close(self) -> None:
        """Close the user's functions."""
        self._checked.close()

    def value(self, values: Sequence[Any], now_ms: int) -> Any:
        """Return the value of the expression for a row. `now_ms`: the processing time."""
        if self._value is None:
            self._bind()
        assert self._value is not None
        self._now_ms = now_ms
        return self._value(values)

    def _bind(self) -> None:
        self._value = self._compiled(self._expression)

    def _compiled(self, node: AnyRexNode) -> Value:
        if isinstance(node, RexInputRef):
            return operator.itemgetter(node.index)
        if isinstance(node, RexLiteral) and node.sarg is None and node.symbol is None:
            (constant,) = python_values(as_array(literal_value(node), 1))
            return lambda values: constant
        if isinstance(node, RexCall) and node.is_built_in:
            return self._called(node) or self._by_columns(node)
        return self._by_columns(node)

    def _called(self, node: RexCall) -> Value | None:
        """Return a call as a function of Python; None if only functions of columns have it."""
        name, types = node.name, [_type_of(one) for one in node.operands]
        if name in ("AND", "OR"):
            return _logic([self._compiled(one) for one in node.operands], decides=name == "OR")
        if name == "CAST" and types[0] is not None and _is_wider(node.type.logical, types[0]):
            return self._compiled(node.operands[0])
        if name in _NULL_TESTS:
            return _null_test(self._compiled(node.operands[0]), _NULL_TESTS[name])
        if len(types) != 2 or None in types:
            return None
        first, second = types
        assert first is not None and second is not None
        compute: Callable[[Any, Any], Any] | None = None
        if name in _COMPARISONS:
            compute = _comparison(name, first, second)
        elif name in _ARITHMETIC:
            compute = _arithmetic(name, first, second, node.type.logical)
        elif name == "/" and (divide := _division(first, second, node.type.logical)) is not None:
            return _quotient(divide, *map(self._compiled, node.operands), by_zero=self._by_columns(node))
        if compute is None:
            return None
        return _of_two(compute, *map(self._compiled, node.operands))

    def _by_columns(self, node: AnyRexNode) -> Value:
        expressions = RowExpressions([node], zone=self._zone, functions=self._functions, sql=self.sql)
        kinds = {place: arrow_type(self._types[place]) for place in expressions.inputs}
        width = len(self._types)

        def value(values: Sequence[Any]) -> Any:
            columns: list[Any] = [None] * width
            for place, kind in kinds.items():
                columns[place] = pyarrow.array([values[place]], kind)
            (found,) = expressions.evaluate(columns, 1, now_ms=self._now_ms, watermark_ms=None)
            return python_values(as_array(found, 1))[0]

        return value


def _type_of(node: AnyRexNode) -> LogicalType | None:
    return node.type.logical if isinstance(node, RexInputRef | RexLiteral | RexCall) else None


def _is_wider(result: LogicalType, operand: LogicalType) -> bool:
    """Return whether a CAST leaves all values as they are."""
    return {result.root, operand.root} <= INTEGER_NUMERIC and BITS[result.root] >= BITS[operand.root]


def _comparison(name: str, first: LogicalType, second: LogicalType) -> Callable[[Any, Any], bool] | None:
    compare = _COMPARISONS[name]
    if any({first.root, second.root} <= form for form in _SAME_FORM):
        return compare
    if first.root == second.root == "TIMESTAMP" and max(first.precision, second.precision) <= 6:
        return compare
    if first.root == second.root == "DOUBLE":
        return compare
    if {first.root, second.root} <= INTEGER_NUMERIC | {"DOUBLE"}:
        return lambda one, other: compare(float(one), float(other))
    return None


def _arithmetic(
    name: str, first: LogicalType, second: LogicalType, result: LogicalType
) -> Callable[[Any, Any], Any] | None:
    compute = _ARITHMETIC[name]
    if {first.root, second.root, result.root} <= INTEGER_NUMERIC:
        bits = BITS[result.root]
        return lambda one, other: wrapped(compute(one, other), bits)
    if result.root == "DOUBLE" and {first.root, second.root} <= INTEGER_NUMERIC | {"DOUBLE"}:
        return lambda one, other: compute(float(one), float(other))
    return None


def _division(first: LogicalType, second: LogicalType, result: LogicalType) -> Callable[[Any, Any], Any] | None:
    if {first.root, second.root, result.root} <= INTEGER_NUMERIC:
        bits = BITS[result.root]
        return lambda one, other: wrapped(abs(one) // abs(other) * (1 if (one < 0) is (other < 0) else -1), bits)
    if result.root == "DOUBLE" and {first.root, second.root} <= INTEGER_NUMERIC | {"DOUBLE"}:
        return lambda one, other: float(one) / float(other)
    return None


def _quotient(divide: Callable[[Any, Any], Any], left: Value, right: Value, *, by_zero: Value) -> Value:
    def value(values: Sequence[Any]) -> Any:
        if (first := left(values)) is None or (second := right(values)) is None:
            return None
        return divide(first, second) if second else by_zero(values)

    return value


def _of_two(compute: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    def value(values: Sequence[Any]) -> Any:
        if (first := left(values)) is None or (second := right(values)) is None:
            return None
        return compute(first, second)

    return value


def _null_test(operand: Value, is_null: bool) -> Value:
    return lambda values: (operand(values) is None) is is_null


def _logic(operands: Sequence[Value], *, decides: bool) -> Value:
    """Return AND or OR. `decides`: the value of an operand that decides it, whatever the others are."""

    def value(values: Sequence[Any]) -> bool | None:
        found: bool | None = not decides
        for operand in operands:
            one: bool | None = operand(values)
            if one is decides:
                return one
            if one is None:
                found = None
        return found

    return value
