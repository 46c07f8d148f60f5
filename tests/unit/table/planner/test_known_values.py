"""Expressions behind a condition: what it says of the rows is not computed again, and all values stay the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.table.planner.plan_documents import CALC, call, document, literal, ref

from penstock.table.functions.registry import Context
from penstock.table.operators.rows.row_expressions import input_columns
from penstock.table.planner.compiled_plan import read_plan
from penstock.table.planner.expressions import Expressions
from penstock.table.planner.known_values import simplified_behind
from penstock.table.planner.nodes.row_nodes import Calc
from penstock.table.planner.rex_nodes import AnyRexNode

KIND, A, B = ref(0, "INT"), ref(1, "INT"), ref(2, "INT")
ROW = ref(3, "ROW<`a` INT>")


def is_(column: Any, value: int | None, kind: str = "INT NOT NULL") -> Any:
    return call("=", "BOOLEAN", column, literal(value, kind))


def case(*operands: Any, kind: str = "INT") -> Any:
    return call("CASE", kind, *operands)


def and_(*operands: Any) -> Any:
    return call("AND", "BOOLEAN", *operands)


def simplified(condition: Any, *expressions: Any) -> tuple[Calc, list[AnyRexNode]]:
    (calc,) = read_plan(document({**CALC, "projection": list(expressions), "condition": condition})).nodes.values()
    assert isinstance(calc, Calc)
    return calc, simplified_behind(calc.condition, calc.projection)


BY_KIND = case(is_(KIND, 0), A, is_(KIND, 1), B, call("+", "INT", A, B))
NOT_KIND = case(call("<>", "BOOLEAN", literal(1, "INT NOT NULL"), KIND), A, B)
FIELD = case(is_(KIND, 0), A, {"kind": "FIELD_ACCESS", "name": "a", "expr": ROW})
CONDITIONS = [
    is_(KIND, 0),
    is_(KIND, 1),
    is_(KIND, 2),
    is_(KIND, None, "INT"),
    is_(KIND, 1, "BIGINT NOT NULL"),
    call("=", "BOOLEAN", literal(1, "INT NOT NULL"), KIND),
    and_(call(">", "BOOLEAN", A, B), and_(is_(KIND, 2), is_(A, 5))),
    and_(is_(KIND, 1), is_(KIND, 2)),
    call("OR", "BOOLEAN", is_(KIND, 1), is_(KIND, 2)),
    call("<>", "BOOLEAN", KIND, literal(1, "INT NOT NULL")),
    call("NOT", "BOOLEAN", is_(KIND, 1)),
]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    "expression", [BY_KIND, NOT_KIND, FIELD, is_(KIND, 1), is_(A, 5), case(is_(KIND, 1), A, B, kind="BIGINT")]
)
def test_rows_that_satisfy_the_condition_have_the_same_values(condition: Any, expression: Any) -> None:
    """A query would have other rows than Flink's, for a few microseconds."""
    calc, fewer = simplified(condition, expression)
    rows = list(product((None, 0, 1, 2), (None, 4, 5), (None, 3, 7), (None, 1)))
    columns = [pa.array(one, pa.int32()) for one in zip(*rows, strict=True)]
    columns[3] = pa.StructArray.from_arrays([columns[3]], ["a"])
    context = Context(rows=len(rows))
    assert calc.condition is not None
    (kept,) = Expressions([calc.condition], {}).evaluate(columns, context)
    kept = (kept if isinstance(kept, pa.Array) else pa.repeat(kept, len(rows))).fill_null(False)
    columns = [one.filter(kept) for one in columns]
    context = Context(rows=kept.true_count)
    values = [Expressions(one, {}).evaluate(columns, context)[0] for one in (calc.projection, fewer)]
    lists = [(one if isinstance(one, pa.Array) else pa.repeat(one, context.rows)).to_pylist() for one in values]
    assert lists[0] == lists[1]


@pytest.mark.parametrize(
    ("condition", "expression", "read"),
    [
        (is_(KIND, 0), BY_KIND, {1}),
        (is_(KIND, 1), BY_KIND, {2}),
        (is_(KIND, 2), BY_KIND, {1, 2}),
        (and_(is_(A, 5), is_(KIND, 1)), NOT_KIND, {2}),
        (is_(KIND, 1), FIELD, {3}),
        (is_(KIND, 0), call("+", "INT", FIELD, literal(1, "INT NOT NULL")), {1}),
        (call("OR", "BOOLEAN", is_(KIND, 1), is_(KIND, 2)), BY_KIND, {0, 1, 2}),
        (is_(KIND, 1, "BIGINT NOT NULL"), BY_KIND, {0, 1, 2}),
    ],
)
def test_columns_that_only_other_rows_need_are_not_read(condition: Any, expression: Any, read: set[int]) -> None:
    """Columns of other kinds would be filtered and computed for each row."""
    assert input_columns(simplified(condition, expression)[1]) == read


def test_a_value_of_another_type_stays_in_its_case() -> None:
    """Rows of INT would leave an operator that has promised BIGINT."""
    _, (kept,) = simplified(is_(KIND, 1), case(is_(KIND, 1), A, B, kind="BIGINT"))
    assert Expressions([kept], {}).types[0].root == "BIGINT"
