"""Conditions on columns give what they give on records."""

from __future__ import annotations

from typing import Any

import pyarrow
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cep import Expression, field
from penstock.cep.evaluation import compiled
from penstock.cep.operators.column_predicates import holds, on_columns

SCHEMA = pyarrow.schema(
    [
        ("i", pyarrow.int64()),
        ("u", pyarrow.uint8()),
        ("f", pyarrow.float64()),
        ("s", pyarrow.string()),
        ("b", pyarrow.bool_()),
    ]
)
INTS = st.sampled_from([0, 1, -1, 5, 2**53 + 1, 2**63 - 1, -(2**63)])
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 5.0, -1.5, float("nan"), float("inf"), 2.0**53])
TEXTS = st.sampled_from(["", "a", "ab", "b", "é", "z\x00", "𝄞", "\uffff"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | INTS,
            "u": st.none() | st.sampled_from([0, 1, 255]),
            "f": st.none() | FLOATS,
            "s": st.none() | TEXTS,
            "b": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=8,
)
CONSTANTS = st.sampled_from(
    [None, True, False, 0, 1, -1, 255, 256, 2**53 + 1, 2**63, 0.0, -0.0, 1.0, 1.5, "", "a", "b", "é"]
)
FIELDS = st.sampled_from([field(name) for name in SCHEMA.names])
SYMBOLS = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "starts_with", "ends_with", "contains"])


@st.composite
def simple(draw: st.DrawFn) -> Expression:
    one = draw(FIELDS)
    match draw(st.integers(0, 3)):
        case 0:
            return one.is_in(draw(st.lists(CONSTANTS, max_size=3)))
        case 1:
            return one.is_null()
        case 2:
            constant = Expression("value", draw(CONSTANTS))
            return Expression(draw(SYMBOLS), *((one, constant) if draw(st.booleans()) else (constant, one)))
    return field("b")


EXPRESSIONS = st.recursive(
    simple(),
    lambda inner: (
        st.builds(lambda a, b: a & b, inner, inner)
        | st.builds(lambda a, b: a | b, inner, inner)
        | st.builds(lambda a: ~a, inner)
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, ROWS)
def test_a_condition_on_columns_is_the_one_on_records(expression: Expression, rows: list[dict[str, Any]]) -> None:
    """A job would find other matches, since its stream has columns."""
    evaluate = on_columns(expression, SCHEMA)
    if evaluate is not None:
        batch = pyarrow.RecordBatch.from_pylist(rows, SCHEMA)
        of_record = compiled(expression)
        assert holds(evaluate, batch).tolist() == [of_record(row) is True for row in rows]


def test_a_list_with_zero_has_both_zeros() -> None:
    """Arrow tells 0.0 and -0.0 apart in lists, and Python does not."""
    for zero in (0, 0.0, -0.0):
        evaluate = on_columns(field("f").is_in([zero, 5.0]), SCHEMA)
        assert evaluate is not None
        batch = pyarrow.RecordBatch.from_pylist([{"f": one} for one in (0.0, -0.0, 5.0, 1.0, None)], SCHEMA)
        assert holds(evaluate, batch).tolist() == [True, True, True, False, False]


def test_which_conditions_are_computed_on_columns() -> None:
    """A usual condition would make records of all rows, and cost ten times as much; or an inexact one would not."""
    on = [
        field("i") > 5,
        field("f") <= 5,
        field("s") == "a",
        Expression("<", Expression("value", 5), field("u")),
        field("s").starts_with("a"),
        field("b"),
    ]
    off = [
        field("i") > 5.5,
        field("f") > 2**53 + 1,
        field("i") + 1 > 5,
        field("s") > 5,
        field("u") == 256,
        field("x") > 1,
    ]

    assert all(on_columns(one, SCHEMA) for one in [*on, ~(on[0] & on[2]), field("i").is_in([1, None])])
    assert not any(on_columns(one, SCHEMA) for one in [*off, on[0] & off[0]])
