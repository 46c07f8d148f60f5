"""Recorded cases, played through the operator of a job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.unit.cep.recorded import END, Event, pattern_of

from penstock.cep import CEP, PatternProcessFunction, PatternStream, TimedOutPartialMatchHandler
from penstock.datastream import DataStream, OutputTag
from penstock.testing import OperatorHarness

LATE: OutputTag[Any] = OutputTag("late")
TIMED_OUT: OutputTag[Any] = OutputTag("timed out")


class Shown(PatternProcessFunction[Any, Any], TimedOutPartialMatchHandler[Any]):
    """Emits what each match or partial match consists of, and its time."""

    def process_match(self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        yield "match", labels_of(match), ctx.timestamp()

    def process_timed_out_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[tuple[OutputTag[Any], Any]]:
        yield TIMED_OUT, ("timeout", labels_of(match), ctx.timestamp())


def labels_of(match: dict[str, list[Any]]) -> str:
    return json.dumps({name: [event[1].label for event in events] for name, events in match.items()})


def keyed_pattern(case: dict[str, Any]) -> Any:
    """The pattern of a case, on pairs of key and event."""
    return on_pairs(pattern_of(case["steps"], case["skip"]))


def on_pairs(pattern: Any) -> Any:
    """Let the conditions see the event of a pair."""
    from penstock.cep.conditions import Iterative, Simple

    class Unpaired:
        def __init__(self, ctx: Any) -> None:
            self.ctx = ctx

        def get_events_for_pattern(self, name: str) -> list[Any]:
            return [row[1] for row in self.ctx.get_events_for_pattern(name)]

    def unpaired(condition: Any) -> Any:
        if isinstance(condition, Simple):
            return Simple(lambda pair, call=condition.function: call(pair[1]))
        if isinstance(condition, Iterative):
            return Iterative(lambda pair, ctx, call=condition.function: call(pair[1], Unpaired(ctx)))
        return condition

    def unpair(steps: Iterable[Any]) -> None:
        for step in steps:
            step.condition = unpaired(step.condition)
            step.until = None if step.until is None else unpaired(step.until)
            unpair(step.group)

    unpair(pattern.steps())
    return pattern


class Played:
    """The operator of a case, and what came out of it: what, events, the time, the item at which it came."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.case = case
        self.output: list[list[Any]] = []
        self.harness = OperatorHarness(self._program, now_ms=-1)

    def _program(self, stream: DataStream[Any]) -> DataStream[Any]:
        case = self.case
        comparator = (
            (lambda a, b: (a[1].label > b[1].label) - (a[1].label < b[1].label)) if case.get("comparator") else None
        )
        found: PatternStream[Any] = CEP.pattern(stream.key_by(lambda pair: pair[0]), keyed_pattern(case), comparator)
        if case.get("processing_time"):
            found.in_processing_time()
        return found.side_output_late_data(LATE).process(Shown())

    def feed_all(self) -> list[list[Any]]:
        for item in self.case["feed"]:
            self.feed(item)
        return self.output

    def feed(self, item: list[Any]) -> None:
        harness = self.harness
        match item:
            case ["e", label, time, *key]:
                pair = key[0] if key else "k", Event(label, label[0])
                harness.push(pair, None if self.case.get("processing_time") else time)
            case ["wm", time]:
                harness.watermark(END if time == "end" else time)
            case ["pt", time]:
                harness.advance_ms(time - harness.now_ms)
        for kind, events, at in [*harness.outputs(), *harness.side_outputs(TIMED_OUT)]:
            self.output.append([kind, json.loads(events), "end" if at == END else at, item])
        self.output += [["late", pair[1].label, None, item] for pair in harness.side_outputs(LATE)]
        harness.clear_outputs()
