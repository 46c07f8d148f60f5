"""Relaxed loops that skip past the last event: the results of the plain automaton, at a cost that grows with events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock.cep import AfterMatchSkipStrategy, Pattern
from penstock.cep.accumulators import Accumulator
from penstock.cep.automata import automaton_of
from penstock.cep.automaton import Automaton
from penstock.cep.deferred_loops import LoopDeferringAutomaton
from penstock.cep.partial_matches import PartialMatches

PAST_LAST = AfterMatchSkipStrategy.skip_past_last_event()
END = 2**63 - 1


def is_a(event: str) -> bool:
    return event[0] in "ax"


def is_b(event: str) -> bool:
    return event[0] in "bx"


def is_c(event: str) -> bool:
    return event[0] in "cy"


def loop_first(greedy: bool = True) -> Pattern[Any, Any]:
    loop = Pattern.begin("a", PAST_LAST).where(is_a).one_or_more()
    return (loop.greedy() if greedy else loop).followed_by("b").where(is_b)


def loop_second(greedy: bool = True, least: int = 1) -> Pattern[Any, Any]:
    loop = Pattern.begin("a", PAST_LAST).where(is_a).followed_by("b").where(is_b).times_or_more(least)
    return (loop.greedy() if greedy else loop).followed_by("c").where(is_c)


def rising(event: str, ctx: Any) -> bool:
    return all(event[1:] > before[1:] for before in ctx.get_events_for_pattern("a"))


PATTERNS = {
    "first": lambda: loop_first(),
    "first, not greedy": lambda: loop_first(greedy=False),
    "second": lambda: loop_second(),
    "second, not greedy": lambda: loop_second(greedy=False),
    "second, two or more": lambda: loop_second(least=2),
    "iterative": lambda: loop_first().where(rising),
    "start of its own": lambda: Pattern.begin("a", PAST_LAST).where(rising).one_or_more().greedy().followed_by("b")
    .where(is_b),
}  # fmt: skip


def played(automaton: Automaton[str], events: list[tuple[str, int]], loads: bool) -> list[Any]:
    """Return matches and timeouts, with the event or time at which each comes."""
    partial, results = PartialMatches(), []
    for event, time in [*events, ("", END)]:
        matches, timeouts = automaton.advance_time(partial, time)
        results.append(("time", time, matches, sorted(map(repr, timeouts))))
        if event:
            results.append((event, automaton.process(partial, event, time, automaton.bits(event))))
        if loads and event[-1:] == "7":
            partial = automaton.load(partial.dumped())
    return results


def feed(chance: random.Random) -> list[tuple[str, int]]:
    letters, time, events = chance.choice(["aab", "abc", "aabbc", "abcxyz", "axxc", "abbbby"]), 0, []
    for number in range(80):
        time += chance.choice([0, 1, 1, 2, 9])
        events.append((f"{chance.choice(letters)}{chance.randrange(10) if number % 2 else number}", time))
    return events


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("within", [None, 5, 20])
def test_results_are_those_of_the_plain_automaton(name: str, within: int | None) -> None:
    """A match, a timeout, or the time at which it comes, would depend on how the automaton works."""
    pattern = PATTERNS[name]()
    if within is not None:
        pattern = pattern.within(within)
    deferring, plain = automaton_of(pattern), Automaton(pattern)
    assert type(deferring) is LoopDeferringAutomaton
    found = 0
    for seed in range(25):
        events = feed(random.Random(seed))
        expected = played(plain, events, loads=False)
        assert played(deferring, events, loads=seed % 2 == 1) == expected
        found += sum(len(result[-1]) for result in expected if result[0] != "time")
    assert found > 20


@pytest.mark.parametrize("pattern", [loop_first(), loop_second()])
def test_the_cost_grows_with_the_number_of_events(pattern: Pattern[Any, Any]) -> None:
    """A match of 10,000 events would take minutes."""

    def nodes(count: int) -> int:
        made = 0

        def add(value: int, event: Any) -> int:
            nonlocal made
            made += 1
            return value

        automaton = automaton_of(pattern, [Accumulator(0, add)])
        letters = ["ab", "c"] if len(pattern.steps()) == 3 else ["a", "b"]
        played(automaton, [(one, time) for time, one in enumerate([*letters[0] * count, letters[1]])], loads=False)
        return made

    assert 10 * nodes(100) <= nodes(1_000) + 100 <= 11 * nodes(100)


def test_a_bound_of_partial_matches_counts_each() -> None:
    """Deferred events would escape the bound."""
    assert type(automaton_of(loop_first(), is_bounded=True)) is Automaton


@pytest.mark.parametrize("name", ["first", "second, not greedy"])
def test_state_of_either_automaton_continues_in_the_other(name: str) -> None:
    """A job would lose matches when a bound is set, or when it continues from an older savepoint."""
    pattern = PATTERNS[name]().within(20)
    deferring, plain = automaton_of(pattern), Automaton(pattern)
    for seed in range(20):
        events = feed(random.Random(seed))
        expected = played(plain, events, loads=False)
        for first, second in ((deferring, plain), (plain, deferring)):
            automaton, partial, results = first, PartialMatches(), []
            for number, (event, time) in enumerate([*events, ("", END)]):
                if number == 40:
                    automaton, partial = second, second.load(partial.dumped())
                matches, timeouts = automaton.advance_time(partial, time)
                results.append(("time", time, matches, sorted(map(repr, timeouts))))
                if event:
                    results.append((event, automaton.process(partial, event, time, automaton.bits(event))))
            assert results == expected
