"""Keep job graphs instead of running them: for `penstock explain`, and for tests of what a program plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from penstock.common.errors import JobError, PenstockError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.results.result_sinks import CollectedResults
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_level
from penstock.service.client.dependencies import Dependencies
from penstock.service.client.event_time_check import event_time_warnings
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.settings_check import check_settings
from penstock.service.client.sinks_check import check_sinks
from penstock.service.client.slots_check import check_slots


class PlanExecutor(PipelineExecutor):
    """Keep the graph of each job that a program executes. For the program, each job ends at once, without results."""

    runs_jobs = False

    def __init__(self) -> None:
        self.graphs: list[JobGraph] = []
        """The graphs, in the order of execution."""
        self.faults: list[PenstockError] = []
        """Errors that would keep a job from starting."""
        self.warnings: list[str] = []
        """Warnings about programs that start and never emit."""

    def execute(self, submission: Submission) -> JobClient:
        job_id = JobID.generate()
        submission.on_start(job_id)
        self.graphs.append(submission.graph)
        self._check(submission)
        self.warnings += event_time_warnings(submission.graph)
        for result_sink in submission.result_sinks.values():
            # Close sinks of results: the program may wait for their end. Other sinks would print, or commit.
            if isinstance(result_sink, CollectedResults):
                result_sink.succeeded()
        return JobClient(job_id, _PlannedRun(submission.graph))

    def _check(self, submission: Submission) -> None:
        graph, configuration = submission.graph, submission.configuration
        self._try(lambda: check_settings(configuration))
        self._try(lambda: check_sinks(graph, configuration))
        self._try(lambda: Dependencies.of(configuration))
        if submission.spark is None:
            self._try(lambda: check_slots(graph, configuration))
        for level in graph.levels("planned"):
            self._try(partial(dump_level, level))

    def _try(self, check: Callable[[], object]) -> None:
        try:
            check()
        except PenstockError as error:
            self.faults.append(error)


class _PlannedRun:
    """A job that has ended, because nothing of it ran."""

    def __init__(self, graph: JobGraph) -> None:
        self.status = JobStatus.FINISHED
        self.metrics = JobMetrics(graph)
        self.checkpoints: list[Any] = []
        self.restarts = 0

    def cancel(self) -> None:
        pass

    def savepoint(self, directory: str | None) -> Future[str]:
        answer: Future[str] = Future()
        answer.set_exception(JobError("the job was planned, not run: it has no state to save"))
        return answer

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        return self.savepoint(directory)

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        return self.savepoint(None)

    def wait(self) -> BaseException | None:
        return None
