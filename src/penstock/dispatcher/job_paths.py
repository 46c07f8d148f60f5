"""/jobs of a cluster, by Flink's paths.

Each job's process answers for itself, and what it has answered at its end is kept. What concerns all jobs is put
together here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import penstock
from penstock.client.rest_client import RestClient, UnreachableError
from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.common.secrets import without_passwords
from penstock.common.wall_clock import now_ms
from penstock.dispatcher.archive import read_archive, read_overview
from penstock.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.dispatcher.events import CancelRequested
from penstock.dispatcher.host import DispatcherHost
from penstock.dispatcher.job_store import ARCHIVE
from penstock.dispatcher.submission_paths import host_of, why_it_waits
from penstock.jobmaster.execution_graph import JobFailure, error_name
from penstock.jobmaster.execution_state import ExecutionState
from penstock.rest.answers import bytes_of, get, id_of, json_answer, not_found
from penstock.rest.cluster_paths import application_exceptions
from penstock.rest.described_route import JSON, DescribedRoute
from penstock.rest.execution_result_paths import IN_PROGRESS, result_of
from penstock.rest.job_paths import failure_entry, state_counts
from penstock.rpc.failures import revive

_ASK_S = 10.0
_OVERVIEW_S = 1.0
"""For each of all jobs, which are shown together."""


def job_ids(request: Request) -> dict[str, Any]:
    """GET /jobs: the id and the status of each."""
    return {"jobs": [{"id": _id(job), "status": _status(job)} for job in host_of(request).newest().values()]}


async def overview(request: Request) -> Response:
    """GET /jobs/overview: all jobs, with their times and the states of their tasks."""
    return json_answer({"jobs": await _overviews(request)})


async def applications(request: Request) -> Response:
    """GET /applications/overview: all applications: each job is one."""
    return json_answer({"applications": [_application(job) for job in await _overviews(request)]})


async def application(request: Request) -> Response:
    """GET /applications/:applicationid: one, with its job."""
    id = id_of(request, "applicationid")
    found = next((job for job in await _overviews(request) if job["jid"] == id), None)
    if found is None:
        raise not_found(request, "applicationid", f"Application {id} not found")
    times = {found["state"]: found["last-modification"]}
    return json_answer({**_application(found), "timestamps": times, "jobs": [found]})


def _application(job: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": job["jid"],
        "name": job["name"],
        "start-time": job["start-time"],
        "end-time": job["end-time"],
        "duration": job["duration"],
        "status": job["state"],
        "jobs": {status.name: int(status.name == job["state"]) for status in JobStatus},
    }


async def _overviews(request: Request) -> list[dict[str, Any]]:
    jobs = host_of(request).newest().values()
    # Side by side: one that is busy, or was stopped, does not hold up the others.
    return list(await asyncio.gather(*(run_in_threadpool(_overview, request, job) for job in jobs)))


def _overview(request: Request, job: DispatchedJob) -> dict[str, Any]:
    status, answer = _answer(request, job, "GET", "/jobs/overview", b"", _OVERVIEW_S)
    found = msgspec.json.decode(answer)["jobs"] if status == 200 else []
    return next((one for one in found if one["jid"] == _id(job)), None) or _own_overview(host_of(request), job)


def _own_overview(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    """Of a job whose process can't be asked: it waits, starts, or was killed. Flink has no field `waiting`."""
    at_ms = now_ms()
    return {
        "jid": _id(job),
        "name": job.name,
        "state": _status(job),
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


async def of_job(request: Request) -> Response:
    """Any path below /jobs/:jobid: what the job's process answers, or has answered at its end."""
    jobid = request.path_params["jobid"]
    job = host_of(request).find(id_of(request, "jobid"))
    if job is None:
        raise not_found(request, "jobid", f"Job {jobid} not found")
    path, body = request.scope["path"], await bytes_of(request)
    if jobid != _id(job):
        path = path.replace(jobid, _id(job), 1)
    if _cancels(request, job) and job.status is JobStatus.CANCELED:
        return json_answer({}, 202)
    if _cancels(request, job) and job.status is None and job.rest is None:
        # It waits, or is about to start.
        host_of(request).post(CancelRequested(now_ms(), job.id))
        return json_answer({}, 202)
    query = request.scope["query_string"].decode("ascii", "replace")
    # A route that takes GET takes HEAD.
    method = "GET" if request.method == "HEAD" else request.method
    status, answer = await run_in_threadpool(_answer, request, job, method, f"{path}?{query}" if query else path, body)
    return Response(answer, status, media_type=JSON)


def _cancels(request: Request, job: DispatchedJob) -> bool:
    """PATCH of the job itself, and of nothing in it."""
    is_it = request.scope["path"].rstrip("/") in (f"/jobs/{_id(job)}", f"/jobs/{job.id}")
    return request.method == "PATCH" and is_it and request.query_params.get("mode", "cancel") == "cancel"


def _error_class(job: DispatchedJob) -> str:
    return error_name(revive(job.kind or "JobError", job.error))


def _of_ended(host: DispatcherHost, job: DispatchedJob, status: JobStatus, path: str) -> dict[str, Any] | None:
    """What the dispatcher itself knows of a job that has ended, of which nothing was kept."""
    ended_ms = job.ended_ms or job.submitted_ms
    if path == f"/jobs/{_id(job)}/status":
        return {"status": status.name}
    if path == f"/jobs/{_id(job)}":
        return _without_vertices(host, job, status.name, {status.name: ended_ms})
    if path != f"/jobs/{_id(job)}/exceptions":
        return None
    failure = failure_entry(None, JobFailure(_error_class(job), without_passwords(job.error), ended_ms))
    return {"exceptionHistory": {"entries": [failure] if job.error else [], "truncated": False}}


def _without_vertices(
    host: DispatcherHost, job: DispatchedJob, state: str, timestamps: dict[str, int]
) -> dict[str, Any]:
    return {
        **_own_overview(host, job),
        "state": state,
        "isStoppable": False,
        "job-type": "STREAMING",
        "application-id": _id(job),
        "maxParallelism": -1,
        "now": now_ms(),
        "timestamps": {**{status.name: 0 for status in JobStatus}, "INITIALIZING": job.submitted_ms, **timestamps},
        "vertices": [],
        "status-counts": state_counts([]),
        "plan": {"jid": _id(job), "name": job.name, "type": "STREAMING", "nodes": []},
    }


def _own_answer(host: DispatcherHost, job: DispatchedJob, path: str) -> dict[str, Any] | None:
    """To GET of a job that has no process yet, or one that does not serve it yet. Flink: a job that is INITIALIZING."""
    state = "INITIALIZING"
    if path == f"/jobs/{_id(job)}/status":
        return {"status": state}
    if path == _result_path(job):
        return IN_PROGRESS
    if path != f"/jobs/{_id(job)}":
        return None
    return _without_vertices(host, job, state, {})


def _answer(
    request: Request, job: DispatchedJob, method: str, path: str, body: bytes, most_s: float = _ASK_S
) -> tuple[int, bytes]:
    """The status, and what is answered."""
    host = host_of(request)
    known, mark, query = path.partition("?")
    asked = quote(known) + mark + query
    own = _own_answer(host, job, known) if method == "GET" and job.status is None else None
    if job.rest is not None:
        try:
            status, answered = RestClient(job.rest.url, job.rest.token(), most_s).answer(method, asked, body or None)
            if status != 404 or own is None:
                return status, answered
        except (OSError, UnreachableError) as error:
            if job.status is None:
                # It is busy, or stopped, or has just ended, which is not known yet. Flink's clients ask again at 503.
                return 503, _errors(f"Job {_id(job)} does not answer: {error}")
            own = None
    if own is not None:
        return 200, msgspec.json.encode(own)
    if method != "GET" and job.status is not None:
        return 409, _errors(f"Job {_id(job)} has ended: {job.status.name}")
    file = host.store.folder(job.id) / ARCHIVE
    try:
        if method == "GET" and known == "/jobs/overview" and (answer := read_overview(file)) is not None:
            return 200, answer
        kept = read_archive(file) if method == "GET" and known != "/jobs/overview" else None
    except JobError as error:
        return 404, _errors(f"Of job {_id(job)}, which has ended, this is not known: {error}")
    answer = kept.find(known) if kept is not None else None
    if answer is None and kept is not None and known.endswith("/metrics"):
        # Nothing is measured any more. As Flink answers for a job that has ended.
        answer = b"[]"
    if answer is None and known == _result_path(job) and job.status is not None:
        # Its process was killed, or is an older one: the dispatcher knows how it ended all the same.
        failure = (_error_class(job), without_passwords(job.error)) if job.error else None
        runtime_ms = (job.ended_ms or job.submitted_ms) - job.submitted_ms
        answer = msgspec.json.encode(result_of(_id(job), job.status, runtime_ms, failure))
    if answer is None and kept is None and job.status is not None:
        # It has not come as far as to serve anything.
        told = _of_ended(host, job, job.status, known)
        answer = None if told is None else msgspec.json.encode(told)
    if answer is not None:
        return 200, answer
    if job.status is None:
        text = f"Job {_id(job)} can't be asked: it is {job.phase.name.lower()}"
    else:
        text = f"Of job {_id(job)}, which has ended ({job.status.name}), this is not known. {job.error}".strip()
    return 404, _errors(text)


def _result_path(job: DispatchedJob) -> str:
    return f"/jobs/{_id(job)}/execution-result"


def _errors(text: str) -> bytes:
    return msgspec.json.encode({"errors": [without_passwords(text)]})


def _id(job: DispatchedJob) -> str:
    return job.job_id or job.id


def _status(job: DispatchedJob) -> str:
    if job.status is not None:
        return job.status.name
    return {Phase.RUNNING: JobStatus.RUNNING.name}.get(job.phase, "INITIALIZING")


def cluster(request: Request) -> dict[str, Any]:
    """GET /overview: how many slots and jobs there are."""
    host = host_of(request)
    counts = Counter(job.status for job in host.jobs)
    return {
        "taskmanagers": host.slots,
        "slots-total": host.slots,
        "slots-available": host.free,
        "taskmanagers-blocked": 0,
        "slots-free-and-blocked": 0,
        "jobs-running": counts[None],
        "jobs-finished": counts[JobStatus.FINISHED],
        "jobs-cancelled": counts[JobStatus.CANCELED],
        "jobs-failed": counts[JobStatus.FAILED],
        "flink-version": f"penstock {penstock.__version__}",
        "flink-commit": "",
    }


routes = [
    get("/overview", cluster),
    get("/jobs", job_ids),
    DescribedRoute("/jobs/overview", overview, answer=dict[str, Any]),
    DescribedRoute("/applications/overview", applications, answer=dict[str, Any]),
    DescribedRoute("/applications/{applicationid}", application, answer=dict[str, Any]),
    get("/applications/{applicationid}/exceptions", application_exceptions),
    Route("/jobs/{jobid}", of_job, methods=["GET", "PATCH"]),
    Route("/jobs/{jobid}/{rest:path}", of_job, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
]
