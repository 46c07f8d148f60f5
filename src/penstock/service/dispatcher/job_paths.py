"""/jobs of a cluster, by Flink's paths.

Each job's process answers for itself, and its last answers are archived. Answers about all jobs are assembled here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import penstock
from penstock.common.job_status import JobStatus
from penstock.common.time.wall_clock import now_ms
from penstock.service.dispatcher.dispatcher import DispatchedJob
from penstock.service.dispatcher.events import CancelRequested
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.job_answers import JobAnswers, JobRequest
from penstock.service.dispatcher.known_jobs import id_of_job, overview_of, status_of
from penstock.service.dispatcher.submission_paths import host_of
from penstock.service.rest.answers import bytes_of, get, id_of, json_answer, not_found
from penstock.service.rest.cluster_paths import application_exceptions
from penstock.service.rest.described_route import JSON, DescribedRoute
from penstock.service.rest.slow_request_threads import in_slow_request_thread

_OVERVIEW_S = 1.0
"""Seconds for each of all jobs, which are shown together."""


def job_ids(request: Request) -> dict[str, Any]:
    """GET /jobs: id and status of each."""
    return {"jobs": [{"id": id_of_job(job), "status": status_of(job)} for job in host_of(request).newest().values()]}


async def overview(request: Request) -> Response:
    """GET /jobs/overview: all jobs, with their times and the states of their tasks."""
    return json_answer({"jobs": await overviews(request)})


async def applications(request: Request) -> Response:
    """GET /applications/overview: all applications: each job is one."""
    return json_answer({"applications": [_application(job) for job in await overviews(request)]})


async def application(request: Request) -> Response:
    """GET /applications/:applicationid: one application, with its job."""
    id = id_of(request, "applicationid")
    found = next((job for job in await overviews(request) if job["jid"] == id), None)
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


async def overviews(request: Request) -> list[dict[str, Any]]:
    """Return the overview of each job."""
    host = host_of(request)
    # In parallel: a busy or suspended process does not delay the others.
    return list(await asyncio.gather(*(run_in_threadpool(_overview, host, job) for job in host.newest().values())))


def _overview(host: DispatcherHost, job: DispatchedJob) -> dict[str, Any]:
    answer = JobAnswers(host, job).overview(_OVERVIEW_S)
    found = [] if answer is None else msgspec.json.decode(answer)["jobs"]
    return next((one for one in found if one["jid"] == id_of_job(job)), None) or overview_of(host, job)


async def of_job(request: Request) -> Response:
    """Any path below /jobs/:jobid: the answer of the job's process, or its archive."""
    jobid = request.path_params["jobid"]
    job = host_of(request).find(id_of(request, "jobid"))
    if job is None:
        raise not_found(request, "jobid", f"Job {jobid} not found")
    body = await bytes_of(request)
    path = f"/jobs/{id_of_job(job)}" + request.scope["path"].removeprefix(f"/jobs/{jobid}")
    if _cancels(request, path) and job.status is JobStatus.CANCELED:
        return json_answer({}, 202)
    if _cancels(request, path) and job.status is None:
        # Recorded: if this cluster ends before the job has, the next one does not resume it.
        host_of(request).post(CancelRequested(now_ms(), job.id))
        if job.rest is None:
            # It waits, or is about to start.
            return json_answer({}, 202)
    # A route that accepts GET accepts HEAD.
    method = "GET" if request.method == "HEAD" else request.method
    asked = JobRequest(method, path, request.scope["query_string"].decode("ascii", "replace"), body)
    # A job that hangs delays only its own requests.
    status, answer = await in_slow_request_thread(JobAnswers(host_of(request), job).answer, asked)
    return Response(answer, status, media_type=JSON)


def _cancels(request: Request, path: str) -> bool:
    """PATCH of the job itself, not of a path below it."""
    is_job = path.rstrip("/").count("/") == 2
    return request.method == "PATCH" and is_job and request.query_params.get("mode", "cancel").lower() == "cancel"


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
