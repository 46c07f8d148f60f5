"""Warnings about patterns whose state may grow without end. Flink accepts them, and so do we."""

from __future__ import annotations

from typing import Any

from penstock.cep.automaton import Automaton
from penstock.cep.graph import Action, Kind


def growth_warnings(automaton: Automaton[Any]) -> list[str]:
    """Return a sentence for each way in which the state of a key may grow, with a remedy. For the log at submission."""
    if automaton.window_ms is not None:
        return []
    waiting = [
        state.step
        for state in automaton.graph.states[1:]
        if state.kind is Kind.NORMAL
        and state.closes_ms is None
        and any(edge.action is Action.IGNORE and edge.target is state for edge in state.edges)
    ]
    if not waiting:
        return []
    steps = ", ".join(f"'{name}'" for name in dict.fromkeys(waiting))
    warnings = [
        f"partial matches that wait for {steps} have no limit of time, so a key keeps them until an event comes that "
        "fits. Limit the pattern with within()."
    ]
    if automaton.skip.skips:
        warnings.append(
            f"with {automaton.skip.kind}, complete matches wait for partial matches that began before them, here "
            "without a limit of time: some may never be emitted. Limit the pattern with within()."
        )
    return warnings
