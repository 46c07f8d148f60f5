"""What keeps the state of a key from growing without end: warnings, and a bound."""

from __future__ import annotations

import pytest
from tests.unit.cep.letters import Play

from penstock.cep import AfterMatchSkipStrategy, Pattern, WithinType
from penstock.cep.automaton import Automaton
from penstock.cep.growth import growth_warnings


def test_a_pattern_that_may_wait_forever_is_named() -> None:
    """A job would fill its memory over weeks, without a word at its start."""
    (warning,) = growth_warnings(Automaton(Pattern.begin("a").followed_by("b").one_or_more().next("c")))

    assert warning.startswith("partial matches that wait for 'b' have no limit of time")


def test_a_skip_strategy_without_a_window_is_named() -> None:
    """Matches would be missing, and only Flink's sources say why."""
    strategy = AfterMatchSkipStrategy.skip_to_next()
    warnings = growth_warnings(Automaton(Pattern.begin("a", strategy).followed_by("b")))

    assert len(warnings) == 2
    assert "some may never be emitted" in warnings[1]


@pytest.mark.parametrize(
    "pattern",
    [
        Pattern.begin("a").next("b"),
        Pattern.begin("a").followed_by("b").within(10),
        Pattern.begin("a").followed_by("b").within(10, WithinType.PREVIOUS_AND_CURRENT),
    ],
)
def test_a_pattern_with_a_limit_gives_no_warning(pattern: Pattern[str, str]) -> None:
    """Users would learn to overlook warnings."""
    assert growth_warnings(Automaton(pattern)) == []


def test_partial_matches_are_counted() -> None:
    """A metric would show other numbers than there are, or cost a pass over the state."""
    game = Play(Pattern.begin("a").followed_by("b").one_or_more().allow_combinations().followed_by("c").within(10))

    counts = []
    for event in ("a1", "a2", "b1", "b2", "c1", "x1@50"):
        game.feed(event)
        counts.append((game.partial.runs, sum(len(runs) for _, runs in game.partial.families.values())))
    assert [count for count, _ in counts] == [count for _, count in counts]
    assert counts[1][0] == 2
    assert counts[-1][0] == 0


def test_the_oldest_partial_matches_are_discarded_first() -> None:
    """A bound would discard the partial matches that are most likely to complete in time."""
    game = Play(Pattern.begin("a").followed_by("b"))
    game.feed("a1 a2 a3 a4")

    assert game.partial.discard_oldest(2) == 2
    assert game.partial.discard_oldest(2) == 0
    assert game.feed("b1") == ["a3 b1", "a4 b1"]


def test_a_strict_pattern_begins_again_after_its_partial_match_is_discarded() -> None:
    """Events that were kept for the discarded match would be taken for the next one's."""
    game = Play(Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event()).one_or_more().consecutive().next("b"))
    game.feed("a1 a2")

    assert game.partial.discard_oldest(0) == 1
    assert not game.partial
    assert game.feed("b1 a3 b2") == ["a3 b2"]
