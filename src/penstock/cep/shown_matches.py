"""Partial matches as queries show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.cep.gaps import proceeded
from penstock.cep.graph import Action
from penstock.cep.match_context import events_of

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.cep.partial_matches import Node, PartialMatches


def shown_matches(automaton: Automaton[Any], partial: PartialMatches) -> list[dict[str, Any]]:
    """Return the partial matches of a key, those that began first in front.

    Each is a dict:

        events       the events of each step that has taken any, as in a match
        waits_for    the names of the steps that may take the next event; none if only time completes the match, or if
                     it is complete and waits for partial matches that began before it
        began        the timestamp of its first event (ms)
        ends         when its time ends (ms); None without `within`

    Where a pattern follows one partial match of a key at a time, later events that may begin one are not shown.
    """
    window_ms, states = automaton.window_ms, automaton.graph.states
    shown: dict[tuple[int, int], dict[str, Any]] = {}

    def add(number: int, node: Node, began: int, steps: list[str]) -> None:
        one = shown.setdefault(
            (number, id(node)),
            {
                "events": events_of(node, automaton.step_names),
                "waits_for": [],
                "began": began,
                "ends": None if window_ms is None else began + window_ms,
            },
        )
        one["waits_for"] += [step for step in steps if step not in one["waits_for"]]

    for number, (began, runs) in partial.families.items():
        for state, node in runs:
            taking = [before for before in proceeded(states[state]) if _takes(before)]
            add(number, node, began, [before.step for before in taking if before.step is not None])
    for number, node in partial.completed:
        first = node
        while first[0] is not None:
            first = first[0]
        add(number, node, first[4], [])
    return [shown[place] for place in sorted(shown, key=lambda place: place[0])]


def _takes(state: Any) -> bool:
    return any(edge.action is Action.TAKE for edge in state.edges)
