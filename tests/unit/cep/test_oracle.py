"""The automaton against the definition of a match, on random patterns."""

from __future__ import annotations

import pytest
from tests.unit.cep.oracle import check_random_patterns


@pytest.mark.parametrize("seed", range(20))
def test_matches_are_those_of_the_definition(seed: int) -> None:
    """Contiguity, repetitions, gaps, windows and not-steps would be right one by one and wrong together."""
    check_random_patterns(seed)
