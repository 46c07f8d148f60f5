"""Expressions of plans on columns. `tests/table` evaluates those that the planner makes of SQL."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec import structs
from tests.unit.table.planner.plan_documents import CALC, call, document, literal, ref

from penstock.engine.runtime.task.context import OperatorContext
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.registry import Context
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.planner.compiled_plan import read_plan
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.expressions import Expressions, UserFunction
from penstock.table.planner.flat_expressions import flattened
from penstock.table.planner.nodes.row_nodes import Calc
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall

A, B = ref(0, "INT"), ref(1, "INT")
QUOTIENT = call("/", "INT", A, B)


def bound(*expressions: Any, **functions: UserFunction) -> Expressions:
    (calc,) = read_plan(document({**CALC, "projection": list(expressions)})).nodes.values()
    assert isinstance(calc, Calc)
    return Expressions(calc.projection, functions)


def values(expression: Any, *columns: list[Any], **functions: UserFunction) -> list[Any]:
    arrays = [pa.array(one, pa.int32()) for one in columns]
    (column,) = bound(expression, **functions).evaluate(arrays, Context(rows=len(columns[0])))
    found: list[Any] = column.to_pylist()
    return found


def between(*ranges: tuple[int | None, str, int | None, str], null_as: str = "UNKNOWN") -> dict[str, Any]:
    def end(value: int | None, kind: str) -> dict[str, Any] | None:
        return None if value is None else {"value": value, "boundType": kind}

    listed = [{"lower": end(low, left), "upper": end(high, right)} for low, left, high, right in ranges]
    sarg = {"kind": "LITERAL", "sarg": {"ranges": listed, "nullAs": null_as}, "type": "INT NOT NULL"}
    return call("SEARCH", "BOOLEAN", A, sarg)


def point(value: int) -> tuple[int, str, int, str]:
    return value, "CLOSED", value, "CLOSED"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (between(point(1)), [True, False, False, None]),
        (between(point(1), point(3)), [True, False, True, None]),
        (between((1, "OPEN", 3, "CLOSED")), [False, True, True, None]),
        (between((None, "OPEN", 2, "OPEN"), (2, "OPEN", None, "OPEN")), [True, False, True, None]),
        (between((None, "OPEN", None, "OPEN")), [True, True, True, False]),
        (between(point(1), (3, "CLOSED", None, "OPEN"), null_as="TRUE"), [True, False, True, True]),
        (between(point(1), null_as="FALSE"), [True, False, False, False]),
    ],
)
def test_sets_of_values(expression: dict[str, Any], expected: list[Any]) -> None:
    """IN and BETWEEN would hold for other values, or for NULL."""
    assert values(expression, [1, 2, 3, None]) == expected


def test_branches_are_computed_where_they_are_needed() -> None:
    """A job would fail at a division that the query avoids."""
    zero, otherwise = literal(0, "INT NOT NULL"), literal(-1, "INT NOT NULL")
    safe = call("CASE", "INT", call("<>", "BOOLEAN", B, zero), QUOTIENT, otherwise)
    assert values(safe, [6, 6, 6], [0, 3, None]) == [-1, 2, -1]
    with pytest.raises(FunctionError, match="by zero"):
        values(QUOTIENT, [6], [0])


@pytest.mark.parametrize(
    ("name", "first", "expected"), [("AND", "<>", [False, True, None, False]), ("OR", "=", [True, True, None, False])]
)
def test_conditions_are_computed_where_they_are_needed(name: str, first: str, expected: list[Any]) -> None:
    """As above: `b <> 0 AND a / b > 1` divides by no zero."""
    guard = call(first, "BOOLEAN", B, literal(0, "INT NOT NULL"))
    expression = call(name, "BOOLEAN", guard, call(">", "BOOLEAN", QUOTIENT, literal(1, "INT NOT NULL")))
    assert values(expression, [6, 6, 6, 6], [0, 3, None, 6]) == expected


def test_a_common_part_is_computed_once() -> None:
    """A function would run several times for a row."""
    calls = []

    class Counted:
        deterministic = True

        def bound(self, types: Any, result: Any, sql: str) -> Any:
            def counted(columns: Any, _: Any) -> Any:
                calls.append(len(columns[0]))
                return columns[0]

            return counted

    part = {"kind": "CALL", "systemName": "counted", "operands": [A], "type": "INT"}
    expressions = bound(part, call("+", "INT", part, part), counted=Counted())
    first, total = expressions.evaluate([pa.array([1, 2], pa.int32())], Context(rows=2))
    assert (first.to_pylist(), total.to_pylist(), calls) == ([1, 2], [2, 4], [2])
    expressions.evaluate([pa.array([1], pa.int32())], Context(rows=1))
    assert calls == [2, 1]


def test_fields_of_the_outer_row_are_columns() -> None:
    """LATERAL TABLE (f(t.b)) would get no arguments."""
    outer = {"kind": "CORREL_VARIABLE", "correl": "$cor0", "type": "ROW<`a` INT, `b` INT> NOT NULL"}
    field = {"kind": "FIELD_ACCESS", "name": "b", "expr": outer}
    assert values(call("+", "INT", field, A), [1, 2], [10, None]) == [11, None]
    with pytest.raises(UnsupportedPlanError, match="the row of an outer query is not supported here"):
        bound(outer)


@pytest.mark.parametrize("part", [slice(None), slice(0, 2), slice(1, 4), slice(3, 5), slice(2, 3)])
@pytest.mark.parametrize("with_null_rows", [False, True])
def test_fields_of_rows_that_are_part_of_a_batch(part: slice, with_null_rows: bool) -> None:
    """A part would have the values of the batch's first rows, and a row that is NULL the value below it."""
    kind = "ROW<`a` INT, `b` INT>"
    field = {"kind": "FIELD_ACCESS", "name": "b", "expr": ref(0, kind)}
    numbers, others = pa.array([1, 2, 3, 4, 5], pa.int32()), pa.array([10, None, 30, 40, 50], pa.int32())
    mask = pa.array([False, True, False, False, True]) if with_null_rows else None
    rows = pa.StructArray.from_arrays([numbers, others], ["a", "b"], mask=mask)[part]
    (found,) = bound(field).evaluate([rows], Context(rows=len(rows)))
    assert found.to_pylist() == [None if row is None else row["b"] for row in rows.to_pylist()]
    (constant,) = bound(field).evaluate([rows[0]], Context(rows=len(rows)))
    assert constant.as_py() == found[0].as_py()


def test_the_watermark_is_the_contexts() -> None:
    """CURRENT_WATERMARK would be that of another operator, also in a branch that is computed by rows."""
    watermark = call("CURRENT_WATERMARK", "TIMESTAMP(3)", ref(2, "TIMESTAMP(3)"))
    late = call("<=", "BOOLEAN", ref(2, "TIMESTAMP(3)"), watermark)
    by_rows = call(
        "AND", "BOOLEAN", call("<>", "BOOLEAN", B, literal(0, "INT NOT NULL")), call("=", "BOOLEAN", QUOTIENT, A)
    )
    expressions = bound(watermark, late, call("AND", "BOOLEAN", by_rows, late))
    times = pa.array([1_000, 3_000], pa.timestamp("ms"))
    columns = [pa.array([4, 4], pa.int32()), pa.array([1, 0], pa.int32()), times]
    current, is_late, both = expressions.evaluate(columns, Context(rows=2, watermark_ms=2_000))
    assert current == pa.scalar(2_000, pa.timestamp("ms"))
    assert (is_late.to_pylist(), both.to_pylist()) == ([True, False], [True, False])
    current, is_late, _ = expressions.evaluate(columns, Context(rows=2))
    assert (current.as_py(), is_late.to_pylist()) == (None, [None, None])


def test_chance_is_not_shared() -> None:
    """`UUID()` in two columns would give one value."""
    unique = call("UUID", "CHAR(36) NOT NULL")
    first, second = bound(unique, unique).evaluate([pa.array([1], pa.int32())], Context(rows=1))
    assert first.to_pylist() != second.to_pylist()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (call("TELEPORT", "INT", A), "the function TELEPORT is not supported"),
        ({"kind": "CALL", "systemName": "mine", "operands": [A], "type": "INT"}, "the function mine is not supported"),
        ({"kind": "CORREL_VARIABLE", "correl": "$cor0", "type": "INT"}, "row of an outer query"),
        (literal([1, 2], "ROW<`a` INT, `b` INT> NOT NULL"), "node 'calc' .* has a part that is not supported"),
    ],
)
def test_what_can_not_be_computed_is_refused(expression: dict[str, Any], message: str) -> None:
    """A job would start, and fail at its first record."""
    with pytest.raises(UnsupportedPlanError, match=message):
        bound(expression)


def sum_of(terms: int, innermost: dict[str, Any]) -> AnyRexNode:
    """Return a + ... + a, as deeply nested as it has terms. A document can't be nested so deeply everywhere."""
    (calc,) = read_plan(document({**CALC, "projection": [call("+", "INT", A, A), innermost]})).nodes.values()
    assert isinstance(calc, Calc)
    plus, found = calc.projection
    assert isinstance(plus, RexCall)
    for _ in range(terms):
        found = structs.replace(plus, operands=(found, plus.operands[0]))
    return found


def test_a_sum_of_hundreds_of_columns() -> None:
    """Calls are nested as deeply as a sum has terms: Python's stack ended at 200, while planning or in a task."""
    made = pickle.loads(pickle.dumps(RowExpressions([sum_of(900, A), sum_of(899, A)])))
    made.open(cast(OperatorContext, None))  # Only functions of users read it.
    columns = made.evaluate([pa.array([1, 2, None], pa.int32())], 3, now_ms=0, watermark_ms=None)
    assert [column.to_pylist() for column in columns] == [[901, 1802, None], [900, 1800, None]]
    with pytest.raises(FunctionError, match="by zero"):
        Expressions([sum_of(900, QUOTIENT)]).evaluate([pa.array([1]), pa.array([0])], Context(rows=1))


@pytest.mark.parametrize("name", ["RAND", "?"])
def test_parts_are_the_expressions_again(name: str) -> None:
    """An operator would compute something else in a task than in the plan; equal parts are there once."""
    varying = call(name, "INT") if name == "RAND" else between(point(3))
    field = {"kind": "FIELD_ACCESS", "name": "f", "expr": ref(0, "ROW<`f` INT>")}
    plan = document({**CALC, "projection": [varying, call("+", "INT", QUOTIENT, call("-", "INT", QUOTIENT, field)), A]})
    (calc,) = read_plan(plan).nodes.values()
    assert isinstance(calc, Calc)
    flat = flattened([*calc.projection, *calc.projection])
    assert flat.expressions() == (*calc.projection, *calc.projection)
    assert len(flat.parts) == len({*flat.parts}) < 10
    assert len(flattened([sum_of(500, A)]).parts) == 501
