"""Accumulators of a job and its tasks, by Flink's paths: always empty. Penstock has metrics instead."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.answers import get, job_of, vertex_of
from penstock.service.rest.served_jobs import slot_name
from penstock.service.rest.vertex_paths import attempt_of

NO_ACCUMULATORS: dict[str, Any] = {
    "job-accumulators": [],
    "user-task-accumulators": [],
    "serialized-user-task-accumulators": {},
}
"""The accumulators of a job."""


def job_accumulators(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/accumulators: always empty; penstock has metrics instead."""
    job_of(request)
    return NO_ACCUMULATORS


def vertex_accumulators(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid/accumulators: always empty; penstock has metrics instead."""
    vertex = vertex_of(request, job_of(request))
    return {"id": vertex_id(vertex), "user-accumulators": []}


def subtask_accumulators(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/vertices/:vertexid/subtasks/accumulators: empty for each subtask."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    subtasks = [
        {
            "subtask": execution.task.subtask,
            "attempt": execution.attempt,
            "endpoint": slot_name(execution.slot),
            "user-accumulators": [],
        }
        for execution in entry.graph.executions_of(vertex.id)
    ]
    return {"id": vertex_id(vertex), "parallelism": vertex.parallelism, "subtasks": subtasks}


def attempt_accumulators(request: Request) -> dict[str, Any]:
    """GET …/subtasks/:subtaskindex/attempts/:attempt/accumulators: always empty; penstock has metrics instead."""
    vertex, execution = attempt_of(request, job_of(request))
    subtask = execution.task.subtask
    return {
        "subtask": subtask,
        "attempt": execution.attempt,
        "id": f"{vertex_id(vertex)}_{subtask}_{execution.attempt}",
        "user-accumulators": [],
    }


_VERTEX = "/jobs/{jobid}/vertices/{vertexid}"

# Before the routes of vertex_paths.py, which would read `accumulators` as the number of a subtask.
routes = [
    get("/jobs/{jobid}/accumulators", job_accumulators),
    get(f"{_VERTEX}/accumulators", vertex_accumulators),
    get(f"{_VERTEX}/subtasks/accumulators", subtask_accumulators),
    get(f"{_VERTEX}/subtasks/{{subtaskindex}}/attempts/{{attempt}}/accumulators", attempt_accumulators),
]
