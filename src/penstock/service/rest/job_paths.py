"""/jobs: all jobs; and of one its state, plan, settings and failures."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.common.configuration import options
from penstock.common.job_status import JobStatus
from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.execution_graph import Execution, ExecutionGraph, JobFailure
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.engine.runtime.ids import SlotId
from penstock.service.rest.answers import get, job_of, jobs_of
from penstock.service.rest.described_route import Parameter
from penstock.service.rest.io_metrics import io_metrics
from penstock.service.rest.secrets import hide_secrets
from penstock.service.rest.served_jobs import JobEntry, slot_name

_BY_PRECEDENCE = (
    ExecutionState.FAILED,
    ExecutionState.CANCELING,
    ExecutionState.CANCELED,
    ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)
"""The state of a vertex is the first of these in which one of its subtasks is."""


def job_ids(request: Request) -> dict[str, Any]:
    """GET /jobs: id and status of each."""
    return {"jobs": [{"id": entry.job_id, "status": entry.graph.status.name} for entry in jobs_of(request).all()]}


def overview(request: Request) -> dict[str, Any]:
    """GET /jobs/overview: all jobs, with their times and the states of their tasks."""
    return {"jobs": [job_overview(entry) for entry in jobs_of(request).all()]}


def job_overview(entry: JobEntry) -> dict[str, Any]:
    """A job in the list of all."""
    graph = entry.graph
    start_ms, end_ms = graph.submitted_ms, ended_ms(graph)
    counts = Counter(execution.state for execution in graph.executions.values())
    tasks = {state.name.lower(): counts[state] for state in ExecutionState} | {"reconciling": 0}
    return {
        "jid": entry.job_id,
        "name": graph.graph.name,
        "state": graph.status.name,
        "jobType": job_type(graph.graph),
        "schedulerType": "Default",
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": (end_ms if end_ms >= 0 else now_ms()) - start_ms,
        "last-modification": max(graph.status_ms.values()),
        "tasks": {"total": len(graph.executions), **tasks},
        "pending-operators": 0,
    }


def details(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid: its vertices, its plan, and when it reached each status."""
    entry = job_of(request)
    graph, growths = entry.graph, entry.meter.growths()
    start_ms, end_ms, at_ms = graph.submitted_ms, ended_ms(graph), now_ms()
    vertices = []
    for vertex in graph.graph.vertices:
        executions = graph.executions_of(vertex.id)
        vertices.append(
            {
                "id": vertex_id(vertex),
                "slotSharingGroupId": f"{vertex.level:032x}",
                "name": vertex.name,
                "maxParallelism": vertex.max_parallelism,
                "parallelism": vertex.parallelism,
                "status": vertex_state(executions).name,
                **times_of(executions, at_ms),
                "tasks": state_counts(executions),
                "metrics": io_metrics(vertex, [growths.get(execution.task) for execution in executions]),
            }
        )
    return {
        "jid": entry.job_id,
        "name": graph.graph.name,
        "isStoppable": False,
        "state": graph.status.name,
        "job-type": job_type(graph.graph),
        "schedulerType": "Default",
        "application-id": entry.application_id,
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": (end_ms if end_ms >= 0 else at_ms) - start_ms,
        "maxParallelism": max(vertex.max_parallelism for vertex in graph.graph.vertices),
        "now": at_ms,
        "timestamps": {
            **{status.name: graph.status_ms.get(status, 0) for status in JobStatus},
            "INITIALIZING": start_ms,
        },
        "vertices": vertices,
        "status-counts": {state: sum(vertex["status"] == state for vertex in vertices) for state in state_counts([])},
        "plan": plan_of(entry.job_id, entry.graph.graph),
        "pending-operators": 0,
    }


def status(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/status: the status alone."""
    return {"status": job_of(request).graph.status.name}


def plan(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/plan: the job graph."""
    entry = job_of(request)
    return {"plan": plan_of(entry.job_id, entry.graph.graph)}


def plan_of(job_id: str, graph: JobGraph) -> dict[str, Any]:
    """Return the job graph in the form that Flink's clients read."""
    return {
        "jid": job_id,
        "name": graph.name,
        "type": job_type(graph),
        "nodes": [_node(graph, vertex) for vertex in graph.vertices],
    }


def _node(graph: JobGraph, vertex: JobVertex) -> dict[str, Any]:
    inputs = [
        {
            "num": number,
            "id": vertex_id(graph.vertices[edge.source]),
            "ship_strategy": edge.partitioner,
            "exchange": "blocking" if graph.mode.blocking_exchanges else "pipelined_bounded",
        }
        for number, edge in enumerate(edge for edge in graph.edges if edge.target == vertex.id and not edge.feedback)
    ]
    return {
        "id": vertex_id(vertex),
        "parallelism": vertex.parallelism,
        "operator": "",
        "operator_strategy": "",
        "description": " -> ".join(vertex.operators),
        **({"inputs": inputs} if inputs else {}),
        "optimizer_properties": {},
    }


def config(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/config: how it is executed, and its own parameters (secrets hidden)."""
    entry = job_of(request)
    get_option = entry.configuration.get
    return {
        "jid": entry.job_id,
        "name": entry.graph.graph.name,
        "execution-config": {
            "restart-strategy": entry.configuration.get_string("restart-strategy.type", "default"),
            "job-parallelism": max(vertex.parallelism for vertex in entry.graph.graph.vertices),
            "object-reuse-mode": get_option(options.OBJECT_REUSE),
            "user-config": hide_secrets(get_option(options.GLOBAL_JOB_PARAMETERS) or {}),
        },
    }


def exceptions(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/exceptions: failures, newest first."""
    graph = job_of(request).graph
    entries = [failure_entry(graph.graph, failure) for failure in reversed(graph.failures)]
    history = {"exceptionHistory": {"entries": entries, "truncated": not graph.failures_are_complete}}
    return newest_failures(history, request.query_params.get("maxExceptions"))


def newest_failures(answer: dict[str, Any], most: str | None) -> dict[str, Any]:
    """Return the newest failures, as many as the client wants. Raises HTTPException, 400, for an invalid number."""
    text = "20" if most is None else most
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise HTTPException(400, f"maxExceptions must be a number, got '{text}'")
    history = answer["exceptionHistory"]
    newest = history["entries"][: int(text)]
    return {
        "exceptionHistory": {
            "entries": newest,
            "truncated": history["truncated"] or len(newest) < len(history["entries"]),
        }
    }


def failure_entry(graph: JobGraph | None, failure: JobFailure) -> dict[str, Any]:
    """A failure in the history of exceptions. `graph`: None if the failure is of no slot."""
    slot = None if failure.slot is None else slot_name(failure.slot)
    return {
        "exceptionName": failure.error,
        "stacktrace": failure.text,
        "timestamp": failure.at_ms,
        "taskName": None if graph is None or failure.slot is None else _task_name(graph, failure.slot, failure.attempt),
        "endpoint": slot,
        "taskManagerId": slot,
        "failureLabels": {},
        "concurrentExceptions": [],
    }


def _task_name(graph: JobGraph, slot: SlotId, attempt: int) -> str:
    """Name the tasks in Flink's form. All tasks of a slot fail together."""
    vertices = [v for v in graph.vertices if v.level == slot.level and slot.index < v.parallelism]
    names = ", ".join(f"{v.name} ({slot.index + 1}/{v.parallelism})" for v in vertices)
    return f"{names} - execution #{attempt}"


# Shared by other paths.


def job_type(graph: JobGraph) -> str:
    """Flink: JobType."""
    return graph.mode.name


def ended_ms(graph: ExecutionGraph) -> int:
    """Return when the job ended; -1: it has not."""
    return graph.status_ms[graph.status] if graph.status.is_terminal_state() else -1


def state_counts(executions: list[Execution]) -> dict[str, int]:
    """Count subtasks by Flink's states."""
    counts = Counter(execution.state for execution in executions)
    return {**{state.name: counts[state] for state in ExecutionState}, "RECONCILING": 0}


def vertex_state(executions: list[Execution]) -> ExecutionState:
    """Return the state of a vertex, which follows from its subtasks. Flink: getAggregateJobVertexState."""
    found = {execution.state for execution in executions}
    for state in _BY_PRECEDENCE:
        if state in found:
            return state
    if found == {ExecutionState.FINISHED}:
        return ExecutionState.FINISHED
    # States before INITIALIZING count as one. If some subtasks have finished and others have not started, it has.
    return ExecutionState.RUNNING if ExecutionState.FINISHED in found else ExecutionState.CREATED


def times_of(executions: list[Execution], at_ms: int) -> dict[str, int]:
    """Return the start of the first and the end of the last; -1: not yet."""
    starts = [execution.started_ms for execution in executions if execution.started_ms is not None]
    ends = [execution.ended_ms for execution in executions]
    start_ms = min(starts, default=-1)
    end_ms = -1 if None in ends else max(end for end in ends if end is not None)
    duration_ms = -1 if start_ms < 0 else (end_ms if end_ms >= 0 else at_ms) - start_ms
    return {"start-time": start_ms, "end-time": end_ms, "duration": duration_ms}


routes = [
    get("/jobs", job_ids),
    get("/jobs/overview", overview),
    get("/jobs/{jobid}", details),
    get("/jobs/{jobid}/status", status),
    get("/jobs/{jobid}/plan", plan),
    get("/jobs/{jobid}/config", config),
    get(
        "/jobs/{jobid}/exceptions", exceptions, Parameter("maxExceptions", "Most failures to return; default: 20.", int)
    ),
]
