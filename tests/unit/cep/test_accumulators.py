"""Values that grow with a match."""

from __future__ import annotations

import pickle
from typing import Any

from tests.unit.cep.letters import Play, letters

from penstock.cep import AfterMatchSkipStrategy, Pattern
from penstock.cep.accumulators import Accumulator
from penstock.cep.automata import automaton_of


def summed(skip: AfterMatchSkipStrategy, added: list[str]) -> Play:
    """Runs of 'a' while the sum of their digits is below 10, then an event; counts the additions."""

    def below_ten(event: str, ctx: Any) -> bool:
        return event[0] == "a" and ctx.accumulated(0) + int(event[1:]) < 10

    pattern = Pattern.begin("a", skip).where(below_ten).one_or_more().consecutive().greedy().next("b")
    pattern.where(lambda e, ctx: ctx.accumulated(1) == len(ctx.get_events_for_pattern("a")))
    accumulators = [
        Accumulator(0, lambda value, event: added.append(event) or value + int(event[1:]), {"a"}),
        Accumulator(0, lambda value, event: value + 1),
    ]
    return Play(pattern, automaton_of(letters(pattern), accumulators))


def test_a_sum_is_known_without_a_pass_over_the_match() -> None:
    """SUM over a match of a thousand rows would be computed a thousand times, each from the first row."""
    added: list[str] = []
    game = summed(AfterMatchSkipStrategy.skip_past_last_event(), added)

    assert game.feed("a4 a3 a2 b5 a0") == ["a4 a3 a2 b5"]
    assert game.feed(" ".join(["a0"] * 200)) == []
    assert len(added) == 3 + 1 + 200


def test_branches_have_values_of_their_own() -> None:
    """The sum of one partial match would be that of another."""
    game = summed(AfterMatchSkipStrategy.no_skip(), [])

    assert game.feed("a6 a2 a5 x1") == ["a6 a2 a5", "a2 a5 x1", "a5 x1"]
    assert game.feed("a6 a2 b1") == ["a6 a2 b1", "a2 b1"]


def test_values_are_there_after_a_restart() -> None:
    """A sum would begin at zero in the middle of a match."""
    game = summed(AfterMatchSkipStrategy.no_skip(), [])
    game.feed("a6 a2")
    game.partial = game.automaton.load(pickle.loads(pickle.dumps(game.partial.dumped())))

    assert game.feed("a3 x1") == ["a6 a2 a3", "a2 a3 x1", "a3 x1"]
