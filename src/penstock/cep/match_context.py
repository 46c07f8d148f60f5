"""Reads the nodes of a match: its events by step, and the context of iterative conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.cep.accumulators import VALUES
from penstock.cep.partial_matches import Node


def events_of(
    node: Node | None, step_names: Sequence[str], copy: Callable[[Any], Any] | None = None
) -> dict[str, list[Any]]:
    """Return the events of a match by step, both in order. `copy`: copies each event; None: not at all."""
    path: list[Node] = []
    while node is not None:
        path.append(node)
        node = node[0]
    events: dict[str, list[Any]] = {}
    for node in reversed(path):
        name = step_names[node[1]]
        event = node[2] if copy is None else copy(node[2])
        if name in events:
            events[name].append(event)
        else:
            events[name] = [event]
    return events


def path_of(node: Node | None) -> list[tuple[int, int]]:
    """Return the steps of a match with the numbers of their events, in order."""
    path = []
    while node is not None:
        path.append((node[1], node[3]))
        node = node[0]
    return path[::-1]


class MatchContext:
    """The partial match that may take an event; see `penstock.cep.condition_functions.Context`."""

    __slots__ = ("_events", "_node", "_processing_time", "_step_names", "_timestamp", "_zeros")

    def __init__(
        self,
        step_names: Sequence[str],
        node: Node | None,
        timestamp: int,
        processing_time: int,
        *,
        zeros: tuple[Any, ...] = (),
    ) -> None:
        self._zeros = zeros
        self._step_names = step_names
        self._node = node
        self._timestamp = timestamp
        self._processing_time = processing_time
        self._events: dict[str, list[Any]] | None = None

    def get_events_for_pattern(self, name: str) -> Sequence[Any]:
        """Return the events that the step `name` has taken so far, in order, without the event in question.

        Raises ValueError if the pattern has no such step.
        """
        if self._events is None:
            self._events = events_of(self._node, self._step_names)
        found = self._events.get(name)
        if found is None:
            if name not in self._step_names:
                raise ValueError(f"the pattern has no step '{name}', only {', '.join(self._step_names)}")
            return []
        return found

    def accumulated(self, position: int) -> Any:
        """Return the value of an accumulator of the automaton, without the event in question."""
        return (self._zeros if self._node is None else self._node[VALUES])[position]

    def timestamp(self) -> int:
        """Return the event's timestamp (milliseconds)."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time (milliseconds)."""
        return self._processing_time
