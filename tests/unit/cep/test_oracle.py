"""The automaton against the definition of a match, on random patterns."""

from __future__ import annotations

import random

import pytest
from tests.unit.cep.oracle import random_pattern

from penstock.cep.automata import automaton_of
from penstock.cep.partial_matches import PartialMatches


@pytest.mark.parametrize("seed", range(20))
def test_matches_are_those_of_the_definition(seed: int) -> None:
    """Contiguity, repetitions, gaps, windows and not-steps would be right one by one and wrong together."""
    chance = random.Random(seed)
    for _ in range(50):
        pattern = random_pattern(chance)
        automaton = automaton_of(pattern.built())
        partial = PartialMatches()
        found = []
        for label, time in pattern.events:
            found += automaton.advance_time(partial, time)[0]
            found += automaton.process(partial, label, time, automaton.bits(label))
        found += automaton.advance_time(partial, 1_000)[0]
        shown = sorted(
            sorted((e for part in match.values() for e in part), key=lambda e: int(e[1:])) for match in found
        )

        assert shown == pattern.matches(), (seed, pattern)
