"""Arithmetic, rounding and logic of SQL where they differ from Python's or Arrow's."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.unit.table.sql_evaluation import evaluate, type_of

from penstock.table.functions.errors import FunctionError

INT_MIN = -(2**31)


def test_integers_wrap() -> None:
    """Flink's sums overflow as Java's; a job would fail, or give a wider number, where Flink's goes on."""
    assert evaluate("a + 1", a=("INT", [2**31 - 1, 1, None])) == [INT_MIN, 2, None]
    assert evaluate("a / -1", a=("INT", [INT_MIN, 7])) == [INT_MIN, -7]
    assert evaluate("-a", a=("INT", [INT_MIN])) == [INT_MIN]


def test_integers_divide_toward_zero() -> None:
    """Python floors: -7 / 2 would be -4, and the remainder have the other sign."""
    assert evaluate("a / 2", a=("INT", [-7, 7])) == [-3, 3]
    assert evaluate("MOD(a, 3)", a=("BIGINT", [-7, 7])) == [-1, 1]


def test_a_division_by_zero_fails() -> None:
    """The row would become NULL without notice."""
    with pytest.raises(FunctionError, match="by zero"):
        evaluate("a / b", a=("INT", [1]), b=("INT", [0]))
    assert evaluate("a / b", a=("DOUBLE", [1.0]), b=("DOUBLE", [0.0])) == [math.inf]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a + b", "DECIMAL(12, 3)"),
        ("a * b", "DECIMAL(16, 5)"),
        ("a / b", "DECIMAL(19, 8)"),
        ("a * 2", "DECIMAL(21, 2)"),
        ("a * d", "DOUBLE"),
        ("w * w", "DECIMAL(38, 6)"),
    ],
)
def test_decimals_have_flinks_precision(expression: str, expected: str) -> None:
    """A sink would refuse the column, or rows be rounded at another digit."""
    kinds = {"a": "DECIMAL(10, 2)", "b": "DECIMAL(5, 3)", "d": "DOUBLE", "w": "DECIMAL(38, 10)"}
    assert type_of(expression, **kinds) == expected


def test_decimals_are_exact_and_null_when_too_large() -> None:
    """Amounts would be off by a cent, or a job fail for one large row."""
    assert evaluate("a / 3", a=("DECIMAL(10, 2)", [Decimal("10.00"), None])) == [Decimal("3.3333333333333"), None]
    largest = Decimal("9" * 38)
    assert evaluate("a + 1", a=("DECIMAL(38, 0)", [largest, Decimal(1)])) == [None, Decimal(2)]


def test_decimals_round_half_up() -> None:
    """Bankers' rounding, which is Python's, would take 2.5 to 2."""
    halves = ("DECIMAL(3, 1)", [Decimal("2.5"), Decimal("-2.5"), Decimal("99.5")])
    assert evaluate("ROUND(a)", a=halves) == [3, -3, 100]
    assert evaluate("ROUND(a, -1)", a=("INT", [15, -15])) == [20, -20]
    assert evaluate("ROUND(a, b)", a=("DOUBLE", [2.345, 25.0]), b=("INT", [2, -1])) == [2.35, 30.0]
    assert evaluate("FLOOR(a)", a=halves) == [2, -3, 99]
    assert evaluate("CEIL(a)", a=halves) == [3, -2, 100]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a AND b", [True, False, None, False, False, False, None, False, None]),
        ("a OR b", [True, True, True, True, False, None, True, None, None]),
        ("a IS NOT TRUE", [False, False, False, True, True, True, True, True, True]),
        ("NOT a", [False, False, False, True, True, True, None, None, None]),
        ("a IS DISTINCT FROM b", [False, True, True, True, False, True, True, True, False]),
    ],
)
def test_logic_has_three_values(expression: str, expected: list[Any]) -> None:
    """A filter would keep or drop rows with NULL that Flink treats otherwise."""
    first = [value for value in (True, False, None) for _ in range(3)]
    assert evaluate(expression, a=("BOOLEAN", first), b=("BOOLEAN", [True, False, None] * 3)) == expected


def test_in_is_unknown_if_null_is_listed() -> None:
    """`NOT IN` with a NULL would let all rows through."""
    numbers = ("INT", [1, 2, None])
    assert evaluate("a IN (1, 3)", a=numbers) == [True, False, None]
    assert evaluate("a IN (1, CAST(NULL AS INT))", a=numbers) == [True, None, None]
    assert evaluate("a NOT IN (1, 3)", a=numbers) == [False, True, None]
    assert evaluate("a BETWEEN 2 AND 3", a=numbers) == [False, True, None]


def test_a_case_takes_the_first_true_condition() -> None:
    """A condition that is NULL would be taken for true, or a later branch win."""
    numbers = ("INT", [1, 2, 3, None])
    assert evaluate("CASE WHEN a < 2 THEN 'x' WHEN a < 3 THEN 'yy' ELSE 'z' END", a=numbers) == ["x", "yy", "z", "z"]
    assert evaluate("CASE a WHEN 1 THEN 10 END", a=numbers) == [10, None, None, None]
    assert evaluate("NULLIF(a, 2)", a=numbers) == [1, None, 3, None]
    assert evaluate("GREATEST(a, 2)", a=numbers) == [2, 2, 3, None]
    days = [datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)]
    assert evaluate("LEAST(a, b)", a=("TIMESTAMP_LTZ(3)", days), b=("TIMESTAMP_LTZ(3)", days[::-1])) == [days[1]] * 2


def test_chance_with_a_seed_is_javas() -> None:
    """A query with a seed would give other rows than in Flink."""
    assert evaluate("RAND(10)") == [0.7304302967434272]
    assert evaluate("RAND_INTEGER(5, 10)") == [7]
