"""The endpoints that a dashboard shows, and their jobs: one named endpoint, or all of this user on this machine."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

from penstock.common.errors import JobError
from penstock.service.client.rest_client import RestClient, UnreachableError
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_cluster import running_clusters
from penstock.service.cluster.running_jobs import JobRegistry
from penstock.service.dashboard.endpoint import Endpoint

_SEARCH_INTERVAL_S = 2.0
_ANSWER_S = 5.0
_FIGURES_EVERY_S = 2.0
_LOST_JOBS_MAX = 20
"""Most jobs shown of endpoints that no longer answer."""
_FOR_EVER_S = 1e9


class Endpoints:
    """`address`: HOST:PORT of a job or a cluster; None: all current ones on this machine.

    Raises ConfigurationError if the address is malformed, or its token is unknown.
    """

    def __init__(self, address: str | None = None, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self.has_all = address is None
        """Whether the dashboard shows all endpoints of this machine."""
        self._endpoints: dict[str, Endpoint] = {}
        self._of_job: dict[str, Endpoint] = {}
        self._last_seen: dict[str, dict[str, Any]] = {}
        self._searched_s = -_SEARCH_INTERVAL_S
        if address is not None:
            client = RestClient.at(address, environ, _ANSWER_S)
            self._endpoints[client.url] = Endpoint(client)

    async def jobs(self) -> list[dict[str, Any]]:
        """Return all jobs, as in `/jobs/overview`, with their endpoint as `where`.

        Jobs of an endpoint that no longer answers are returned as last seen, and marked.
        """
        await self._search()
        found: dict[str, dict[str, Any]] = {}
        answers = await asyncio.gather(*(_overview(one) for one in self._endpoints.values()))
        # A job of a cluster has an endpoint of its own, which knows less: the cluster's has more jobs.
        by_size = sorted(zip(self._endpoints.values(), answers, strict=True), key=lambda pair: -len(pair[1]))
        for endpoint, jobs in by_size:
            for job in jobs:
                if job["jid"] not in found:
                    found[job["jid"]] = {**job, "where": endpoint.url.removeprefix("http://")}
                    self._of_job[job["jid"]] = endpoint
        lost = {id: _marked_lost(job) for id, job in self._last_seen.items() if id not in found}
        self._last_seen = dict([*lost.items(), *found.items()][-_LOST_JOBS_MAX - len(found) :])
        return list(self._last_seen.values())

    async def with_figures(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return these jobs, those that run with the answer to `/jobs/:id/history` as `history`."""
        return list(await asyncio.gather(*(self._with_figures(job) for job in jobs)))

    async def _with_figures(self, job: dict[str, Any]) -> dict[str, Any]:
        # Reading archives of a hundred ended jobs would take a cluster too long.
        if job["end-time"] >= 0 or job.get("waiting") or job.get("note"):
            return job
        try:
            path = f"/jobs/{job['jid']}/history?range=none"
            return {**job, "history": await self._of_job[job["jid"]].get(path, _FIGURES_EVERY_S)}
        except (UnreachableError, JobError):
            return job

    async def clusters(self) -> list[dict[str, Any]]:
        """Return `/overview` of the endpoints that are clusters and answer, with the endpoint as `where`."""
        answers = await asyncio.gather(*(_cluster(one) for one in self._endpoints.values()))
        return [
            {**answer, "where": endpoint.url.removeprefix("http://")}
            for endpoint, answer in zip(self._endpoints.values(), answers, strict=True)
            if answer is not None
        ]

    async def of_job(self, job_id: str) -> Endpoint:
        """Return the endpoint of this job. Raises JobError if no endpoint has it."""
        if job_id not in self._of_job:
            await self.jobs()
        try:
            return self._of_job[job_id]
        except KeyError:
            raise JobError(f"the job {job_id} has ended: no endpoint of this dashboard has it") from None

    async def _search(self) -> None:
        """Add new endpoints, and remove those that are lost."""
        now_s = time.monotonic()
        if not self.has_all or now_s - self._searched_s < _SEARCH_INTERVAL_S:
            return
        self._searched_s = now_s
        tokens = await asyncio.to_thread(_on_this_machine, self._environ)
        for url in self._endpoints.keys() - tokens.keys():
            self._endpoints.pop(url).close()
        for url, token in tokens.items():
            if url not in self._endpoints:
                self._endpoints[url] = Endpoint(RestClient(url, token, _ANSWER_S, self._environ))


async def _overview(endpoint: Endpoint) -> list[dict[str, Any]]:
    try:
        return list((await endpoint.get("/jobs/overview"))["jobs"])
    except (UnreachableError, JobError):
        return []


async def _cluster(endpoint: Endpoint) -> dict[str, Any] | None:
    try:
        # Only a cluster accepts programs.
        if not (await endpoint.get("/config", _FOR_EVER_S))["features"]["web-submit"]:
            return None
        return dict(await endpoint.get("/overview"))
    except (UnreachableError, JobError):
        return None


def _marked_lost(job: dict[str, Any]) -> dict[str, Any]:
    return job if job["end-time"] >= 0 else {**job, "note": "its endpoint no longer answers"}


def _on_this_machine(environ: Mapping[str, str]) -> dict[str, str]:
    """Tokens by URL."""
    addresses: list[RestAddress | None] = [one.rest for one in running_clusters(environ)]
    addresses += [job.rest for job in JobRegistry(environ).jobs()]
    tokens = {}
    for address in addresses:
        if address is not None:
            try:
                tokens[address.url] = address.token()
            except OSError:
                continue  # The process is just ending.
    return tokens
