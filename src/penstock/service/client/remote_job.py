"""A job in a cluster as its client sees it, over REST."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.common.errors import JobCancelledError, JobError
from penstock.common.files.file_systems import absolute
from penstock.common.job_client import in_a_thread
from penstock.common.job_status import JobStatus
from penstock.common.values.decoding import from_json
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.metrics import JobFigures, JobMetrics, JobTotals, VertexMetrics, by_operator
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.failures import revive
from penstock.engine.rpc.messages import Command
from penstock.service.client.remote_output import RemoteOutput
from penstock.service.client.rest_client import RestClient, UnreachableError

Answer = TypeVar("Answer")

_POLL_S = 0.2
LOST_S = 30.0
"""How long (seconds) a cluster may be silent until a client gives up."""
_LEADERLESS_S = 120.0
"""The same with high availability, where an election may be under way."""


class RemoteJob:
    """The status, metrics and commands of a JobClient. `id`: of the submission, chosen by the client.

    `attached`: whether a program that waits for the job waits for its end, and shows its output.
    """

    def __init__(self, cluster: RestClient, id: str, graph: JobGraph, attached: bool = True) -> None:
        self._cluster = cluster
        self._id = id
        self._path = f"/submissions/{id}"
        self._attached = attached
        self._unknown = JobMetrics(graph)
        self._output = RemoteOutput(cluster, id)
        self._figures: JobFigures | None = None
        self._asked_s = 0.0

    def submit(self, packed: bytes, bundle: Path | None) -> None:
        """Submit the job, once: retries send the same id, which the cluster recognizes. Raises JobError."""

        def send() -> None:
            if bundle is not None and not self._cluster.get(f"/bundles/{bundle.name}")["there"]:
                with bundle.open("rb") as file:
                    self._cluster.send("PUT", f"/bundles/{bundle.name}", file)
            self._cluster.send("POST", f"/submissions?id={self._id}", packed)

        if self._cluster.follows_leader:
            self._retry(send, "whether it has accepted the job")
        else:
            send()

    def state(self) -> dict[str, Any]:
        """Return the state of the job, as its dispatcher knows it. Raises UnreachableError."""
        state: dict[str, Any] = self._cluster.get(self._path)
        return state

    @property
    def status(self) -> JobStatus:
        """Return the status of the job, which is CREATED until its process has started it."""
        state = self.retried_state()
        if state["status"] is not None:
            return JobStatus[state["status"]]
        return JobStatus.RUNNING if state["phase"] == "RUNNING" else JobStatus.CREATED

    @property
    def metrics(self) -> RemoteJob:
        """Return the counters of the job."""
        return self

    def vertices(self) -> list[VertexMetrics]:
        """Return the metrics of each vertex, in the order of the graph. Zeros before it runs, and in batch mode."""
        return (self._newest() or self._unknown_figures()).vertices

    def totals(self) -> JobTotals:
        """Return records in and out, and event time."""
        return (self._newest() or self._unknown_figures()).totals

    def as_dict(self) -> dict[str, dict[str, int | float]]:
        """Return counters by operator name."""
        return by_operator(self.vertices())

    @property
    def rescales(self) -> int:
        """How often the job has resumed with another parallelism."""
        return (self._newest() or self._unknown_figures()).rescales

    @property
    def updates(self) -> int:
        """How often the job has resumed with other functions."""
        return (self._newest() or self._unknown_figures()).updates

    @property
    def restarts(self) -> int:
        """How often the job was restarted."""
        return (self._newest() or self._unknown_figures()).restarts

    @property
    def checkpoints(self) -> list[Any]:
        """Return the newest checkpoints."""
        with contextlib.suppress(JobError):
            return from_json(self._command(Command("checkpoints")), list[CheckpointReport])
        return []

    def cancel(self) -> None:
        """Request cancellation; do nothing if the job has ended. Raises JobError if the request fails."""

        def cancel() -> None:
            status, answer = self._cluster.answer("PATCH", self._path)
            if status != http.client.CONFLICT:
                self._cluster.checked(status, answer, self._path)

        self._retry(cancel, "whether the job is canceled")

    def savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint; the future completes with its path."""
        return self._later(Command("savepoint", _absolute(directory)))

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        """Stop the job with a savepoint; the future completes with its path."""
        return self._later(Command("stop", _absolute(directory), drain))

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """Change the number of subtasks; the future completes with a description of what changed."""
        return self._later(Command("scale", parallelism=parallelism, operators=dict(operators)))

    def wait(self) -> BaseException | None:
        """Wait for the end of the job, and show its output. Returns the error that ended it, if any.

        Does not wait for a detached job, which has an error only if it ended before it started.
        """
        if not self._attached:
            state = self.retried_state()
            if state["job_id"] or state["status"] is None:
                return None
        try:
            while True:
                state = self.retried_state()
                # A job that has ended prints nothing further: read the rest.
                self._retry(self._output.show)
                if state["phase"] in ("ENDING", "ENDED"):
                    # From now on, answer with the counters of its end.
                    self._asked_s = 0.0
                    return _error_of(state)
                time.sleep(_POLL_S)
        except UnreachableError as error:
            return JobError(str(error))

    def retried_state(self) -> dict[str, Any]:
        """Ask the cluster, and keep trying while another process takes over. Raises UnreachableError."""
        return self._retry(self.state)

    def _retry(self, call: Callable[[], Answer], unknown: str = "whether the job runs") -> Answer:
        until_s = time.monotonic() + (_LEADERLESS_S if self._cluster.follows_leader else LOST_S)
        while True:
            try:
                return call()
            except UnreachableError as error:
                if time.monotonic() > until_s:
                    raise UnreachableError(
                        f"the cluster no longer answers, so {unknown} is unknown: {error}. If its process has ended "
                        "(see penstock cluster status), the next penstock cluster start with the same --dir resumes "
                        "its jobs"
                    ) from None
                time.sleep(_POLL_S)

    def _newest(self) -> JobFigures | None:
        """Cached for a moment, because callers read several parts of it one after the other."""
        now_s = time.monotonic()
        if now_s - self._asked_s > _POLL_S:
            self._asked_s = now_s
            with contextlib.suppress(JobError):
                self._figures = from_json(self._command(Command("figures")), JobFigures)
        return self._figures

    def _unknown_figures(self) -> JobFigures:
        return JobFigures(
            status=JobStatus.CREATED.name,
            restarts=0,
            totals=self._unknown.totals(),
            vertices=self._unknown.vertices(),
            checkpoint=None,
        )

    def _command(self, command: Command, cluster: RestClient | None = None) -> str:
        asked = cluster or self._cluster
        text: str = asked.request("POST", f"{self._path}/commands", msgspec.to_builtins(command))["text"]
        return text

    def _later(self, command: Command) -> Future[str]:
        return in_a_thread(lambda: self._command(command, self._cluster.without_timeout()))


def _error_of(state: Mapping[str, Any]) -> BaseException | None:
    if state["status"] == JobStatus.FINISHED.name:
        return None
    if state["status"] == JobStatus.CANCELED.name:
        return JobCancelledError(state["error"] or f"the job '{state['name']}' was canceled")
    return revive(state["kind"], state["error"])


def _absolute(directory: str | None) -> str | None:
    # The job may have another working directory.
    return None if directory is None else absolute(directory)
