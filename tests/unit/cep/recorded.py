"""Patterns and answers recorded from Flink 2.3.0, in the notation of `../shared/data/cep`, and how to run them."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.automata import automaton_of
from penstock.cep.partial_matches import PartialMatches
from penstock.cep.pattern import Pattern
from penstock.cep.steps import WithinType

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "cep"
END = 2**63 - 1

Result = tuple[str, str, int]
"""'match' or 'timeout', the events by step as JSON, the time."""


@dataclass(frozen=True)
class Event:
    label: str
    name: str
    price: float = 0.0
    volume: float | None = None


def cases(file: str) -> list[dict[str, Any]]:
    """The cases of a file; skips the test where there is none."""
    path = FOLDER / file
    if not path.exists():
        pytest.skip(f"{path} is absent: it has patterns with Flink's answers, and is not part of the project")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def pattern_of(steps: list[dict[str, Any]], skip: dict[str, Any] | None = None) -> Pattern[Event, Event]:
    """The pattern that the notation means."""
    pattern: Any = None
    for step in steps:
        what = pattern_of(step["group"]) if "group" in step else step["name"]
        match step["op"]:
            case "begin":
                pattern = Pattern.begin(what, strategy_of(skip))
            case "next":
                pattern = pattern.next(what)
            case "followedBy":
                pattern = pattern.followed_by(what)
            case "followedByAny":
                pattern = pattern.followed_by_any(what)
            case "notNext":
                pattern = pattern.not_next(what)
            case "notFollowedBy":
                pattern = pattern.not_followed_by(what)
        if step.get("where", "True") != "True":
            pattern.where(condition_of(step["where"]))
        quantify(pattern, step)
    built: Pattern[Event, Event] = pattern
    return built


def quantify(pattern: Any, step: dict[str, Any]) -> None:
    if "times" in step:
        least, most = step["times"]
        gap = step.get("times_window")
        if most is None:
            pattern.times_or_more(least, gap)
        else:
            pattern.times(least, most, gap)
    if step.get("inner") == "consecutive":
        pattern.consecutive()
    elif "inner" in step:
        pattern.allow_combinations()
    if step.get("greedy"):
        pattern.greedy()
    if step.get("optional"):
        pattern.optional()
    if "until" in step:
        pattern.until(condition_of(step["until"]))
    if "within" in step:
        pattern.within(step["within"])
    if "within_prev" in step:
        pattern.within(step["within_prev"], WithinType.PREVIOUS_AND_CURRENT)


class _Taken(dict[str, list[Any]]):
    def __init__(self, ctx: Any) -> None:
        super().__init__()
        self.ctx = ctx

    def __missing__(self, name: str) -> Any:
        return self.ctx.get_events_for_pattern(name)


def condition_of(text: str) -> Any:
    code: CodeType = compile(text, "condition", "eval")
    if "m[" in text:
        return lambda e, ctx: eval(code, {"e": e, "m": _Taken(ctx)})
    return lambda e: eval(code, {"e": e})


def strategy_of(skip: dict[str, Any] | None) -> AfterMatchSkipStrategy:
    match (skip or {"kind": "no_skip"})["kind"]:
        case "to_next":
            return AfterMatchSkipStrategy.skip_to_next()
        case "past_last":
            return AfterMatchSkipStrategy.skip_past_last_event()
        case "to_first":
            strategy = AfterMatchSkipStrategy.skip_to_first(skip["name"])  # type: ignore[index]
        case "to_last":
            strategy = AfterMatchSkipStrategy.skip_to_last(skip["name"])  # type: ignore[index]
        case _:
            return AfterMatchSkipStrategy.no_skip()
    return strategy.throw_exception_on_miss() if skip and skip.get("throw_on_miss") else strategy


def labels(match: dict[str, list[Event]]) -> str:
    return json.dumps({name: [event.label for event in events] for name, events in match.items()})


class Key:
    """One key's automaton and state, with what came out."""

    def __init__(self, pattern: Pattern[Event, Event]) -> None:
        self.automaton = automaton_of(pattern)
        self.partial = PartialMatches()
        self.results: list[Result] = []

    def of_kind(self, kind: str) -> list[tuple[dict[str, list[str]], int]]:
        """The events by step of each result, and its time."""
        return [(json.loads(events), at) for what, events, at in self.results if what == kind]

    def event(self, event: Event, time: int) -> None:
        self.time(time)
        bits = self.automaton.bits(event)
        if self.partial or self.automaton.moves.begins(bits):
            found = self.automaton.process(self.partial, event, time, bits)
            self.results += [("match", labels(match), time) for match in found]
        if not self.partial:
            # What an operator does: a key without partial matches has no state.
            self.partial = PartialMatches()
        else:
            # The state survives being written and read between any two events.
            self.partial = self.automaton.load(self.partial.dumped())

    def time(self, time: int) -> None:
        """Advance the time."""
        matches, timeouts = self.automaton.advance_time(self.partial, time)
        self.results += [("match", labels(match), time) for match in matches]
        self.results += [("timeout", labels(events), end) for events, end in timeouts]


class Operator:
    """What an operator does around automata: order by time, keys, late events. In event time, or in processing time."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.keys: dict[str, Key] = {}
        self.buffer: list[tuple[int, int, str, Event]] = []
        self.now = -1
        self.watermark = -(2**63)
        self.output: list[list[Any]] = []
        # A pattern that is refused must be refused before events come.
        self.key("k")

    def key(self, name: str) -> Key:
        if name not in self.keys:
            self.keys[name] = Key(pattern_of(self.case["steps"], self.case["skip"]))
        return self.keys[name]

    def feed_all(self) -> list[list[Any]]:
        """What comes out: what, events, time, the item at which it came."""
        for item in self.case["feed"]:
            self.feed(item)
        return self.output

    def feed(self, item: list[Any]) -> None:
        before = {name: len(key.results) for name, key in self.keys.items()}
        match item:
            case ["e", label, time, *key]:
                self.arrive(Event(label, label[0]), time, key[0] if key else "k", item)
            case ["wm", time]:
                self.watermark = END if time == "end" else time
                self.release(self.watermark)
                for name in sorted(self.keys):
                    self.keys[name].time(self.watermark)
            case ["pt", time]:
                self.now = time
                self.release(time - 1)
                for state in self.keys.values():
                    if state.partial.deadline_ms < time:
                        state.time(time)
        for name, state in self.keys.items():
            for kind, events, at in state.results[before.get(name, 0) :]:
                self.output.append([kind, json.loads(events), "end" if at == END else at, item])

    def arrive(self, event: Event, time: int, name: str, item: list[Any]) -> None:
        if self.case.get("processing_time"):
            if self.case.get("comparator"):
                self.buffer.append((self.now, len(self.buffer), name, event))
            else:
                self.key(name).event(event, self.now)
        elif time <= self.watermark:
            self.output.append(["late", event.label, None, item])
        else:
            self.buffer.append((time, len(self.buffer), name, event))

    def release(self, until: int) -> None:
        ready = [entry for entry in self.buffer if entry[0] <= until]
        self.buffer = [entry for entry in self.buffer if entry[0] > until]
        by_label = self.case.get("comparator")
        for time, _, name, event in sorted(ready, key=lambda e: (e[0], e[3].label if by_label else e[1])):
            self.key(name).event(event, time)
