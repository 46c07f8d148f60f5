"""The five skip strategies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.cep.letters import Play, letters, play

from penstock.cep import AfterMatchSkipStrategy, MalformedPatternError, Pattern, SkipTargetError, WithinType
from penstock.cep.automaton import Automaton
from penstock.cep.partial_matches import Completed, PartialMatches

EVENTS = "b1 b2 b3 c1"


def bs_then_c(strategy: AfterMatchSkipStrategy) -> list[str]:
    return play(Pattern.begin("b", strategy).one_or_more().consecutive().next("c"), EVENTS)


def test_no_skip_gives_all() -> None:
    """Matches would be lost by default."""
    assert bs_then_c(AfterMatchSkipStrategy.no_skip()) == ["b1 b2 b3 c1", "b2 b3 c1", "b3 c1"]


def test_to_next_gives_one_match_per_first_event() -> None:
    """A user would get each prefix of a loop."""
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_to_next()).followed_by("b").one_or_more()

    assert play(pattern, "a1 b1 b2 a2 b3") == ["a1 b1", "a2 b3"]


def test_past_last_gives_matches_that_do_not_overlap() -> None:
    """An event would be reported in two matches."""
    assert bs_then_c(AfterMatchSkipStrategy.skip_past_last_event()) == ["b1 b2 b3 c1"]
    assert play(Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).times(3), "a1 a2 a3 a4 a5 a6") == [
        "a1 a2 a3",
        "a4 a5 a6",
    ]


def test_the_event_that_ends_a_match_may_begin_the_next_one() -> None:
    """Past the last event, the event that only shows that a match is complete would be lost."""
    pattern = Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).not_next("n")

    assert play(pattern, "a1 a2 n1 a3 a4 x1") == ["a1", "a3", "a4"]


def test_to_first_and_to_last_discard_what_begins_before_the_event() -> None:
    """A user would get matches that begin before the event to skip to."""
    assert bs_then_c(AfterMatchSkipStrategy.skip_to_first("b")) == ["b1 b2 b3 c1", "b2 b3 c1", "b3 c1"]
    assert bs_then_c(AfterMatchSkipStrategy.skip_to_last("b")) == ["b1 b2 b3 c1", "b3 c1"]


def test_a_missing_event_skips_nothing_or_fails() -> None:
    """A job would fail, or go on, against what was asked for."""

    def pattern(strategy: AfterMatchSkipStrategy) -> Pattern[str, str]:
        return Pattern.begin("a", strategy).followed_by("b").optional().followed_by("c")

    lenient = AfterMatchSkipStrategy.skip_to_first("b")
    assert play(pattern(lenient), "a1 c1") == ["a1 c1"]
    with pytest.raises(SkipTargetError, match="no event of that step, only of a, c"):
        play(pattern(lenient.throw_exception_on_miss()), "a1 c1")


def test_skipping_to_the_first_event_of_the_match_fails_if_asked() -> None:
    """A job would emit one match again and again, as far as the user can tell."""
    strategy = AfterMatchSkipStrategy.skip_to_first("a")

    assert play(Pattern.begin("a", strategy).followed_by("b"), "a1 b1") == ["a1 b1"]
    with pytest.raises(SkipTargetError, match="begins with that event"):
        play(Pattern.begin("a", strategy.throw_exception_on_miss()).followed_by("b"), "a1 b1")
    with pytest.raises(MalformedPatternError, match="applies to skip_to_first and skip_to_last"):
        AfterMatchSkipStrategy.no_skip().throw_exception_on_miss()


def test_a_match_waits_for_partial_matches_that_began_before() -> None:
    """A match would come that an earlier one, complete later, has to discard."""
    strategy = AfterMatchSkipStrategy.skip_past_last_event()
    game = Play(Pattern.begin("a", strategy).followed_by("b").where(lambda e, ctx: e[1] == first(ctx)[1]).within(10))

    assert game.feed("a1@1 a2@2 b2@3") == []
    assert game.until(10) == []
    assert game.until(11) == ["a2 b2"]
    assert game.timeouts == [("a1", 11)]


class Waiting(list[Completed]):
    """Complete matches that count how often one of them is looked at."""

    seen = 0

    def __iter__(self) -> Iterator[Completed]:
        Waiting.seen += len(self)
        return super().__iter__()


class Counted(PartialMatches):
    """The state of a key, in which `completed` is always counted."""

    @property
    def completed(self) -> Waiting:  # type: ignore[override]
        return self._waiting

    @completed.setter
    def completed(self, found: list[Completed]) -> None:
        self._waiting = Waiting(found)


def test_matches_that_waited_together_cost_nothing_for_each_other() -> None:
    """Ten thousand matches behind one that times out would take ten seconds, in one step."""
    pattern = pair(AfterMatchSkipStrategy.skip_to_next()).within(1_000)
    game = Play(pattern)
    game.partial = Counted()
    assert game.feed("a@0 " + " ".join(f"a{number}@1 b{number}@1" for number in range(200))) == []

    Waiting.seen = 0
    assert game.until(1_000) == [f"a{number} b{number}" for number in range(200)]
    assert Waiting.seen == 0
    assert not game.partial.completed


@pytest.mark.parametrize("shows_timeouts", [True, False])
def test_a_match_that_waited_comes_when_the_strategy_no_longer_skips(shows_timeouts: bool) -> None:
    """It would wait for the next event of its key, without timeouts that somebody receives, and perhaps forever."""
    game = Play(pair(AfterMatchSkipStrategy.skip_to_next()).within(10))
    assert game.feed("a1@1 a2@2 b2@3") == []

    automaton = Automaton(letters(pair(AfterMatchSkipStrategy.no_skip()).within(10)))
    automaton.shows_timeouts = shows_timeouts
    after = Play(automaton.pattern, automaton)
    after.partial = automaton.load(game.partial.dumped())
    assert after.until(11) == ["a2 b2"]
    assert not after.partial


def pair(strategy: AfterMatchSkipStrategy) -> Pattern[Any, Any]:
    """An a, and a b with the same number."""
    return Pattern.begin("a", strategy).followed_by("b").where(lambda e, ctx: e == f"b{first(ctx)[1:]}")


def test_matches_of_one_advance_of_time_are_in_order_of_their_first_event() -> None:
    """The order of results would depend on how far a watermark jumps."""
    pattern = Pattern.begin("a").followed_by("b").where(lambda e, ctx: e == f"b{first(ctx)[1]}").not_followed_by("n")
    game = Play(pattern.within(10, WithinType.PREVIOUS_AND_CURRENT))
    game.feed("a1@1 a2@2 b2@3 b1@5")

    assert game.until(100) == ["a1 b1", "a2 b2"]


def first(ctx: object) -> str:
    events: list[str] = ctx.get_events_for_pattern("a")  # type: ignore[attr-defined]
    return events[0]
