"""Expressions over the values of one row: the same as the functions of columns, which are the oracle."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow
import pytest

from penstock.common.columns.to_values import python_values
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import as_array
from penstock.table.logical_types import BOOLEAN, parse
from penstock.table.operators.matching.scalar_expressions import ScalarExpression
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.planner.data_types import DataType
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexInputRef, RexLiteral

TYPES = [
    parse(text)
    for text in ("INT", "BIGINT", "DOUBLE", "STRING", "BOOLEAN", "DECIMAL(10, 2)", "TIMESTAMP(3)", "SMALLINT", "FLOAT")
]
START = datetime(2024, 1, 1)
VALUES: list[list[Any]] = [
    [None, 0, 1, -7, 2**31 - 1, -(2**31)],
    [None, 0, 3, -2, 2**63 - 1, -(2**63), 2**53 + 1],
    [None, 0.0, -0.0, 1.5, float("nan"), float("inf"), 9007199254740992.0],
    [None, "", "a", "b", "ß", "z\U0001f600"],
    [None, True, False],
    [None, Decimal("0.00"), Decimal("1.50"), Decimal("-3.00")],
    [None, START, START + timedelta(milliseconds=1)],
    [None, 0, 1, 2**15 - 1, -(2**15)],
    [None, 0.5, -1.25],
]
NUMBERS = (0, 1, 2, 7)


def call(name: str, kind: Any, *operands: AnyRexNode) -> RexCall:
    return RexCall(operands=operands, type=DataType(kind), internal_name=f"${name}$1")


def reference(place: int) -> RexInputRef:
    return RexInputRef(index=place, type=DataType(TYPES[place]))


def number(random: Random, depth: int) -> tuple[AnyRexNode, int]:
    """A random expression of numbers, with the place of its type among NUMBERS."""
    if depth == 0 or random.random() < 0.3:
        place = random.choice(NUMBERS)
        if random.random() < 0.2:
            literal = RexLiteral(value=random.choice([1, 2, 10]), type=DataType(TYPES[place]))
            return literal, place
        return reference(place), place
    (first, one), (second, other) = number(random, depth - 1), number(random, depth - 1)
    # DOUBLE is the widest, then BIGINT, INT and SMALLINT.
    widest = next(place for place in (2, 1, 0, 7) if place in (one, other))
    return call(random.choice("+-*"), TYPES[widest], first, second), widest


def condition(random: Random, depth: int) -> AnyRexNode:
    if depth and random.random() < 0.5:
        name = random.choice(["AND", "OR", "NOT"])
        count = 1 if name == "NOT" else random.randint(2, 3)
        return call(name, BOOLEAN, *(condition(random, depth - 1) for _ in range(count)))
    match random.randrange(5):
        case 0:
            place = random.randrange(len(TYPES))
            return call(random.choice(["IS NULL", "IS NOT NULL"]), BOOLEAN, reference(place))
        case 1:
            place = random.choice([3, 4, 5, 6, 8])
            return call(random.choice(["=", "<>", "<", ">="]), BOOLEAN, reference(place), reference(place))
        case 2:
            return call(random.choice(["<", "="]), BOOLEAN, reference(5), reference(random.choice([0, 1, 7])))
        case 3:
            return call(
                "=", BOOLEAN, call("UPPER", TYPES[3], reference(3)), RexLiteral(value="A", type=DataType(TYPES[3]))
            )
        case _:
            compare = random.choice(["=", "<>", "<", "<=", ">", ">="])
            return call(compare, BOOLEAN, number(random, 2)[0], number(random, 2)[0])


def by_columns(expression: AnyRexNode, values: list[Any]) -> Any:
    columns = [pyarrow.array([value], arrow_type(kind)) for value, kind in zip(values, TYPES, strict=True)]
    (found,) = RowExpressions([expression]).evaluate(columns, 1, now_ms=0, watermark_ms=None)
    return python_values(as_array(found, 1))[0]


@pytest.mark.parametrize("seed", range(6))
def test_expressions_are_those_of_columns(seed: int) -> None:
    """A condition of a pattern would hold for other rows than the same condition in WHERE."""
    random = Random(seed)
    for _ in range(60):
        expression = condition(random, 2) if random.random() < 0.7 else number(random, 3)[0]
        scalar = pickle.loads(pickle.dumps(ScalarExpression(expression, TYPES)))
        for _ in range(8):
            values = [random.choice(of) for of in VALUES]
            right = by_columns(expression, values)
            assert repr(scalar.value(values, 0)) == repr(right), (expression, values)


@pytest.mark.parametrize(
    ("first", "second", "result"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-(2**31), -1, -(2**31)), (None, 0, None), (1, None, None)],
)
def test_quotients_are_those_of_columns(first: Any, second: Any, result: Any) -> None:
    """An average of integers would be rounded down instead of towards zero."""
    values = [first, *([None] * 6), second, None]
    expression = call("/", TYPES[0], reference(0), reference(7))
    assert ScalarExpression(expression, TYPES).value(values, 0) == result == by_columns(expression, values)


def test_a_quotient_by_zero_is_an_error() -> None:
    """It would be an error of Python's, or a value."""
    expression = call("/", TYPES[0], reference(0), reference(7))
    scalar = ScalarExpression(expression, TYPES)
    with pytest.raises(ValueError, match="zero"):
        scalar.value([1, *([None] * 6), 0, None], 0)
