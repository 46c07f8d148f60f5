"""Answers of the dispatcher itself about a job that waits, starts, or has left nothing behind, in Flink's form.

Flink: a job that is INITIALIZING has no graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import without_secrets
from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.execution_graph import JobFailure, error_name
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.rpc.failures import revive
from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.submission_paths import why_it_waits
from penstock.service.rest.accumulator_paths import NO_ACCUMULATORS
from penstock.service.rest.execution_result_paths import IN_PROGRESS, result_of
from penstock.service.rest.job_paths import failure_entry, state_counts

_BEFORE = "INITIALIZING"


def id_of_job(job: DispatchedJob) -> str:
    """Return the id that REST paths use for a job."""
    return job.job_id or job.id


def status_of(job: DispatchedJob) -> str:
    """Return the status of a job in lists of all jobs: INITIALIZING before it runs."""
    if job.status is not None:
        return job.status.name
    return {Phase.RUNNING: JobStatus.RUNNING.name}.get(job.phase, _BEFORE)


def overview_of(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    """Return the job's entry in the list of all jobs. Flink has no field `waiting`."""
    at_ms = now_ms()
    return {
        "jid": id_of_job(job),
        "name": job.name,
        "state": status_of(job),
        "jobType": "STREAMING",
        "schedulerType": "Default",
        "start-time": job.submitted_ms,
        "end-time": -1 if job.ended_ms is None else job.ended_ms,
        "duration": (at_ms if job.ended_ms is None else job.ended_ms) - job.submitted_ms,
        "last-modification": job.ended_ms or job.started_ms or job.submitted_ms,
        "tasks": {"total": 0, **{state.name.lower(): 0 for state in ExecutionState}, "reconciling": 0},
        "pending-operators": 0,
        "waiting": why_it_waits(host, job),
    }


def known_of(host: DispatcherHost, job: DispatchedJob, part: str) -> Any:
    """Answer GET of `part`, a path below /jobs/:jobid; None: the answer is unknown before the job runs."""
    known = _KNOWN.get(part)
    return None if known is None else known(host, job)


def _details(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    ended = {} if job.status is None else {job.status.name: job.ended_ms or job.submitted_ms}
    return {
        **overview_of(host, job),
        **_status(host, job, "state"),
        "isStoppable": False,
        "job-type": "STREAMING",
        "application-id": id_of_job(job),
        "maxParallelism": -1,
        "now": now_ms(),
        "timestamps": {**{status.name: 0 for status in JobStatus}, _BEFORE: job.submitted_ms, **ended},
        "vertices": [],
        "status-counts": state_counts([]),
        **_plan(host, job),
    }


def _status(host: DispatcherHost, job: DispatchedJob, name: str = "status") -> dict[str, Any]:
    # Its process may run already, but does not serve it yet.
    return {name: _BEFORE if job.status is None else job.status.name}


def _plan(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    return {"plan": {"jid": id_of_job(job), "name": job.name, "type": "STREAMING", "nodes": []}}


def _config(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    return {"jid": id_of_job(job), "name": job.name}


def _exceptions(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    entries = []
    if job.error:
        failure = JobFailure(_error_class(job), without_secrets(job.error), job.ended_ms or job.submitted_ms)
        entries = [failure_entry(None, failure)]
    return {"exceptionHistory": {"entries": entries, "truncated": False}}


def _result(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    if job.status is None:
        return IN_PROGRESS
    failure = (_error_class(job), without_secrets(job.error)) if job.error else None
    runtime_ms = (job.ended_ms or job.submitted_ms) - job.submitted_ms
    return result_of(id_of_job(job), job.status, runtime_ms, failure)


def _error_class(job: DispatchedJob) -> str:
    return error_name(revive(job.kind or "JobError", job.error))


RESULT = "/execution-result"
_KNOWN: dict[str, Callable[[DispatcherHost, DispatchedJob], Any]] = {
    "": _details,
    "/status": _status,
    "/plan": _plan,
    "/config": _config,
    "/exceptions": _exceptions,
    RESULT: _result,
    "/accumulators": lambda host, job: NO_ACCUMULATORS,
    "/metrics": lambda host, job: [],
}
