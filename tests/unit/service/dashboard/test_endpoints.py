"""Which endpoints a dashboard reads, and how often."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from tests.unit.service.dispatcher.played_cluster import PlayedCluster
from tests.unit.service.rest.served import Served

from penstock.common.errors import JobError
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.client.rest_client import RestClient
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob
from penstock.service.dashboard.endpoint import Endpoint
from penstock.service.dashboard.endpoints import Endpoints


def of_this_machine(served: Served, directory: Path) -> dict[str, str]:
    environ = {"XDG_CACHE_HOME": str(directory)}
    address = ControlAddress("tcp://127.0.0.1:1", b"", b"", b"")
    JobRegistry(environ).add(RunningJob("id", "orders", os.getpid(), 0, address, served.endpoint.address))
    return environ


def test_jobs_of_this_machine_are_found_and_stay_when_their_process_ends(served: Served, tmp_path: Path) -> None:
    """Each job would need a dashboard of its own; and of one that has failed nothing would be left to see."""

    async def watch() -> None:
        endpoints = Endpoints(None, of_this_machine(served, tmp_path))
        (job,) = await endpoints.jobs()
        assert (job["jid"], job["where"]) == ("id", served.host)
        assert (await (await endpoints.of_job("id")).get("/jobs/id"))["name"] == "<b>orders</b>"
        with pytest.raises(JobError, match="the job other has ended"):
            await endpoints.of_job("other")
        served.endpoint.close()
        await asyncio.sleep(1)
        (job,) = await endpoints.jobs()
        assert job["note"] == "its endpoint no longer answers"

    asyncio.run(watch())


def test_one_that_is_named_is_the_only_one(served: Served, tmp_path: Path) -> None:
    """A dashboard that others may see would show jobs that it was not started for."""

    async def watch() -> None:
        environ = {"XDG_CACHE_HOME": str(tmp_path)}
        assert [job["jid"] for job in await Endpoints(served.host, environ).jobs()] == ["id"]

    asyncio.run(watch())


def test_clusters_are_told_from_jobs_that_run_by_themselves(served: Served, tmp_path: Path) -> None:
    """Each job would be shown as a cluster without a free slot, or no cluster at all."""
    (tmp_path / "cluster").mkdir()
    cluster = PlayedCluster(tmp_path / "cluster")

    async def watch() -> None:
        environ = {"XDG_CACHE_HOME": str(cluster.directory)}
        address = cluster.client.url.removeprefix("http://")
        (found,) = await Endpoints(address, environ).clusters()
        assert (found["where"], found["slots-total"], found["slots-available"]) == (address, 8, 1)
        assert await Endpoints(served.host, {"XDG_CACHE_HOME": str(tmp_path)}).clusters() == []
        gone = Endpoints(address, environ)
        cluster.server.close()
        assert await gone.clusters() == []

    asyncio.run(watch())
    cluster.close()


def test_running_jobs_have_figures_and_others_are_not_asked(served: Served, tmp_path: Path) -> None:
    """The list would have no rates; or a cluster would read the archives of a hundred ended jobs for it."""

    async def watch() -> None:
        endpoints = Endpoints(served.host, {"XDG_CACHE_HOME": str(tmp_path)})
        (job,) = await endpoints.jobs()
        (shown,) = await endpoints.with_figures([job])
        assert shown["history"]["now"]["records-in-per-second"] == 100
        for other in ({"end-time": 5}, {"waiting": "waits for 1 slot"}, {"note": "its endpoint no longer answers"}):
            assert await endpoints.with_figures([job | other]) == [job | other]

    asyncio.run(watch())


def test_what_pages_ask_for_at_once_is_asked_once(served: Served) -> None:
    """Twenty open pages would be twenty times the load for a job's process."""
    asked: list[str] = []

    class Counted(RestClient):
        def get(self, path: str) -> object:
            asked.append(path)
            return super().get(path)

    async def read() -> None:
        endpoint = Endpoint(Counted(served.endpoint.address.url, served.endpoint.token))
        first, *others = await asyncio.gather(*(endpoint.get("/jobs") for _ in range(20)))
        assert asked == ["/jobs"] and others == [first] * 19
        await endpoint.get("/jobs", fresh_s=0.0)
        assert len(asked) == 2
        for _ in range(2):
            with pytest.raises(JobError, match="/nothing"):
                await endpoint.get("/nothing", fresh_s=60.0)
        assert len(asked) == 4, "a failure is no answer to keep"
        endpoint.close()

    asyncio.run(read())
