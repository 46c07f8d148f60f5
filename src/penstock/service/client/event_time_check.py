"""Warn of programs that run without an error and never emit what they were written for, before a job starts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from penstock.api.functions.function import Function
from penstock.api.source import Boundedness
from penstock.api.windows.triggers import ContinuousEventTimeTrigger, EventTimeTrigger, PurgingTrigger
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.stream_graph import StreamGraph, StreamNode
from penstock.engine.runtime.operators.interval_join import IntervalJoinOperator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.window_operator import WindowOperator

_log = logging.getLogger(__name__)

_TIMER = "register_event_time_timer"


def warn_of_event_time(graph: JobGraph) -> None:
    """Log what `event_time_warnings` finds."""
    for warning in event_time_warnings(graph):
        _log.warning("%s", warning)


def event_time_warnings(graph: JobGraph) -> list[str]:
    """A sentence for each operator whose event time never advances, and for each sink that ignores event time.

    Bounded sources end with the highest watermark, so everything behind them fires. In batched mode all sources end.
    """
    plan = graph.stream_graph
    warnings = [*_stopped_clocks(plan)] if graph.mode.advances_time else []
    if any(_watermarks(node) for node in plan.nodes.values()):
        warnings += [
            f"'{node.name}': {warning}"
            for node in plan.nodes.values()
            if (sink := node.operator.sink) is not None and (warning := sink.event_time_warning())
        ]
    # Sinks often have the same name.
    return list(dict.fromkeys(warnings))


def _stopped_clocks(plan: StreamGraph) -> Iterator[str]:
    without = _without_watermarks(plan)
    for node in plan.nodes.values():
        source = without.get(node.id)
        never = _needs_watermarks(node)
        if source and never:
            yield (
                f"'{node.name}' {never}: no watermarks come from '{source}'. Give its stream a WatermarkStrategy, by "
                "from_source(...) or assign_timestamps_and_watermarks(...), or use processing time"
            )


def _without_watermarks(plan: StreamGraph) -> dict[int, str]:
    """Nodes whose event time never advances, each with the name of a source that holds it back.

    An operator's watermark is the lowest of its inputs', so one such input is enough.
    """
    targets: dict[int, list[int]] = {}
    for edge in plan.edges:
        if not edge.feedback:
            targets.setdefault(edge.source, []).append(edge.target)
    held: dict[int, str] = {}
    todo = [(node.id, node.name) for node in plan.nodes.values() if _is_endless(node) and not _watermarks(node)]
    while todo:
        id, source = todo.pop()
        if id not in held and not (plan.nodes[id].transformation.inputs and _watermarks(plan.nodes[id])):
            held[id] = source
            todo += [(target, source) for target in targets.get(id, ())]
    return held


def _is_endless(node: StreamNode) -> bool:
    source = node.operator.source
    return source is not None and source.get_boundedness() is not Boundedness.BOUNDED


def _watermarks(node: StreamNode) -> bool:
    """Whether watermarks begin at this operator."""
    strategy = node.operator.strategy
    return strategy is not None and strategy.has_watermarks


def _needs_watermarks(node: StreamNode) -> str:
    """Return the effect of missing watermarks on this operator; "": it needs no watermarks."""
    operator = node.operator
    if isinstance(operator, SlicedWindowOperator) and operator.event_time:
        return "never emits a window"
    if isinstance(operator, WindowOperator):
        trigger = operator.trigger
        while isinstance(trigger, PurgingTrigger):
            trigger = trigger.nested_trigger
        if isinstance(trigger, (EventTimeTrigger, ContinuousEventTimeTrigger)):
            return "never emits a window"
    if isinstance(operator, IntervalJoinOperator):
        return "keeps all records for ever"
    for place in operator.function_places():
        if _mentions_timer(place.function.instance):
            return "never fires its event-time timers"
    return ""


def _mentions_timer(function: Any) -> bool:
    """Whether a method of a user's class calls `register_event_time_timer`."""
    if not isinstance(function, Function):
        return False
    bases = [base for base in type(function).__mro__ if not base.__module__.startswith("penstock.")]
    members = [member for base in bases for member in vars(base).values()]
    return any(_names(member.__code__, _TIMER) for member in members if isinstance(member, FunctionType))


def _names(code: CodeType, name: str) -> bool:
    """Whether this code, or a function within it, uses the name."""
    return name in code.co_names or any(_names(part, name) for part in code.co_consts if isinstance(part, CodeType))
