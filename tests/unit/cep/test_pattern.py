"""Patterns that are refused, at the call, and those that look odd and are not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from penstock.cep import AfterMatchSkipStrategy, MalformedPatternError, Pattern, WithinType, field
from penstock.cep.automaton import Automaton
from penstock.cep.conditions import Both, Either
from penstock.common.time import Duration

PREVIOUS = WithinType.PREVIOUS_AND_CURRENT


def a() -> Pattern[Any, Any]:
    return Pattern.begin("a")


def loop() -> Pattern[Any, Any]:
    return a().one_or_more()


def yields(event: Any) -> Any:
    yield event


async def awaits(event: Any) -> bool:
    return False


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no name": (lambda: Pattern.begin(""), "expected the name of a step"),
    "two steps of one name": (lambda: a().next("a"), "two steps 'a'"),
    "a name in a group": (lambda: a().next(Pattern.begin("b").next("a")), "two steps 'a'"),
    "no strategy": (lambda: Pattern.begin("a", "no_skip"), "takes an AfterMatchSkipStrategy"),  # type: ignore[call-overload]
    "no condition": (lambda: a().where(5), "takes a function of the event"),  # type: ignore[arg-type]
    "a class": (lambda: a().where(str), "takes a function of the event"),
    "a function of three": (lambda: a().where(lambda e, ctx, more: True), "a function of"),  # type: ignore[arg-type]
    "no class": (lambda: a().subtype("str"), "takes a class"),  # type: ignore[arg-type]
    "until on times": (lambda: a().times(2).until(lambda e: True), "until.. needs a loop"),
    "until twice": (lambda: loop().until(lambda e: True).until(lambda e: True), "called already"),
    "two quantifiers": (lambda: loop().times(2), "has a quantifier already"),
    "zero times": (lambda: a().times(0), "got 0"),
    "descending times": (lambda: a().times(3, 2), "got 3, 2"),
    "no number": (lambda: a().times(True), "got True"),
    "zero or more": (lambda: a().times_or_more(0), "got 0"),
    "no gap": (lambda: a().times(2, gap=0), "at least a millisecond"),
    "a quantifier on a not-step": (lambda: a().not_next("n").times(2), "takes no quantifier"),
    "optional on a not-step": (lambda: a().not_next("n").optional(), "must not take an event"),
    "optional twice": (lambda: a().optional().optional(), "called already"),
    "optional behind greedy": (lambda: loop().greedy().next("b").optional(), "cannot follow the greedy step 'a'"),
    "greedy on a single step": (lambda: a().greedy(), "needs a step that repeats"),
    "greedy on combinations": (lambda: loop().allow_combinations().greedy(), "exclude each other"),
    "combinations on greedy": (lambda: loop().greedy().allow_combinations(), "exclude each other"),
    "greedy on a group": (lambda: Pattern.begin(a()).one_or_more().greedy(), "does not apply to a group"),
    "greedy on a not-step": (lambda: a().not_next("n").greedy(), "needs a step that repeats"),
    "consecutive on a single step": (lambda: a().consecutive(), "needs a step that repeats"),
    "consecutive twice": (lambda: loop().consecutive().consecutive(), "called already"),
    "both": (lambda: loop().consecutive().allow_combinations(), "exclude each other"),
    "where on a group": (lambda: Pattern.begin(a()).where(lambda e: True), "group \\(a\\): where"),
    "or on a group": (lambda: Pattern.begin(a()).or_(lambda e: True), "group \\(a\\): or_"),
    "subtype on a group": (lambda: Pattern.begin(a()).subtype(str), "group \\(a\\): subtype"),
    "a group that ends with not": (lambda: Pattern.begin(a().not_followed_by("n")), "cannot end with not_followed_by"),
    "not-step behind optional": (lambda: a().optional().not_next("n"), "cannot follow an optional step"),
    "not-step behind times(0, n)": (lambda: a().times(0, 2).not_followed_by("n"), "cannot follow an optional step"),
    "a type of within": (lambda: a().within(5, "previous and current"), "takes a WithinType"),  # type: ignore[arg-type]
    "a text as a number": (lambda: a().times("2"), "got '2'"),  # type: ignore[arg-type]
    "a condition that yields": (lambda: a().where(yields), "contains `yield`"),
    "a condition that is async": (lambda: a().where(awaits), "async function"),
    "a text as a list": (lambda: field("kind").is_in("ab"), "takes a list of values, got 'ab'"),
    "a number as a list": (lambda: field("kind").is_in(3), "takes a list of values, got 3"),  # type: ignore[arg-type]
    "no time": (lambda: a().within(0), "at least a millisecond"),
    "a long gap": (lambda: a().within(20, PREVIOUS).next("b").within(10), "20 ms, exceeds"),
    "a long gap in a group": (lambda: Pattern.begin(a().within(20, PREVIOUS)).within(10), "20 ms, exceeds"),
    "a picture of another form": (lambda: a().draw("svg"), "'text' or 'mermaid'"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_a_malformed_pattern_is_refused_at_the_call(call: Callable[[], Any], message: str) -> None:
    """A user would learn of the mistake when the job runs, or never."""
    with pytest.raises(MalformedPatternError, match=message):
        call()


def test_what_only_the_whole_pattern_shows_is_refused_by_check() -> None:
    """A pattern would wait forever, or its skip strategy would do nothing."""
    with pytest.raises(MalformedPatternError, match="needs within"):
        Automaton(a().not_followed_by("n"))
    with pytest.raises(MalformedPatternError, match="no step of that name takes events; there are a, b"):
        Automaton(Pattern.begin("a", AfterMatchSkipStrategy.skip_to_last("n")).not_next("n").next("b"))


def test_lengths_are_given_in_each_form_of_a_duration() -> None:
    """A user of Duration, or of timedelta, would be refused."""
    for length in (Duration.of_seconds(2), timedelta(seconds=2), 2_000):
        assert a().within(length).steps()[0].within_ms == 2_000


def test_conditions_combine_from_left_to_right() -> None:
    """`where(x).or_(y).where(z)` would mean x or (y and z)."""
    condition = a().where(lambda e: True).or_(lambda e: True).where(lambda e: True).steps()[0].condition

    assert isinstance(condition, Both)
    assert isinstance(condition.first, Either)


def test_methods_of_the_last_step_change_the_pattern_itself() -> None:
    """A pattern that a user builds in several statements would lose its conditions."""
    pattern = a()
    pattern.where(lambda e: e > 1)
    pattern.one_or_more()

    assert pattern.steps()[0].loops
    assert repr(pattern.next("b").optional()) == "Pattern(a+ , b?)"
