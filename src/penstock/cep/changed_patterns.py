"""Partial matches of one pattern, continued under another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.cep.automaton import Automaton


def translated(
    value: tuple[Any, ...], state_names: Sequence[str], step_names: Sequence[str], automaton: Automaton[Any]
) -> tuple[Any, ...]:
    """Return the dumped state of a key for an automaton whose pattern was changed.

    States and steps keep their meaning by name, so partial matches continue under changed conditions and times. A
    partial match is dropped if its state, or a step that took one of its events, has no namesake.

    Args:
        value: what `PartialMatches.dumped` returned.
        state_names: those of the automaton that the state comes from.
        step_names: the same for steps.
        automaton: the one that is to continue.
    """
    number, events, table, families, completed, deferred = value
    states = {name: position for position, name in enumerate(automaton.state_names)}
    steps = {name: position for position, name in enumerate(automaton.step_names)}
    new_states = [states.get(name) for name in state_names]
    new_steps = [steps.get(name) for name in step_names]
    fits: list[bool] = []
    nodes: list[tuple[int, int, int]] = []
    for before, step, event in table:
        new_step = new_steps[step]
        fits.append(new_step is not None and (before < 0 or fits[before]))
        nodes.append((before, new_step or 0, event))
    kept = []
    for first, start_time, runs in families:
        new_runs = tuple(
            (new_states[state], node) for state, node in runs if fits[node] and new_states[state] is not None
        )
        if new_runs:
            kept.append((first, start_time, new_runs))
    waiting = tuple((first, node) for first, node in completed if fits[node])
    return number, events, tuple(nodes), tuple(kept), waiting, deferred
