"""/jobs/:jobid/vertices/:vertexid/flamegraph: where the threads of a vertex's tasks spend their time."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.service.rest.answers import get, job_of, vertex_of
from penstock.service.rest.described_route import Parameter
from penstock.service.rest.flame_graphs import DISABLED, TERMINATED, WAITING, tree

_ON_CPU = {"FULL": (True, False), "ON_CPU": (True,), "OFF_CPU": (False,)}
"""The thread states that each type includes."""
_QUERY = (
    Parameter("type", "`FULL` (the default), `ON_CPU`: samples in which the thread computes, `OFF_CPU`: it waits."),
    Parameter("subtaskindex", "One subtask; default: all.", int),
)


def flame_graph(request: Request) -> dict[str, Any]:
    """GET …/flamegraph: a tree of frames, outermost first, with the number of samples in each.

    `endTimestamp`: when they were taken (ms), or why there is no `data`: -1 for tasks that do not run, -2 where
    `rest.flamegraph.enabled` is not set, and for jobs in batch mode, -3 until the first samples have arrived: retry.
    """
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    # Flink's page writes it in lower case.
    kind, index = request.query_params.get("type", "FULL").upper(), request.query_params.get("subtaskindex")
    if kind not in _ON_CPU:
        raise HTTPException(400, f"type must be FULL, ON_CPU or OFF_CPU, got '{kind}'")
    if index is not None and not (index.isascii() and index.isdigit() and len(index) < 9):
        raise HTTPException(400, f"subtaskindex must be a number, got '{index}'")
    if not entry.flame_graphs.enabled or not entry.graph.graph.mode.has_job_master:
        return _none(DISABLED)
    executions = entry.graph.executions_of(vertex.id)
    asked = executions if index is None else executions[int(index) : int(index) + 1]
    if not asked:
        raise HTTPException(404, f"Invalid subtask index for vertex {request.path_params['vertexid']}: {index}")
    if all(execution.state is not ExecutionState.RUNNING for execution in asked):
        return _none(TERMINATED)
    stacks = entry.flame_graphs.newest(vertex.id, entry.job.sample_stacks)
    if stacks is None:
        return _none(WAITING)
    subtasks = {execution.task.subtask for execution in asked}
    shown = (
        stack
        for of_subtask in stacks.of_subtasks
        if of_subtask.subtask in subtasks
        for stack in of_subtask.stacks
        if stack.on_cpu in _ON_CPU[kind]
    )
    return {"endTimestamp": stacks.taken_ms, "data": tree(shown)}


def _none(why: int) -> dict[str, Any]:
    return {"endTimestamp": why, "data": None}


routes = [get("/jobs/{jobid}/vertices/{vertexid}/flamegraph", flame_graph, *_QUERY)]
