"""Partial matches in keyed state, and under a pattern that has changed since."""

from __future__ import annotations

from typing import Any

from penstock.cep import Pattern, field
from penstock.cep.automata import automaton_of
from penstock.cep.automaton import Automaton
from penstock.cep.operators.key_states import KeyStates, Layout, Layouts
from penstock.cep.operators.pattern_metrics import PatternMetrics
from penstock.cep.partial_matches import NEVER, PartialMatches
from penstock.engine.state.layers import LayeredTable


class Stored:
    """A table of keyed state, and the layouts of its values."""

    def __init__(self) -> None:
        self.table = LayeredTable()
        self.layouts: dict[int, Layout] = {}
        self.figures = PatternMetrics()

    def states(self, automaton: Automaton[Any]) -> KeyStates:
        layouts = Layouts(self.layouts.items(), self.layouts.__setitem__)
        return KeyStates(self.table, automaton, layouts, self.figures, is_restored=bool(self.layouts))


def pattern(least: int, name: str = "b", within: int = 10) -> Automaton[Any]:
    begun = Pattern.begin("a").where(field("n") == 1)
    return automaton_of(begun.followed_by(name).where(field("n") >= least).times(2).within(within))


def begun(automaton: Automaton[Any], *numbers: int) -> PartialMatches:
    partial = PartialMatches()
    for time, number in enumerate(numbers):
        event = {"n": number}
        automaton.process(partial, event, time, automaton.bits(event))
    return partial


def test_a_job_goes_on_with_a_changed_condition() -> None:
    """A mended condition would cost all partial matches."""
    stored = Stored()
    before = pattern(5)
    states = stored.states(before)
    states.live["k"] = begun(before, 1, 7)
    stored.figures.partial_matches = 1
    states.store()

    after = pattern(3)
    partial = stored.states(after).other("k")
    assert partial is not None
    assert partial.armed_ms == partial.deadline_ms == 10
    event = {"n": 3}
    assert after.process(partial, event, 5, after.bits(event)) == [{"a": [{"n": 1}], "b": [{"n": 7}, event]}]


def test_another_window_sets_another_timer() -> None:
    """A shorter window would end with the timer of the longer one."""
    stored = Stored()
    states = stored.states(pattern(5))
    states.live["k"] = begun(pattern(5), 1, 7)
    states.store()

    partial = stored.states(pattern(5, within=5)).other("k")
    assert partial is not None
    assert (partial.deadline_ms, partial.armed_ms) == (5, NEVER)


def test_a_renamed_step_drops_what_it_had_taken() -> None:
    """A match would contain events of a step that the pattern lacks."""
    stored = Stored()
    states = stored.states(pattern(5))
    states.live["k"] = begun(pattern(5), 1, 7)
    stored.figures.partial_matches = states.live["k"].runs
    states.store()

    partial = stored.states(pattern(5, name="c")).other("k")
    assert partial is not None
    assert not partial
    assert stored.figures.partial_matches == 0


def test_a_dropped_key_leaves_the_table() -> None:
    """A match would be found again after a restart."""
    stored = Stored()
    states = stored.states(pattern(5))
    states.live["k"] = begun(pattern(5), 1)
    states.store()
    assert states.live == {}
    assert states.other("k") is states.live["k"]
    states.drop("k")
    assert states.other("k") is None
    assert not stored.table
