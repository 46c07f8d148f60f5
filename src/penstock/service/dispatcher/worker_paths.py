"""Workers of all jobs, and the cluster's own process, by Flink's paths, which its pages and command use.

A task manager is a slot of a job. Slots of different jobs have equal names, so a cluster prefixes them with the
beginning of the job's id: `1610a734-level-0-slot-0`. Pages that show one job omit the prefix, which is accepted if only
one job has such a slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.hosts.logs.settings import JVM_LOG
from penstock.service.client.rest_client import RestClient, UnreachableError
from penstock.service.cluster.running_cluster import LOG
from penstock.service.dispatcher.dispatcher import DispatchedJob
from penstock.service.dispatcher.submission_paths import host_of
from penstock.service.rest import cluster_paths
from penstock.service.rest.answers import get, json_answer
from penstock.service.rest.described_route import JSON, TEXT, DescribedRoute
from penstock.service.rest.log_paths import LAST, listed, text_answer

_TIMEOUT_S = 5.0
_PREFIX = 8
_SLOT = "level-"


async def task_managers(request: Request) -> Response:
    """GET /taskmanagers: the slots of all running jobs."""
    # In parallel: a busy or suspended process does not delay the others.
    found = await asyncio.gather(*(run_in_threadpool(_slots, job) for job in running(request)))
    return json_answer({"taskmanagers": [slot for of_job in found for slot in of_job]})


async def of_task_manager(request: Request) -> Response:
    """Any path below /taskmanagers/:taskmanagerid: the answer of its job's process."""
    id, rest = request.path_params["taskmanagerid"], request.path_params.get("rest", "")
    job, slot = await run_in_threadpool(_find, request, id)
    query = request.scope["query_string"].decode("ascii", "replace")
    path = f"/taskmanagers/{quote(slot)}" + f"/{quote(rest)}" * bool(rest) + f"?{query}" * bool(query)
    status, answer = await run_in_threadpool(request_of_job, job, path)
    if not rest and status == 200:
        answer = msgspec.json.encode(msgspec.json.decode(answer) | {"id": id, "path": id})
    is_text = rest.partition("/")[0] in ("log", "stdout") or rest.startswith("logs/")
    return Response(answer, status, media_type=TEXT if is_text else JSON)


def running(request: Request) -> list[DispatchedJob]:
    """Return the jobs whose processes serve requests."""
    return [job for job in host_of(request).newest().values() if job.rest is not None]


def request_of_job(job: DispatchedJob, path: str, timeout_s: float = _TIMEOUT_S) -> tuple[int, bytes]:
    """Return status and answer of a job's process: 503 if it does not answer."""
    assert job.rest is not None
    try:
        return RestClient(job.rest.url, job.rest.token(), timeout_s).answer("GET", path)
    except (OSError, UnreachableError):
        return 503, msgspec.json.encode({"errors": [f"the process of job '{job.name}' does not answer"]})


def _slots(job: DispatchedJob) -> list[dict[str, Any]]:
    status, answer = request_of_job(job, "/taskmanagers")
    found = msgspec.json.decode(answer)["taskmanagers"] if status == 200 else []
    prefix = f"{(job.job_id or job.id)[:_PREFIX]}-"
    return [slot | {"id": prefix + slot["id"], "path": prefix + slot["path"]} for slot in found]


def _find(request: Request, id: str) -> tuple[DispatchedJob, str]:
    """Return the job and its name of the slot. Raises HTTPException: 404."""
    prefix, _, slot = id.partition("-")
    for job in running(request):
        if prefix and slot.startswith(_SLOT) and (job.job_id or job.id).startswith(prefix):
            return job, slot
    having = [job for job in running(request) if any(one["id"].partition("-")[2] == id for one in _slots(job))]
    if len(having) != 1:
        several = f": {len(having)} jobs have such a slot, each with its id before it" if having else ""
        raise HTTPException(404, f"TaskExecutor {id} not found{several}")
    return having[0], id


def settings(request: Request) -> list[Any]:
    """GET /jobmanager/config: settings of the cluster's Spark application (secrets hidden)."""
    return cluster_paths.as_settings(request.app.state.spark)


def logs(request: Request) -> dict[str, Any]:
    """GET /jobmanager/logs: the cluster's log, and those of its jobs: of drivers, and of workers that have ended."""
    return listed(_logs(request))


async def log(request: Request) -> Response:
    """GET /jobmanager/log, /stdout, /logs/:filename: its text."""
    name = request.path_params.get("filename", LOG)
    return text_answer(_logs(request), name, request.query_params.get("last"))


def _logs(request: Request) -> dict[str, Path]:
    """Return the logs by name. Names of jobs' logs start with the beginning of the job's id, like slots."""
    host = host_of(request)
    # The log, and its rotated predecessors.
    found = {path.name: path for path in sorted(host.log_directory.glob(f"{LOG}*")) if path.is_file()}
    for job in host.newest().values():
        id = job.job_id or job.id
        found |= {f"{id[:_PREFIX]}-{path.name}": path for path in _of_job(job, host.job_logs / id)}
    return found


def _of_job(job: DispatchedJob, folder: Path) -> Iterator[Path]:
    """Not Spark's, which serves all jobs. While a job runs, its process has the logs of its workers."""
    for path in sorted(folder.glob("*.log*")):
        if path.is_file() and (job.status is not None or not path.name.startswith(_SLOT)) and path.name != JVM_LOG:
            yield path


routes = [
    DescribedRoute("/taskmanagers", task_managers, answer=dict[str, Any]),
    Route("/taskmanagers/{taskmanagerid}", of_task_manager, methods=["GET"]),
    Route("/taskmanagers/{taskmanagerid}/{rest:path}", of_task_manager, methods=["GET"]),
    get("/jobmanager/config", settings),
    get("/jobmanager/environment", cluster_paths.environment),
    get("/jobmanager/thread-dump", cluster_paths.thread_dump),
    get("/jobmanager/logs", logs),
    DescribedRoute("/jobmanager/logs/{filename:path}", log, query=[LAST], media_type=TEXT),
    DescribedRoute("/jobmanager/log", log, query=[LAST], media_type=TEXT),
    DescribedRoute("/jobmanager/stdout", log, query=[LAST], media_type=TEXT),
]
