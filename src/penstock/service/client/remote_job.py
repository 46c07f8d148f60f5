"""A job that runs in a cluster, as its client sees it: asked over REST."""

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
"""How long a cluster may not answer until a client takes it for gone."""
_LEADERLESS_S = 120.0
"""The same, where another leader may still be about to be elected."""


class RemoteJob:
    """`status`, `metrics` and the calls of a JobClient. `id`: of the submission, chosen by its client.

    `attached`: whether a program that waits for the job waits for its end, and shows what it prints.
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
        """Hand the job over, once: sent again when no answer has come, it has the same id. Raises JobError."""

        def send() -> None:
            if bundle is not None and not self._cluster.get(f"/bundles/{bundle.name}")["there"]:
                with bundle.open("rb") as file:
                    self._cluster.send("PUT", f"/bundles/{bundle.name}", file)
            self._cluster.send("POST", f"/submissions?id={self._id}", packed)

        if self._cluster.follows_leader:
            self._patiently(send, "whether it has taken the job")
        else:
            send()

    def state(self) -> dict[str, Any]:
        """How it is with it, by its dispatcher. Raises UnreachableError."""
        state: dict[str, Any] = self._cluster.get(self._path)
        return state

    @property
    def status(self) -> JobStatus:
        """Where the job is."""
        state = self.patient_state()
        if state["status"] is not None:
            return JobStatus[state["status"]]
        return JobStatus.RUNNING if state["phase"] == "RUNNING" else JobStatus.CREATED

    @property
    def metrics(self) -> RemoteJob:
        """Its counters."""
        return self

    def vertices(self) -> list[VertexMetrics]:
        """The metrics of each vertex, in the order of the graph. Zeros before it runs, and in batch mode."""
        return (self._newest() or self._unknown_figures()).vertices

    def totals(self) -> JobTotals:
        """Records in and out, and event time."""
        return (self._newest() or self._unknown_figures()).totals

    def as_dict(self) -> dict[str, dict[str, int | float]]:
        """Counters by operator name."""
        return by_operator(self.vertices())

    @property
    def rescales(self) -> int:
        """How often it has gone on with another parallelism."""
        return (self._newest() or self._unknown_figures()).rescales

    @property
    def updates(self) -> int:
        """How often it has gone on with other functions."""
        return (self._newest() or self._unknown_figures()).updates

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return (self._newest() or self._unknown_figures()).restarts

    @property
    def checkpoints(self) -> list[Any]:
        """Its newest checkpoints."""
        with contextlib.suppress(JobError):
            return from_json(self._ask(Command("checkpoints")), list[CheckpointReport])
        return []

    def cancel(self) -> None:
        """Request cancellation; of a job that has ended, nothing. Raises JobError if it can't be requested."""

        def ask() -> None:
            status, answer = self._cluster.answer("PATCH", self._path)
            if status != http.client.CONFLICT:
                self._cluster.checked(status, answer, self._path)

        self._patiently(ask, "whether the job is cancelled")

    def savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint; the future completes with its path."""
        return self._later(Command("savepoint", _absolute(directory)))

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        """Stop the job with a savepoint; the future completes with its path."""
        return self._later(Command("stop", _absolute(directory), drain))

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """Run on with other numbers of subtasks; the future completes with what was done."""
        return self._later(Command("scale", parallelism=parallelism, operators=dict(operators)))

    def wait(self) -> BaseException | None:
        """Wait for the end of the job, and show what it prints. Returns the error that ended it, if any.

        One that is not attached is not waited for; it has an error if it ended before it began.
        """
        if not self._attached:
            state = self.patient_state()
            if state["job_id"] or state["status"] is None:
                return None
        try:
            while True:
                state = self.patient_state()
                # All of it, of a job that has ended: it says no more.
                self._patiently(self._output.show)
                if state["phase"] in ("ENDING", "ENDED"):
                    # What is asked next is what it had counted at its end.
                    self._asked_s = 0.0
                    return _error_of(state)
                time.sleep(_POLL_S)
        except UnreachableError as error:
            return JobError(str(error))

    def patient_state(self) -> dict[str, Any]:
        """The same, also while another process takes the place of the cluster's. Raises UnreachableError."""
        return self._patiently(self.state)

    def _patiently(self, ask: Callable[[], Answer], unknown: str = "whether the job goes on") -> Answer:
        until_s = time.monotonic() + (_LEADERLESS_S if self._cluster.follows_leader else LOST_S)
        while True:
            try:
                return ask()
            except UnreachableError as error:
                if time.monotonic() > until_s:
                    raise UnreachableError(
                        f"the cluster does not answer any more, and {unknown} is not known: {error}. If "
                        "its process has ended (penstock cluster status), the next penstock cluster start with the "
                        "same --dir goes on with its jobs"
                    ) from None
                time.sleep(_POLL_S)

    def _newest(self) -> JobFigures | None:
        """Not asked more often than it changes: several of its parts are read one after the other."""
        now_s = time.monotonic()
        if now_s - self._asked_s > _POLL_S:
            self._asked_s = now_s
            with contextlib.suppress(JobError):
                self._figures = from_json(self._ask(Command("figures")), JobFigures)
        return self._figures

    def _unknown_figures(self) -> JobFigures:
        return JobFigures(JobStatus.CREATED.name, 0, self._unknown.totals(), self._unknown.vertices(), None)

    def _ask(self, command: Command, cluster: RestClient | None = None) -> str:
        asked = cluster or self._cluster
        text: str = asked.ask("POST", f"{self._path}/commands", msgspec.to_builtins(command))["text"]
        return text

    def _later(self, command: Command) -> Future[str]:
        return in_a_thread(lambda: self._ask(command, self._cluster.patient()))


def _error_of(state: Mapping[str, Any]) -> BaseException | None:
    if state["status"] == JobStatus.FINISHED.name:
        return None
    if state["status"] == JobStatus.CANCELED.name:
        return JobCancelledError(state["error"] or f"the job '{state['name']}' was cancelled")
    return revive(state["kind"], state["error"])


def _absolute(directory: str | None) -> str | None:
    # The job may have another working directory.
    return None if directory is None else absolute(directory)
