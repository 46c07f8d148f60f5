"""Patterns over events such as 'a1': a step 'b' takes events that begin with its name's first letter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.cep.automata import automaton_of
from penstock.cep.automaton import Automaton
from penstock.cep.partial_matches import PartialMatches
from penstock.cep.pattern import Pattern
from penstock.cep.steps import Step, all_steps

Shown = list[str]


def letters(pattern: Pattern[Any, Any]) -> Pattern[Any, Any]:
    """The pattern, with the condition of each step that has none yet: its first letter."""
    for step in all_steps(pattern.steps()):
        _give_condition(step)
    return pattern


def _give_condition(step: Step) -> None:
    letter = step.name[0]
    if step.condition is Step("", step.contiguity).condition:
        Pattern(step, None, Pattern.begin("x").get_after_match_skip_strategy()).where(lambda e: e[0] == letter)


class Play:
    """One key's automaton: events such as 'a1@5', or 'a1' one millisecond after the event before."""

    def __init__(self, pattern: Pattern[Any, Any], automaton: Automaton[Any] | None = None) -> None:
        self.automaton = automaton_of(letters(pattern)) if automaton is None else automaton
        self.partial = PartialMatches()
        self.now = 0
        self.timeouts: list[tuple[str, int]] = []

    def feed(self, events: str, **arguments: Any) -> Shown:
        """The matches that the events complete, each as its events in order of the steps."""
        return [match for event in events.split() for match in self._event(event, arguments)]

    def _event(self, text: str, arguments: dict[str, Any]) -> Shown:
        label, _, time = text.partition("@")
        self.now = int(time) if time else self.now + 1
        found = self.until(self.now)
        bits = self.automaton.bits(label)
        return found + shown(self.automaton.process(self.partial, label, self.now, bits, **arguments))

    def until(self, time_ms: int) -> Shown:
        """The matches that time alone completes; time-outs are kept in `timeouts`."""
        matches, timeouts = self.automaton.advance_time(self.partial, time_ms)
        self.timeouts += [(shown([events])[0], at) for events, at in timeouts]
        return shown(matches)


def shown(matches: Iterable[dict[str, list[str]]]) -> Shown:
    return [" ".join(event for events in match.values() for event in events) for match in matches]


def play(pattern: Pattern[Any, Any], events: str) -> Shown:
    """The matches of the events."""
    return Play(pattern).feed(events)
