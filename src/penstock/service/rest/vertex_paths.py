"""/jobs/:jobid/vertices/:vertexid: subtasks, their times, where they run, and back pressure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.execution_graph import Execution
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.jobmaster.metrics import own_metrics
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.engine.rpc.messages import TaskReport
from penstock.service.rest.answers import get, job_of, number_of, subtask_of, vertex_of
from penstock.service.rest.io_metrics import io_metrics
from penstock.service.rest.job_paths import state_counts, times_of, vertex_state
from penstock.service.rest.meter import Growth
from penstock.service.rest.served_jobs import JobEntry, slot_name

_DURATIONS = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_LOW, _HIGH = 0.1, 0.5
"""Ratios from which back pressure is called low, and high. Source: Flink docs, "Monitoring Back Pressure"."""


def details(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid: its subtasks, what they have read and written; its operators (not Flink)."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    executions, growths, at_ms = entry.graph.executions_of(vertex.id), entry.meter.growths(), now_ms()
    subtasks = [_subtask(vertex, execution, growths.get(execution.task), at_ms) for execution in executions]
    return {
        "id": vertex_id(vertex),
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": at_ms,
        "subtasks": subtasks,
        "aggregated": _aggregated(subtasks),
        "operators": _operators(vertex, [growths[one.task].now for one in executions if one.task in growths]),
    }


def _operators(vertex: JobVertex, reports: list[TaskReport]) -> list[dict[str, Any]]:
    """Return what operators say of themselves, and the metrics that not all operators have."""
    return [
        {
            "name": node.name,
            "description": node.transformation.description,
            # A task that is starting has reported no operators.
            "metrics": own_metrics([one.operators[place] for one in reports if place < len(one.operators)]),
        }
        for place, node in enumerate(vertex.nodes)
    ]


def subtask(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid/subtasks/:subtaskindex: one task."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    execution = entry.graph.executions_of(vertex.id)[subtask_of(request, vertex)]
    return _subtask(vertex, execution, entry.meter.growths().get(execution.task), now_ms())


def attempt(request: Request) -> dict[str, Any]:
    """GET …/subtasks/:subtaskindex/attempts/:attempt: the current or an earlier attempt of a task."""
    entry = job_of(request)
    vertex, execution = attempt_of(request, entry)
    present = entry.graph.executions[execution.task].attempt == execution.attempt
    return _subtask(vertex, execution, entry.meter.growths().get(execution.task) if present else None, now_ms())


def earlier_attempts(request: Request) -> dict[str, Any]:
    """GET …/vertices/:vertexid/earlier-attempts: ended attempts of all its subtasks. Flink has no such path."""
    entry = job_of(request)
    vertex, at_ms = vertex_of(request, entry), now_ms()
    executions = entry.graph.executions_of(vertex.id)
    return {
        "attempts": [
            _subtask(vertex, earlier, None, at_ms) for execution in executions for earlier in execution.earlier
        ]
    }


def attempt_of(request: Request, entry: JobEntry) -> tuple[JobVertex, Execution]:
    """Return the attempt that the path names. Raises HTTPException: 404."""
    vertex = vertex_of(request, entry)
    execution = entry.graph.executions_of(vertex.id)[subtask_of(request, vertex)]
    wanted = number_of(request, "attempt")
    kept = {one.attempt: one for one in (*execution.earlier, execution)}
    if wanted not in kept:
        raise HTTPException(404, f"Could not find execution for attempt {wanted}: expected {min(kept)} to {max(kept)}")
    return vertex, kept[wanted]


def subtask_times(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid/subtasktimes: when each subtask reached each of its states."""
    entry = job_of(request)
    vertex, at_ms = vertex_of(request, entry), now_ms()
    return {
        "id": vertex_id(vertex),
        "name": vertex.name,
        "now": at_ms,
        "subtasks": [
            {
                "subtask": execution.task.subtask,
                "endpoint": slot_name(execution.slot),
                "duration": times_of([execution], at_ms)["duration"],
                "timestamps": {
                    **{state.name: execution.since_ms.get(state, 0) for state in ExecutionState},
                    "RECONCILING": 0,
                },
            }
            for execution in entry.graph.executions_of(vertex.id)
        ],
    }


def task_managers(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid/taskmanagers: the slots, each of which is a Python worker."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    growths, at_ms = entry.meter.growths(), now_ms()
    listed = []
    for execution in entry.graph.executions_of(vertex.id):
        shown = _subtask(vertex, execution, growths.get(execution.task), at_ms)
        listed.append(
            {
                "endpoint": slot_name(execution.slot),
                "taskmanager-id": slot_name(execution.slot),
                "status": vertex_state([execution]).name,
                **times_of([execution], at_ms),
                "metrics": shown["metrics"],
                "status-counts": state_counts([execution]),
                "aggregated": _aggregated([shown]),
            }
        )
    return {"id": vertex_id(vertex), "name": vertex.name, "now": at_ms, "taskmanagers": listed}


def back_pressure(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid/backpressure: how busy, idle and back-pressured each subtask is."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    growths, worst = entry.meter.growths(), 0.0
    subtasks = []
    for execution in entry.graph.executions_of(vertex.id):
        shares = _shares(growths.get(execution.task))
        level = _level(shares["ratio"])
        worst = max(worst, shares["ratio"])
        subtasks.append(
            {
                "subtask": execution.task.subtask,
                "attempt-number": execution.attempt,
                "backpressureLevel": level,
                "backpressure-level": level,
                **shares,
                "other-concurrent-attempts": None,
            }
        )
    return {
        "status": "ok",
        "backpressureLevel": _level(worst),
        "backpressure-level": _level(worst),
        "end-timestamp": now_ms(),
        "subtasks": subtasks,
    }


def _level(ratio: float) -> str:
    return "ok" if ratio <= _LOW else "low" if ratio <= _HIGH else "high"


def _shares(growth: Growth | None) -> dict[str, float]:
    if growth is None:
        return {"ratio": 0.0, "idleRatio": 0.0, "busyRatio": 0.0}
    before, after = growth.before, growth.after
    spent = {
        "ratio": after.back_pressured_ns - before.back_pressured_ns,
        "idleRatio": after.idle_ns - before.idle_ns,
        "busyRatio": after.busy_ns - before.busy_ns,
    }
    total = sum(spent.values())
    return {kind: part / total if total else 0.0 for kind, part in spent.items()}


def _subtask(vertex: JobVertex, execution: Execution, growth: Growth | None, at_ms: int) -> dict[str, Any]:
    times = times_of([execution], at_ms)
    slot = slot_name(execution.slot)
    return {
        "subtask": execution.task.subtask,
        "status": execution.state.name,
        "attempt": execution.attempt,
        "endpoint": slot,
        **times,
        "start_time": times["start-time"],
        "metrics": io_metrics(vertex, [growth]),
        "taskmanager-id": slot,
        "status-duration": _status_durations(execution, at_ms),
        "other-concurrent-attempts": None,
    }


def _status_durations(execution: Execution, at_ms: int) -> dict[str, int]:
    """Return the time in each state; -1: not reached."""
    reached = list(execution.since_ms.items())
    nexts_ms = [since_ms for _, since_ms in reached[1:]] + [execution.ended_ms or at_ms]
    spent = {state.name: max(0, next_ms - since) for (state, since), next_ms in zip(reached, nexts_ms, strict=True)}
    return {name: spent.get(name, -1) for name in _DURATIONS}


def _aggregated(subtasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what subtasks have done, and their times in each state, aggregated."""
    metrics = [name for name in subtasks[0]["metrics"] if not name.endswith("-complete")]
    return {
        "metrics": {name: aggregate_of([int(each["metrics"][name]) for each in subtasks]) for name in metrics},
        "status-duration": {
            name: aggregate_of([each["status-duration"][name] for each in subtasks]) for name in _DURATIONS
        },
    }


_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"


def aggregate_of(values: Sequence[int]) -> dict[str, int]:
    """Aggregate integers in any order; all results are 0 without any. Flink: AggregatedTaskDetailsInfo."""
    ordered = sorted(values) or [0]
    total = sum(ordered)
    # Java's division, towards zero. The time in a state that no task has reached is -1.
    mean = abs(total) // len(ordered) * (-1 if total < 0 else 1)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "avg": mean,
        "sum": total,
        "median": _percentile(ordered, 50),
        "p25": _percentile(ordered, 25),
        "p75": _percentile(ordered, 75),
        "p95": _percentile(ordered, 95),
    }


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """Interpolate between the two nearest numbers, like commons-math's Percentile."""
    place = percent * (len(ordered) + 1) / 100
    if place < 1:
        return ordered[0]
    if place >= len(ordered):
        return ordered[-1]
    below, above = ordered[math.floor(place) - 1], ordered[math.floor(place)]
    return int(below + (place - math.floor(place)) * (above - below))


routes = [
    get(_VERTEX, details),
    get(f"{_VERTEX}/subtasktimes", subtask_times),
    get(f"{_VERTEX}/taskmanagers", task_managers),
    get(f"{_VERTEX}/backpressure", back_pressure),
    get(f"{_VERTEX}/earlier-attempts", earlier_attempts),
    get(f"{_VERTEX}/subtasks/{{subtaskindex}}", subtask),
    get(f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}", attempt),
]
