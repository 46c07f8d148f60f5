"""Publish a running job: in the registry of this machine (`penstock list`), and over REST."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from penstock.common.configuration import Configuration
from penstock.common.time.wall_clock import now_ms
from penstock.engine.rpc.keys import ControlAddress
from penstock.hosts.logs.job_log import JobLog
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob, StartingJob
from penstock.service.rest.endpoint import RestEndpoint
from penstock.service.rest.flame_graphs import FlameGraphs
from penstock.service.rest.meter import Meter
from penstock.service.rest.served_jobs import JobEntry, ServedJob


class VisibleJob:
    """A job of this process. `endpoint` is None if the job is not served over REST."""

    def __init__(self, job_id: str, name: str, endpoint: RestEndpoint | None) -> None:
        self._job_id = job_id
        self._name = name
        self._endpoint = endpoint
        self._registry = JobRegistry()

    @property
    def is_served(self) -> bool:
        """Whether the job is served over REST."""
        return self._endpoint is not None

    def starts(self) -> None:
        """Enter the job into the registry as one that accepts no commands yet: Spark may need many seconds to start."""
        self._registry.add_starting(StartingJob(self._job_id, self._name, os.getpid(), now_ms()))

    def register(self, address: ControlAddress) -> None:
        """Enter the job into the registry: it accepts commands at this address."""
        rest = None if self._endpoint is None else self._endpoint.address
        began_ms = now_ms()
        self._registry.add(
            RunningJob(
                job_id=self._job_id, name=self._name, pid=os.getpid(), started_ms=began_ms, address=address, rest=rest
            )
        )

    def deregister(self) -> None:
        """Remove the job from the registry."""
        self._registry.remove(self._job_id, os.getpid())

    def serve(
        self, job: ServedJob, configuration: Configuration, checkpoints: str, log: JobLog
    ) -> Callable[[], object]:
        """Serve the job over REST, if it has an endpoint. Return what to call when the job ends.

        `checkpoints`: their directory, or an empty text.
        """
        endpoint = self._endpoint
        if endpoint is None:
            return lambda: None
        folder = None if log.settings is None else Path(log.settings.folder)
        meter, flame_graphs = Meter(job.metrics), FlameGraphs(configuration)
        entry = JobEntry(
            job_id=self._job_id,
            job=job,
            configuration=configuration,
            checkpoint_directory=checkpoints,
            log_folder=folder,
            meter=meter,
            flame_graphs=flame_graphs,
        )
        endpoint.jobs.add(entry)
        return lambda: endpoint.job_ended(entry)
