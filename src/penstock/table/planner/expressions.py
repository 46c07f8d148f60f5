"""Evaluates expressions of plans on columns.

Equal parts of several expressions are computed once for a batch. A part is computed for all rows; only if that fails,
CASE, AND and OR compute their operands again, each for the rows that need it, as Flink does for every row:
`CASE WHEN b <> 0 THEN a / b END` divides by no zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.calls import find, result_type
from penstock.table.functions.cast_rules import check_cast
from penstock.table.functions.columns import Column, as_array, field_of, is_constant
from penstock.table.functions.errors import FunctionError, InvalidCallError, UnknownFunctionError
from penstock.table.functions.json_constructors import MISPLACED_JSON, RAW_JSON
from penstock.table.functions.registry import Call, Context
from penstock.table.logical_types import BOOLEAN, CHARACTER_STRING, LogicalType
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.flat_expressions import Part, flattened
from penstock.table.planner.literals import literal_value, search
from penstock.table.planner.rex_nodes import (
    AnyRexNode,
    RexCall,
    RexCorrelVariable,
    RexFieldAccess,
    RexInputRef,
    RexLiteral,
)


class UserFunction(Protocol):
    """A function of the user's. `operators/rows/python_calls.py` has the implementation."""

    @property
    def deterministic(self) -> bool:
        """Whether equal calls have equal results, so that one of them suffices."""

    def bound(
        self, types: Sequence[LogicalType], result: LogicalType, sql: str
    ) -> Callable[[Sequence[Column], Context], Column]:
        """Return the function of columns of these types. `sql`: the part of the query that calls it, for errors."""


@dataclass
class _Batch:
    """Columns of one batch, and the values that were computed of them."""

    columns: Sequence[Column]
    context: Context
    values: dict[int, Column | FunctionError]
    """By part; a part that fails is not computed again."""


_JSON_CALLS = frozenset({"JSON_OBJECT", "JSON_ARRAY", "JSON"})
"""Functions whose text is JSON."""
_HAVE_JSON_AT = {"JSON_OBJECT": range(2, 1 << 30, 2), "JSON_ARRAY": range(1, 1 << 30)}
"""Where functions have values of JSON among their operands: the first operand tells what becomes of NULL."""
_CHECKED = frozenset({"=", "<>", "<", "<=", ">", ">=", "EXTRACT"})
"""Functions that the planner plans for any arguments."""
_NONDETERMINISTIC = frozenset({"RAND", "RAND_INTEGER", "UUID"})

_DEEP = 50
"""Expressions that are nested more deeply are computed part by part, without a call of Python in each other."""
_Evaluator = Callable[[_Batch], Column]


class _Bound(NamedTuple):
    """A part of expressions: its type, how deeply calls are nested in it, and how it is computed.

    `varies`: whether it is not deterministic, so that it is computed wherever it stands. `is_kept`: whether its value
    is computed once for a batch.
    """

    evaluate: _Evaluator
    type: LogicalType
    depth: int
    varies: bool = False
    is_kept: bool = False


class Expressions:
    """Expressions over the same input. `functions`: the user's functions, by the names that plans have.

    One that is not deterministic is called again wherever it stands, as `RAND()` is. In the function call of a lateral
    join, a field of the outer row is a column of the input. `sql`: the part of the query, for errors.

    Raises UnsupportedPlanError if one of them calls a function that is not supported.
    """

    def __init__(
        self,
        expressions: Sequence[AnyRexNode],
        functions: Mapping[str, UserFunction] | None = None,
        sql: str = "",
    ) -> None:
        self._functions = functions or {}
        self._sql = sql
        self._nondeterministic = _NONDETERMINISTIC | {
            name for name, one in self._functions.items() if not one.deterministic
        }
        for one in expressions:
            _check_is_placed(one)
        flat = flattened(expressions)
        self._parts: list[_Bound] = []
        self._depth = 0
        for part in flat.parts:
            self._parts.append(self._bound(part, [flat.parts[place].node for place in part.places]))
        bound = [self._parts[place] for place in flat.roots]
        self._evaluators = [one.evaluate for one in bound]
        self.types = [one.type for one in bound]
        """The types of the results."""

    def evaluate(self, columns: Sequence[Column], context: Context) -> list[Column]:
        """Return a column for each expression: an array, or a scalar if it is the same in all rows.

        `context.rows` is the number of rows. Raises FunctionError if a value cannot be computed.
        """
        batch = _Batch(columns, context, {})
        if self._depth > _DEEP:
            for part in self._parts:
                if part.is_kept:
                    with suppress(FunctionError):
                        part.evaluate(batch)
        return [evaluate(batch) for evaluate in self._evaluators]

    def _bound(self, part: Part, inner: Sequence[AnyRexNode]) -> _Bound:
        """Return a part as it is computed. `inner`: the nodes of its parts, which are bound."""
        bound = [self._parts[place] for place in part.places]
        depth = 1 + max((one.depth for one in bound), default=0)
        self._depth = max(depth, self._depth)
        evaluate, logical = self._new(part.node, inner, bound)
        if self._varies(part.node) or any(one.varies for one in bound):
            return _Bound(evaluate, logical, depth, varies=True)
        # A set of values is part of its call.
        is_kept = not (isinstance(part.node, RexLiteral) and part.node.sarg is not None)
        return _Bound(_once(len(self._parts), evaluate), logical, depth, is_kept=is_kept)

    def _varies(self, node: AnyRexNode) -> bool:
        return isinstance(node, RexCall) and not self._nondeterministic.isdisjoint((node.name, node.name.lower()))

    def _new(
        self, node: AnyRexNode, inner: Sequence[AnyRexNode], bound: Sequence[_Bound]
    ) -> tuple[_Evaluator, LogicalType]:
        if isinstance(node, RexInputRef):
            return _input(node.index), node.type.logical
        if isinstance(node, RexLiteral):
            value = None if node.sarg is not None else literal_value(node)
            return (lambda batch: value), node.type.logical
        if isinstance(node, RexFieldAccess) and isinstance(node.expr, RexCorrelVariable):
            row_type = node.expr.type.logical
            return _input(row_type.names.index(node.name)), _field_type(row_type, node.name)
        if isinstance(node, RexFieldAccess):
            (row,) = bound
            return _field(row.evaluate, node.name), _field_type(row.type, node.name)
        if isinstance(node, RexCall):
            return self._call(node, inner, bound), node.type.logical
        what = "the row of an outer query" if isinstance(node, RexCorrelVariable) else "a variable of a pattern"
        raise UnsupportedPlanError(f"a reference to {what} is not supported here: write a join")

    def _call(self, node: RexCall, inner: Sequence[AnyRexNode], bound: Sequence[_Bound]) -> _Evaluator:
        if node.name == "SEARCH" and isinstance(inner[1], RexLiteral) and inner[1].sarg is not None:
            operand = bound[0]
            test = search(inner[1].sarg, inner[1].type.logical, operand.type)
            return lambda batch: test(operand.evaluate(batch))
        operands, result = [one.evaluate for one in bound], node.type.logical
        types = [_operand_type(node, place, *one) for place, one in enumerate(zip(inner, bound, strict=True))]
        if (user := self._functions.get(node.name.lower())) is not None and not node.is_built_in:
            called = user.bound(types, result, self._sql)
            return lambda batch: called([one(batch) for one in operands], batch.context)
        try:
            function = find(node.name)
        except UnknownFunctionError:
            raise UnsupportedPlanError(
                f"the function {node.name} is not supported. Write the query without it, or register a Python function"
            ) from None

        name, kernel = function.name, function.kernel
        _check_arguments(name, inner, types, result)

        def evaluate(batch: _Batch) -> Column:
            columns = [one(batch) for one in operands]
            try:
                return kernel(Call(name=name, columns=columns, types=types, result=result, context=batch.context))
            except (pa.ArrowInvalid, OverflowError) as error:
                raise FunctionError(f"{name}: {error}") from None

        if name in ("CASE", "IF"):
            return _else_by_rows(evaluate, lambda batch: _case_by_rows(batch, operands, result))
        if name in ("AND", "OR"):
            return _else_by_rows(evaluate, lambda batch: _logic_by_rows(batch, operands, decisive=name == "OR"))
        return evaluate


def _operand_type(node: RexCall, place: int, operand: AnyRexNode, bound: _Bound) -> LogicalType:
    if node.name in _HAVE_JSON_AT and place in _HAVE_JSON_AT[node.name] and _is_call_of(operand, _JSON_CALLS):
        # It becomes a part of the JSON, not a text in it.
        return RAW_JSON.with_nullability(bound.type.nullable)
    _check_is_placed(operand)
    return bound.type


def _check_arguments(
    name: str, operands: Sequence[AnyRexNode], types: Sequence[LogicalType], result: LogicalType
) -> None:
    """Raise UnsupportedPlanError for arguments that Flink refuses when it makes code: the planner lets them pass."""
    if name in ("CAST", "TRY_CAST"):
        try:
            check_cast(types[0], result)
        except InvalidCallError as error:
            raise UnsupportedPlanError(str(error)) from None
    if name not in _CHECKED:
        return
    literals = [literal_value(one) if isinstance(one, RexLiteral) and one.sarg is None else None for one in operands]
    try:
        result_type(name, types, literals)
    except InvalidCallError as error:
        hint = ": write CAST" if any(one.root in CHARACTER_STRING for one in types) else ""
        raise UnsupportedPlanError(f"{error}{hint}") from None


def _is_call_of(node: AnyRexNode, names: Collection[str]) -> bool:
    return isinstance(node, RexCall) and node.is_built_in and node.name in names


def _check_is_placed(node: AnyRexNode) -> None:
    """Raise UnsupportedPlanError for a call of JSON that marks no value of JSON, as Flink does."""
    if _is_call_of(node, ("JSON",)):
        raise UnsupportedPlanError(MISPLACED_JSON)


def _once(number: int, evaluate: _Evaluator) -> _Evaluator:
    def value(batch: _Batch) -> Column:
        if number not in batch.values:
            try:
                batch.values[number] = evaluate(batch)
            except FunctionError as error:
                batch.values[number] = error
        found = batch.values[number]
        if isinstance(found, FunctionError):
            raise found
        return found

    return value


def _input(index: int) -> _Evaluator:
    return lambda batch: batch.columns[index]


def _field(row: _Evaluator, name: str) -> _Evaluator:
    return lambda batch: field_of(row(batch), name)


def _field_type(row: LogicalType, name: str) -> LogicalType:
    field = row.children[row.names.index(name)]
    return field.with_nullability(field.nullable or row.nullable)


def _else_by_rows(evaluate: _Evaluator, by_rows: _Evaluator) -> _Evaluator:
    def value(batch: _Batch) -> Column:
        try:
            return evaluate(batch)
        except FunctionError:
            return by_rows(batch)

    return value


def _part(batch: _Batch, rows: Any) -> _Batch:
    """Return the batch of these rows (indices)."""
    columns = [column if is_constant(column) else column.take(rows) for column in batch.columns]
    context = replace(batch.context, rows=len(rows))
    return _Batch(columns, context, {})


def _spread(rows: Sequence[Any], columns: Sequence[Any], count: int, kind: Any) -> Any:
    """Return a column of `count` rows with the values of these columns at these rows, and NULL elsewhere."""
    if not rows:
        return pa.nulls(count, kind)
    places, values = pa.concat_arrays(rows), pa.concat_arrays([column.cast(kind) for column in columns])
    return values.take(pc.index_in(pa.array(range(count), places.type), value_set=places))


def _case_by_rows(batch: _Batch, operands: Sequence[_Evaluator], result: LogicalType) -> Column:
    rows = batch.context.rows
    left = pa.array(range(rows), pa.int64())
    places, values = [], []
    *pairs, otherwise = operands
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        part = _part(batch, left)
        holds = pc.fill_null(as_array(condition(part), len(left)), False)
        taken, left = left.filter(holds), left.filter(pc.invert(holds))
        if len(taken):
            places.append(taken)
            values.append(as_array(value(_part(batch, taken)), len(taken)))
    if len(left):
        places.append(left)
        values.append(as_array(otherwise(_part(batch, left)), len(left)))
    return _spread(places, values, rows, arrow_type(result))


def _logic_by_rows(batch: _Batch, operands: Sequence[_Evaluator], *, decisive: bool) -> Column:
    """AND and OR: an operand is computed for the rows that those before it have not decided (by False or True)."""
    rows = batch.context.rows
    combine = pc.or_kleene if decisive else pc.and_kleene
    result = pa.array([not decisive] * rows, arrow_type(BOOLEAN))
    for operand in operands:
        open_rows = pa.array(range(rows), pa.int64()).filter(
            pc.invert(pc.fill_null(pc.equal(result, pa.scalar(decisive)), False))
        )
        if not len(open_rows):
            break
        found = as_array(operand(_part(batch, open_rows)), len(open_rows))
        known = pc.is_in(pa.array(range(rows), pa.int64()), value_set=open_rows)
        spread = _spread([open_rows], [found], rows, arrow_type(BOOLEAN))
        result = pc.if_else(known, combine(result, spread), result)
    return result
