"""Events that a pattern passes over: without them it finds the same."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cep.recorded import Event, Key, cases, pattern_of

from penstock.cep import Pattern
from penstock.cep.automata import automaton_of


def results(case: dict[str, Any], drops: bool, timeouts: bool) -> tuple[list[Any], int]:
    """What a key gives, in order, and how many events were dropped."""
    key = Key(pattern_of(case["steps"], case["skip"]))
    dropped = 0
    for label, name, price, time, *volume in case["events"]:
        event = Event(label, name, price, *volume)
        if drops and key.automaton.may_drop(key.automaton.bits(event), timeouts):
            dropped += 1
        else:
            key.event(event, time)
    key.time(2**63 - 1)
    # Time that ends between two events is noticed later.
    matches = [events for kind, events, _ in key.results if kind == "match"]
    ended = sorted(result for result in key.results if result[0] == "timeout")
    return [*matches, ended] if timeouts else matches, dropped


@pytest.mark.parametrize("timeouts", [True, False])
def test_dropped_events_change_nothing(timeouts: bool) -> None:
    """A filter before the exchange would lose matches, or change their order."""
    dropped = 0
    for case in [case for case in cases("cases.jsonl.gz") if case["kind"] == "nfa"] + cases("random.jsonl.gz"):
        if "error" not in case and [e[3] for e in case["events"]] == sorted(e[3] for e in case["events"]):
            without, count = results(case, drops=True, timeouts=timeouts)
            assert without == results(case, drops=False, timeouts=timeouts)[0], case["name"]
            dropped += count
    assert dropped > 300


def test_which_patterns_pass_events_over() -> None:
    """A pattern would send all events through the exchange, which costs ten times as much; or lose strict gaps."""

    def a(event: str) -> bool:
        return event == "a"

    def b(event: str) -> bool:
        return event == "b"

    begin = Pattern.begin
    relaxed: list[Pattern[str, str]] = [
        begin("a").where(a).followed_by("b").where(b),
        begin("a").where(a).one_or_more().greedy().followed_by("b").where(b).within(10),
        begin("a").where(a).times(2, 4).followed_by_any("b").where(b).optional(),
        begin("a").where(a).not_followed_by("n").where(lambda e: e == "n").followed_by("b").where(b),
    ]
    strict: list[Pattern[str, str]] = [
        begin("a").where(a).next("b").where(b),
        begin("a").where(a).times(2).consecutive(),
        begin("a").where(a).not_next("n").where(b).followed_by("b").where(b),
        begin("a").where(a).followed_by("b"),
        begin("a").where(a).followed_by("b").where(lambda e, ctx: e > ctx.get_events_for_pattern("a")[0]),
    ]

    assert all(automaton_of(pattern).may_drop(0, timeouts=False) for pattern in relaxed)
    assert not any(automaton_of(pattern).may_drop(0, timeouts=False) for pattern in strict)
