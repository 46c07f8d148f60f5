"""/jobs/:jobid/execution-result: how a job has ended, for clients that wait. Flink: JobExecutionResultHandler."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from penstock.common.job_status import JobStatus
from penstock.service.rest.answers import get, job_of
from penstock.service.rest.java_exceptions import failure_cause_of
from penstock.service.rest.job_paths import ended_ms

IN_PROGRESS: dict[str, Any] = {"status": {"id": "IN_PROGRESS"}}
"""The answer for a job that has not ended."""
_APPLICATION_STATUS = {
    JobStatus.FINISHED: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELED: "CANCELED",
}


def execution_result(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/execution-result: whether a job has ended, and how."""
    entry = job_of(request)
    graph = entry.graph
    if not graph.status.is_terminal_state():
        return IN_PROGRESS
    newest = graph.failures[-1] if graph.failures else None
    failure = None if newest is None else (newest.error, newest.text)
    return result_of(entry.job_id, graph.status, ended_ms(graph) - graph.submitted_ms, failure)


def result_of(job_id: str, status: JobStatus, runtime_ms: int, failure: tuple[str, str] | None) -> dict[str, Any]:
    """Return the result of a job that has ended. `failure`: class and text of its newest failure."""
    result: dict[str, Any] = {
        "id": job_id,
        "application-status": _APPLICATION_STATUS.get(status, "UNKNOWN"),
        "accumulator-results": {},
        # A wall clock may have been set back, and Flink's clients refuse negative values.
        "net-runtime": max(0, runtime_ms),
    }
    # A finished job has recovered from its failures.
    if failure is not None and status is not JobStatus.FINISHED:
        result["failure-cause"] = failure_cause_of(*failure)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


routes = [get("/jobs/{jobid}/execution-result", execution_result)]
