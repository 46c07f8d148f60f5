"""Metrics of a cluster and of all its jobs at one address: for Prometheus, and by Flink's paths.

The process of each job measures. The answers of all jobs, requested in parallel, are assembled here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.host import DispatcherHost
from penstock.service.dispatcher.submission_paths import host_of
from penstock.service.dispatcher.worker_paths import request_of_job, running
from penstock.service.rest.answers import get, json_answer
from penstock.service.rest.described_route import TEXT, DescribedRoute
from penstock.service.rest.metric_paths import AGGREGATED_OVER_JOBS, GET, aggregated, listed, none, values
from penstock.service.rest.prometheus import OF_CLUSTER, Families, add, exposition
from penstock.service.rest.task_metrics import Number

_ASK_S = 2.0
"""Prometheus gives up after ten seconds: one process that hangs must not hide the metrics of all others."""
_FAMILY = "# HELP "


def of_cluster(host: DispatcherHost) -> dict[str, Number]:
    """Return metrics of the cluster itself, by Flink's names, which has no metric of waiting jobs."""
    jobs = host.jobs
    return {
        "taskSlotsTotal": host.slots,
        "taskSlotsAvailable": host.free,
        "numRegisteredTaskManagers": host.slots,
        "numRunningJobs": sum(job.phase in (Phase.STARTING, Phase.RUNNING) for job in jobs),
        "numQueuedJobs": sum(job.phase is Phase.QUEUED for job in jobs),
    }


async def metrics(request: Request) -> Response:
    """GET /metrics: all metrics of the cluster and its jobs, for Prometheus."""
    own: Families = {}
    add(own, OF_CLUSTER, of_cluster(host_of(request)), {})
    answers = await _answers((job, "/metrics") for job in running(request))
    return Response(merged(exposition(own), [answer.decode() for answer in answers]), media_type=CONTENT_TYPE_LATEST)


def merged(own: str, of_jobs: Iterable[str]) -> str:
    """Merge the answers of several processes, each family as one block, as Prometheus requires.

    A family in `own`, the cluster's, is taken from there alone: a job would report its own slots.
    """
    families = {about: [samples] for about, samples in _families(own)}
    known = frozenset(families)
    for text in of_jobs:
        for about, samples in _families(text):
            if about not in known:
                families.setdefault(about, []).append(samples)
    return "".join(f"{_FAMILY}{about}\n{''.join(samples)}" for about, samples in families.items())


def _families(text: str) -> Iterator[tuple[str, str]]:
    """Return the comments and the samples of each family."""
    # Samples never start this way: a line break in a name is written as a backslash and an n.
    for family in f"\n{text}".split(f"\n{_FAMILY}")[1:]:
        about, kind, samples = family.split("\n", 2)
        yield f"{about}\n{kind}", samples.rstrip("\n") + "\n"


async def of_jobs(request: Request) -> Response:
    """GET /jobs/metrics: metrics aggregated over running jobs."""
    wanted, names = listed(request, "jobs"), request.query_params.get("get")
    ids = {job.job_id or job.id: job for job in running(request)}
    asked = f"?get={quote(names)}" if names else ""
    answers = await _answers(
        (job, f"/jobs/{id}/metrics{asked}") for id, job in ids.items() if wanted is None or id in wanted
    )
    # Names alone have no values, so no process is called.
    by_job = [{one["id"]: float(one.get("value", 0)) for one in msgspec.json.decode(answer)} for answer in answers]
    return json_answer(aggregated(request, by_job))


def of_job_manager(request: Request) -> list[Any]:
    """GET /jobmanager/metrics: slots and jobs of the cluster: names, or with ?get= values."""
    return values(request, of_cluster(host_of(request)))


async def _answers(asked: Iterable[tuple[DispatchedJob, str]]) -> list[bytes]:
    """Return the answers that arrive in time."""
    # In parallel: a busy or suspended process does not delay the others.
    answers = await asyncio.gather(*(run_in_threadpool(request_of_job, job, path, _ASK_S) for job, path in asked))
    return [answer for status, answer in answers if status == 200]


routes = [
    DescribedRoute("/metrics", metrics, media_type=TEXT),
    DescribedRoute("/jobs/metrics", of_jobs, query=AGGREGATED_OVER_JOBS, answer=list[Any]),
    get("/jobmanager/metrics", of_job_manager, GET),
    get("/taskmanagers/metrics", none),
]
