"""Expressions: values, unknown values, refusals, JSON, limits."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cep import Expression, MalformedPatternError, expression_from_json, expression_to_json, field
from penstock.cep.evaluation import compiled
from penstock.cep.expressions import BINARY, DEPTH_MAX, NODES_MAX, UNARY
from penstock.common.types import Row


@dataclass
class Payment:
    amount: float | None
    kind: str = "card"


def value(expression: Expression, **fields: Any) -> Any:
    return compiled(expression)(fields)


def test_fields_are_read_from_each_kind_of_record() -> None:
    """A condition would fail on rows, or on objects."""
    large = compiled(field("amount") > 500)

    assert [large({"amount": 501}), large(Payment(500.0)), large(Row(amount=900))] == [True, False, True]


def test_operators_compute() -> None:
    """A rule would select other events than it says."""
    a, b = field("a"), field("b")

    assert value((a + 1) * 2 - b / 4 == 2 * a + 1, a=3, b=4)
    assert value((10 - a) % 4 >= b, a=3, b=3)
    assert value((a != b) & ~(a > b) | (a == 0), a=1, b=2)
    assert value(a.is_in([1, "x"]), a="x") is True
    assert value(a.starts_with("ab") & a.ends_with("c") & a.contains("b"), a="abc")
    assert [value(a.is_null(), a=None), value(a.is_not_null(), a=None)] == [True, False]
    assert [value(1 / a, a=2), value(1 + a, a=2), value(True & (a > 1), a=2), value(False | (a > 1), a=2)] == [
        0.5,
        3,
        True,
        True,
    ]


def test_unknown_values_follow_sql() -> None:
    """An event without a value would meet `amount < 5`, or fail the job."""
    a, b = field("a"), field("b")

    assert value(a < 5, a=None) is None
    assert value(~(a < 5), a=None) is None
    assert value(a + 1 == b, a=1, b=None) is None
    assert value(a.is_in([1]), a=None) is None
    assert value((a < 5) & (b < 5), a=None, b=9) is False
    assert value((b < 5) & (a < 5), a=None, b=9) is False
    assert value((a < 5) | (b < 5), a=None, b=1) is True
    assert value((a < 5) & (b < 5), a=None, b=1) is None
    assert value((a < 5) | (b < 5), a=None, b=9) is None


def test_the_second_condition_is_not_evaluated_if_the_first_decides() -> None:
    """Events of different kinds in one stream would need all fields of all kinds."""
    assert value((field("kind") == "pay") & (field("amount") > 5), kind="log") is False
    assert value((field("kind") == "log") | (field("amount") > 5), kind="log") is True


def test_values_of_the_wrong_type_are_errors() -> None:
    """A rule would build texts of any length, or never hold without a word."""
    with pytest.raises(TypeError, match="takes numbers"):
        value(field("a") * 1_000, a="x")
    with pytest.raises(TypeError, match="takes numbers"):
        value(field("a") % 2, a="%s")
    with pytest.raises(TypeError, match="takes texts"):
        value(field("a").contains(field("b")), a="x", b=[])
    with pytest.raises(TypeError, match="combine conditions"):
        value(field("a") & True, a=5)
    with pytest.raises(KeyError):
        value(field("a") > 1, b=5)


@pytest.mark.parametrize("value", [[1], (1,), b"a", bytearray(1)])
def test_collections_are_no_numbers(value: object) -> None:
    """A rule from outside that multiplies a list of an event by a thousand million would fill the memory."""
    with pytest.raises(TypeError, match="takes numbers"):
        compiled(field("tags") * 10**9)({"tags": value})
    with pytest.raises(TypeError, match="takes numbers"):
        compiled(10**9 * field("tags"))({"tags": value})


def test_an_expression_is_no_python_condition() -> None:
    """`a > 1 and b > 2` would mean `b > 2`, `0 < a < 5` would mean `a < 5`."""
    with pytest.raises(MalformedPatternError, match="combine expressions with &"):
        bool(field("a") > 1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(field("a"))


@pytest.mark.parametrize("constant", [object(), [1], float("nan"), float("inf"), "x" * 10_001, 1 << 300, b"x"])
def test_constants_of_other_types_and_sizes_are_refused(constant: object) -> None:
    """A rule could not be sent as JSON, or would cost any amount of memory."""
    with pytest.raises(MalformedPatternError, match="as constants"):
        _ = field("a") == constant


@pytest.mark.parametrize("name", ["", "_secret", "__class__", 5])
def test_names_of_no_field_are_refused(name: Any) -> None:
    """A rule from outside would read what is private of an event."""
    with pytest.raises(MalformedPatternError, match="name of a field"):
        field(name)


def test_an_expression_shows_what_it_means() -> None:
    """A plan would show an object's address."""
    expression = (field("a") > 1) & ~field("b").is_in(["x"]) | field("c").is_null()

    assert repr(expression) == "((a > 1 and not b in ['x']) or c is null)"
    assert repr(field("a") * 2 >= 4) == "(a * 2) >= 4"


def test_large_expressions_are_refused() -> None:
    """A rule from outside would cost more time per event than the stream has."""
    deep = field("a") > 1
    with pytest.raises(MalformedPatternError, match=f"depth of {DEPTH_MAX}"):
        for _ in range(DEPTH_MAX):
            deep = ~deep
    wide = field("a") > 1
    with pytest.raises(MalformedPatternError, match=f"at most {NODES_MAX} parts"):
        for _ in range(DEPTH_MAX):
            wide = wide | wide


CONSTANTS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3)
EXPRESSIONS = st.recursive(
    st.sampled_from("abc").map(field) | CONSTANTS.map(lambda constant: Expression("value", constant)),
    lambda parts: st.one_of(
        st.builds(Expression, st.sampled_from(BINARY), parts, parts),
        st.builds(Expression, st.sampled_from(UNARY), parts),
        st.builds(lambda part, among: part.is_in(among), parts, st.lists(CONSTANTS, max_size=3)),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
def test_json_and_pickle_give_the_same_expression(expression: Expression) -> None:
    """A rule that is sent to a running job would mean something else there."""
    text = expression_to_json(expression)

    assert repr(expression_from_json(text)) == repr(expression)
    assert expression_to_json(expression_from_json(text)) == text
    assert repr(pickle.loads(pickle.dumps(expression))) == repr(expression)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"),
        ("[", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("9" * 5_000, "not valid JSON"),
        ("5", r"\$: expected"),
        ('{"value": NaN}', "NaN is not JSON"),
        ('{"value": [1]}', "as constants"),
        ('{"field": "__class__"}', "name of a field"),
        ('{"field": "a", "more": 1}', r"\$: expected"),
        ('{"op": "eval", "args": []}', "one of the operations"),
        ('{"op": ">", "args": [{"field": "a"}]}', "takes 2 arguments, got 1"),
        ('{"op": ">", "args": [{"field": "a"}, 5]}', r"\$\.args\[1\]: expected"),
        ('{"op": "in", "args": [{"field": "a"}, {"value": 1}]}', r'\{"values"'),
        ('{"op": "not", "args": [' * 60 + '{"field": "a"}' + "]}" * 60, "depth"),
        (json.dumps({"value": "x" * 20_000}), "as constants"),
        ('"' + "x" * 1_000_001 + '"', "at most 1000000 characters"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, message: str) -> None:
    """A malformed rule would end the job, or run as code."""
    with pytest.raises(MalformedPatternError, match=message):
        expression_from_json(text)
