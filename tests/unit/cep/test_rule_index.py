"""Many rules in one operator: each finds what it finds alone, in the order of the rules."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    TimedOutPartialMatchHandler,
    field,
    pattern_to_json,
)
from penstock.cep.automata import automaton_of
from penstock.cep.operators.rule_index import RuleIndex
from penstock.datastream import OutputTag
from penstock.testing import OperatorHarness, TwoInputHarness

TIMED_OUT: OutputTag[Any] = OutputTag("timed out")
PAST_LAST = AfterMatchSkipStrategy.skip_past_last_event()


class Shown(PatternProcessFunction[Any, Any], TimedOutPartialMatchHandler[Any]):
    def process_match(self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        yield ctx.pattern_id(), numbers_of(match), ctx.timestamp()

    def process_timed_out_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[tuple[OutputTag[Any], Any]]:
        yield TIMED_OUT, (ctx.pattern_id(), numbers_of(match), ctx.timestamp())


def numbers_of(match: dict[str, list[Any]]) -> tuple[Any, ...]:
    return tuple((name, tuple(event["n"] for event in events)) for name, events in match.items())


def pattern(chance: random.Random) -> Pattern[Any, Any]:
    """Return a pattern whose conditions differ from those of others in constants."""

    def fits() -> Any:
        one = field("kind") == chance.choice("abc")
        return one & (field("amount") > chance.randrange(4)) if chance.random() < 0.4 else one

    return chance.choice(
        [
            lambda: Pattern.begin("a").where(fits()).followed_by("b").where(fits()),
            lambda: Pattern.begin("a", PAST_LAST).where(fits()).one_or_more().consecutive().next("b").where(fits()),
            lambda: Pattern.begin("a").where(fits()).not_next("n").where(fits()).followed_by("b").where(fits()),
            lambda: Pattern.begin("a").where(fits()).not_followed_by("n").where(fits()),
            lambda: Pattern.begin("a").next("b").where(fits()),
        ]
    )().within(chance.choice([3, 8]))  # type: ignore[no-any-return]


def feed(chance: random.Random) -> list[dict[str, Any]]:
    times = sorted(chance.choices(range(60), k=80))
    whole = [{"n": n, "t": t, "key": chance.choice("kl"), "kind": chance.choice("abcd")} for n, t in enumerate(times)]
    return [{**one, "amount": chance.randrange(6)} if chance.random() < 0.9 else one for one in whole]


def fed(one: Any, events: list[dict[str, Any]], push: Any, watermark: Any) -> dict[str, list[Any]]:
    """Return the results of an operator, by rule. Snapshots are taken on the way."""
    for number, event in enumerate(events):
        push(event, event["t"])
        if number % 7 == 0:
            watermark(event["t"] - 2)
        if number % 20 == 19:
            one.operator.prepare_snapshot(number, False)
    watermark(1_000)
    found: dict[str, list[Any]] = {}
    for id, *result in [*one.outputs(), *one.side_outputs(TIMED_OUT)]:
        found.setdefault(id, []).append(result)
    return found


def together(patterns: list[Pattern[Any, Any]], events: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return what patterns find as rules of one operator."""
    with TwoInputHarness(
        lambda stream, rules: CEP.dynamic_patterns(stream.key_by("key"), rules).process(Shown())
    ) as one:
        for number, rule in enumerate(patterns):
            tree = json.loads(pattern_to_json(rule))
            one.push2(json.dumps({"id": str(number), "version": 1, "pattern": tree}))
        found = fed(one, events, one.push1, one.watermark1)
        operator: Any = one.operator
        assert operator._holders == {} and operator.figures.partial_matches == 0
        return found


def alone(rule: Pattern[Any, Any], events: list[dict[str, Any]]) -> list[Any]:
    """Return what a pattern finds alone. Conditions that fail do not hold, as in rules."""

    class Alone(Shown):
        def process_match(self, match: Any, ctx: Any) -> Iterable[Any]:
            yield "", numbers_of(match), ctx.timestamp()

        def process_timed_out_match(self, match: Any, ctx: Any) -> Iterable[tuple[OutputTag[Any], Any]]:
            yield TIMED_OUT, ("", numbers_of(match), ctx.timestamp())

    whole = [{"amount": -1, **event} for event in events]
    with OperatorHarness(
        lambda stream: CEP.pattern(stream.key_by("key"), rule).without_filter().process(Alone())
    ) as one:
        return fed(one, whole, one.push, one.watermark).get("", [])


@pytest.mark.parametrize("seed", range(12))
def test_rules_find_together_what_each_finds_alone(seed: int) -> None:
    """A rule would lose an event because of the rules beside it, or a gap because no condition is met."""
    chance = random.Random(seed)
    patterns, events = [pattern(chance) for _ in range(chance.choice([1, 6, 25]))], feed(chance)
    found = together(patterns, events)
    assert sum(map(len, found.values())) > 5
    for number, rule in enumerate(patterns):
        # Keys whose time ends together may come in any order.
        assert sorted(found.get(str(number), [])) == sorted(alone(rule, events)), rule.draw()


def test_rules_that_an_event_does_not_concern_cost_nothing() -> None:
    """An event would cost as much as there are rules."""
    rules = {}
    for number in range(300):
        steps = Pattern.begin("a").where(field("card") == number)
        strict = number % 2 == 0
        steps = (steps.next("b") if strict else steps.followed_by("b")).where(field("card") == -number)
        rules[str(number)] = automaton_of(steps)
    index = RuleIndex(rules, timeouts=False, has_holders=True)

    def given(*cards: int, holders: Any = None) -> list[tuple[str, int]]:
        events = [(at, "k", {"card": card}, 0) for at, card in enumerate(cards)]
        return [(id, len(of)) for id, of in index.events_of(events, holders or {}, lambda *_: None)]

    assert given(7) == [("7", 1)]
    assert given(1_000) == []
    # A strict rule needs what comes behind its first step, whatever that is.
    assert given(8, 1_000, 7, 1_000) == [("7", 1), ("8", 4)]
    assert given(1_000, holders={"k": {"10", "11"}}) == [("10", 1)]
    assert given(1_000, holders={"other": {"10"}}) == []
