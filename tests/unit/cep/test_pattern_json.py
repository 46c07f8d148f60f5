"""Patterns as JSON, both ways, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cep import (
    AfterMatchSkipStrategy,
    MalformedPatternError,
    Pattern,
    WithinType,
    expression_from_json,
    expression_to_json,
    field,
    pattern_from_json,
    pattern_to_json,
)
from penstock.cep.automata import automaton_of
from penstock.cep.rules import read_rule

SMALL = {"op": "<", "args": [{"field": "amount"}, {"value": 5}]}


def whole() -> Pattern[Any, Any]:
    """A pattern with everything that JSON can say."""
    group = Pattern.begin("x").where(field("x") == 1).followed_by("y").where(field("y").is_in([1, 2])).optional()
    return (
        Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("a").throw_exception_on_miss())
        .where(field("amount") < 5)
        .or_(field("kind") == "test")
        .times(2, 4, 30)
        .consecutive()
        .greedy()
        .not_next("n")
        .where(field("kind").starts_with("n"))
        .followed_by_any("b")
        .one_or_more()
        .allow_combinations()
        .until(field("end").is_null())
        .followed_by(group)
        .times(0, 3)
        .next("c")
        .within(10, WithinType.PREVIOUS_AND_CURRENT)
        .not_followed_by("d")
        .within(100)
    )


def test_a_pattern_survives_json() -> None:
    """A rule that a program writes would be another one where it is read."""
    pattern = whole()
    read = pattern_from_json(pattern_to_json(pattern))

    assert read.draw() == pattern.draw()
    assert pattern_to_json(read) == pattern_to_json(pattern)
    assert read.get_after_match_skip_strategy() == pattern.get_after_match_skip_strategy()


def test_code_is_not_written() -> None:
    """A rule would lose its condition, and match everything."""
    with pytest.raises(MalformedPatternError, match=r"step 'a'.*is code"):
        pattern_to_json(Pattern.begin("a").where(lambda e: e > 1))
    with pytest.raises(MalformedPatternError, match="is code"):
        pattern_to_json(Pattern.begin("a").where(field("a") > 1).where(lambda e, ctx: True))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], r"\$: expected an object"),
        ({"steps": []}, r"\$.steps: expected a list of 1 to"),
        ({"steps": [{}]}, r"\$.steps\[0\]: a step has a name, or is a group"),
        ({"steps": [{"name": "a", "code": "1"}]}, r"\$.steps\[0\]: expected keys among"),
        ({"steps": [{"name": ""}]}, r"\$.steps\[0\]: expected the name"),
        ({"steps": [{"name": "a", "contiguity": "next"}]}, r"contiguity: only later steps have one"),
        ({"steps": [{"name": "a"}, {"name": "b", "contiguity": ["next"]}]}, r"\[1\].contiguity: expected one of next"),
        ({"steps": [{"name": "a"}, {"name": "a"}]}, r"\[1\]: the pattern has two steps 'a'"),
        ({"steps": [{"name": "a", "where": {"eval": "1"}}]}, r"\$.steps\[0\].where: expected"),
        ({"steps": [{"name": "a", "where": SMALL, "times": [2]}]}, r"times: expected \[least, most\]"),
        ({"steps": [{"name": "a", "times": [1, 10**9]}]}, r"at most 1000 repetitions"),
        ({"steps": [{"group": [{"name": "a", "times": [1, 100]}], "times": [100, 100]}]}, r"at most 1000 repetitions"),
        ({"steps": [{"name": "a", "times": [3, 2]}]}, r"times\(\) takes a positive number"),
        ({"steps": [{"name": "a", "greedy": True}]}, r"greedy\(\) needs a step that repeats"),
        ({"steps": [{"name": "a", "optional": "yes"}]}, r"optional: expected true or false"),
        ({"steps": [{"name": "a", "inner": "x", "times": [1, 2]}]}, r"inner: expected one of"),
        ({"steps": [{"name": "a"}], "within_ms": 1.5}, r"within_ms: expected a time in milliseconds"),
        ({"steps": [{"name": "a"}], "skip": {"kind": "x"}}, r"\$.skip.kind: expected one of"),
        ({"steps": [{"name": "a"}], "skip": {"kind": "skip_to_first", "step": "b"}}, r"no step of that name"),
        ({"steps": [{"name": "a"}, {"name": "n", "contiguity": "not_followed_by"}]}, r"needs within"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_with_its_position(tree: Any, message: str) -> None:
    """A rule with a slip would match something else, or end the job."""
    with pytest.raises(MalformedPatternError, match=message):
        pattern_from_json(json.dumps(tree))


def test_texts_that_are_no_json_are_refused() -> None:
    """A text from outside would raise an error that nobody catches."""
    for text in ("", "{", "[" * 100_000, '{"steps": [{"name": "a", "where": {"value": NaN}}]}', b"\xff"):
        with pytest.raises(MalformedPatternError, match="not valid JSON"):
            pattern_from_json(text)
    with pytest.raises(MalformedPatternError, match="at most 1000000 characters"):
        pattern_from_json(" " * 1_000_001)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "b", "next", "skip_to_next", ""]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["name", "group", "times", "where", "until", "steps", "skip", "kind"]), inner),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(JSON)
def test_any_json_is_read_or_refused(tree: Any) -> None:
    """A rule from outside would end a job with another error."""
    for text in map(json.dumps, (tree, {"steps": tree}, {"steps": [{"name": "a"}, tree]})):
        with contextlib.suppress(MalformedPatternError):
            pattern_from_json(text)


@pytest.mark.parametrize("given", [None, 5, 1.5, [], {}, object, whole()])
def test_what_is_no_text_is_refused(given: Any) -> None:
    """A caller that catches the error of malformed rules would meet a bare TypeError."""
    for read in (pattern_from_json, expression_from_json, read_rule):
        with pytest.raises(MalformedPatternError, match=f"is a JSON text, got {type(given).__name__}"):
            read(given)


@pytest.mark.parametrize("write", [pattern_to_json, expression_to_json])
def test_what_is_no_pattern_or_expression_is_not_written(write: Any) -> None:
    """A slip in a program would show as an AttributeError from inside."""
    with pytest.raises(MalformedPatternError, match="got NoneType None"):
        write(None)


WRONG = (None, True, -1, 0, 1.5, 10**100, "", "x", "\ud800", "next", [], [[]], [None, 1], {}, {"x": 1}, {"value": []})


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a tree of dicts and lists."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, value in inner for found in places(value, (*path, key)))]


def replaced(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


def test_a_value_of_any_kind_at_any_place_is_read_or_refused() -> None:
    """A rule from outside would end a job with another error, again after each restart."""
    rule = {"id": "r", "version": 1, "pattern": json.loads(pattern_to_json(whole()))}
    refused = 0
    for path in places(rule):
        for value in WRONG:
            text = json.dumps(replaced(rule, path, value))
            try:
                read = read_rule(text)
            except MalformedPatternError:
                refused += 1
                continue
            assert read.pattern is None or read.pattern.draw()
    assert refused > 1_000


def test_what_is_read_has_an_automaton() -> None:
    """A rule would be accepted, and fail where its automaton is built."""
    step = {"name": "a", "where": SMALL, "times": [1, 2], "gap_ms": 5, "inner": "consecutive", "greedy": True}
    tree = {"steps": [step, {"name": "b", "contiguity": "next", "until": SMALL, "times": [1, None]}], "within_ms": 9}
    tree["skip"] = {"kind": "skip_to_first", "step": "b", "throw_exception_on_miss": False}
    assert automaton_of(pattern_from_json(json.dumps(tree)))
    for path in places(tree):
        for value in WRONG:
            with contextlib.suppress(MalformedPatternError):
                automaton_of(pattern_from_json(json.dumps(replaced(tree, path, value))))


def test_a_step_of_no_events_behind_a_greedy_one_is_read_again() -> None:
    """A pattern that a program may build could not be sent as a rule."""
    small = Pattern.begin("a").where(field("amount") < 5).one_or_more().greedy()
    for pattern in (small.next("b").times(0, 3), Pattern.begin("a").times(1, 2).optional()):
        read = pattern_from_json(pattern_to_json(pattern))
        assert [(step.times, step.optional) for step in read.steps()] == [
            (step.times, step.optional) for step in pattern.steps()
        ]
