"""The automaton that suits a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from penstock.cep.accumulators import Accumulator
from penstock.cep.automaton import Automaton
from penstock.cep.deferred_loops import LoopDeferringAutomaton, may_defer_loops
from penstock.cep.deferred_starts import DeferringAutomaton, may_defer_starts
from penstock.cep.pattern import Pattern

T = TypeVar("T")


def automaton_of(
    pattern: Pattern[T, Any], accumulators: Sequence[Accumulator] = (), is_bounded: bool = False
) -> Automaton[T]:
    """Return the automaton of a pattern. Raises MalformedPatternError for what `Pattern.check` refuses.

    `is_bounded`: whether the partial matches of a key have a bound.
    """
    automaton = Automaton(pattern, accumulators)
    if may_defer_starts(automaton):
        return DeferringAutomaton(pattern, accumulators)
    if may_defer_loops(automaton) and not is_bounded:
        return LoopDeferringAutomaton(pattern, accumulators)
    return automaton
