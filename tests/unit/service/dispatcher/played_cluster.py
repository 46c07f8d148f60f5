"""A cluster whose dispatcher is played: two jobs that run, of which only REST is there, and two that can't be asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.unit.service.rest.served import PlayedJob, Served

from penstock.engine.rpc.messages import Register
from penstock.service.client.rest_client import RestClient
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.application import application
from penstock.service.dispatcher.dispatcher import DispatchedJob, Phase
from penstock.service.dispatcher.events import Event
from penstock.service.dispatcher.host import job_named
from penstock.service.rest.token_server import TokenServer


class PlayedCluster:
    """Two jobs that run, one whose process is gone, and one that waits for a slot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.served: list[Served] = []
        self.posted: list[Event] = []
        """What the dispatcher was handed."""
        jobs: list[DispatchedJob] = []
        for id in ("aaaaaaaa1111", "bbbbbbbb2222"):
            (directory / id).mkdir()
            job = PlayedJob()
            for level, index in job.played.attempt.slots:
                job.played.report(level, Register(), index=index)
            one = Served(directory / id, job, id=id)
            (one.logs / "level-0-slot-0.log").write_text(f"a worker of {id}\n")
            self.served.append(one)
            jobs.append(DispatchedJob(id, "job", 3, 0, Phase.RUNNING, id, one.endpoint.address))
        gone = RestAddress("http://127.0.0.1:9", str(directory / "no token"))
        jobs += [
            DispatchedJob("cccccccc", "gone", 1, 0, Phase.RUNNING, rest=gone),
            DispatchedJob("dddddddd", "waits", 1, 0),
        ]
        newest = {job.id: job for job in jobs}
        self.host_jobs = jobs
        host: Any = SimpleNamespace(
            newest=lambda: newest, find=lambda id: newest.get(id) or job_named(id, newest.values()), jobs=jobs,
            slots=8, free=1, log_directory=directory,
            job_logs=directory / "logs",
            store=SimpleNamespace(directory=directory, folder=lambda id: directory / id),
            post=self.posted.append,
        )  # fmt: skip
        self.server = TokenServer("0", {"XDG_CACHE_HOME": str(directory)}, 10.0)
        spark = {"spark.master": "local[2]", "spark.some.password": "secret"}
        self.application = application(host, self.server, spark)
        self.server.start(lambda: self.application, lambda: None, 1.0)
        self.jobs = newest
        self.client = RestClient(self.server.address.url, self.server.token)

    def close(self) -> None:
        self.server.close()
        for served in self.served:
            served.endpoint.close()
