"""What another process of the user may ask of a running job: how it is, a savepoint, other subtasks, its end."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.execution_graph import JobFailure
from penstock.engine.jobmaster.metrics import JobFigures, JobMetrics
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.rpc.messages import Answer, Command

_FAILURES_MOST = 3
"""Of a job that fails all night."""
_log = logging.getLogger(__name__)


class CommandedJob(Protocol):
    """What commands need of a job."""

    @property
    def status(self) -> JobStatus:
        """Where the job is."""

    @property
    def restarts(self) -> int:
        """How often it was started again."""

    @property
    def metrics(self) -> JobMetrics:
        """Its counters."""

    @property
    def failures(self) -> Sequence[JobFailure]:
        """Its newest failures, oldest first."""

    @property
    def autoscaled(self) -> Autoscaled | None:
        """The newest decision of its autoscaler."""

    def checkpoint_reports(self) -> list[CheckpointReport]:
        """Its newest checkpoints."""

    def cancel(self) -> None:
        """Stop it."""

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint, and perhaps stop with it."""

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """Run on with other numbers of subtasks: of the whole job, of operators by name or uid."""

    def update(self, program: bytes, allow_non_restored: bool) -> Future[str]:
        """Go on with the functions of another program."""


def answer_command(
    job: CommandedJob,
    command: Command,
    send: Callable[[Answer], None],
    on_control_thread: Callable[[Callable[[], None]], object],
) -> None:
    """Carry a command out. `send` is called on the control thread when there is an answer."""
    if command.verb == "status":
        send(Answer(True, job.status.name))
    elif command.verb == "figures":
        send(Answer(True, msgspec.json.encode(_figures(job)).decode()))
    elif command.verb == "checkpoints":
        send(Answer(True, msgspec.json.encode(_with_newest_subtasks(job.checkpoint_reports())).decode()))
    elif command.verb == "cancel":
        _log.warning("the job is cancelled from outside: penstock cancel")
        job.cancel()
        send(Answer(True, ""))
    elif command.verb == "scale":
        _log.warning("another parallelism is asked for from outside: penstock scale")
        _answer_later(job.scale(command.parallelism, command.operators), command, send, on_control_thread)
    elif command.verb == "update":
        _log.warning("other functions are asked for from outside: penstock update")
        _answer_later(job.update(command.program, command.allow_non_restored), command, send, on_control_thread)
    else:
        stop = command.verb == "stop"
        if stop:
            _log.warning("a stop with a savepoint is asked for from outside: penstock stop")
        outcome = job.savepoint(command.directory, stop, stop and command.drain)
        _answer_later(outcome, command, send, on_control_thread)


def _figures(job: CommandedJob) -> JobFigures:
    reports = job.checkpoint_reports()
    completed = [report for report in reports if report.is_completed]
    metrics = job.metrics
    return JobFigures(
        job.status.name,
        job.restarts,
        metrics.totals(),
        metrics.vertices(),
        completed[-1] if completed else None,
        metrics.rescales,
        updates=metrics.updates,
        failed_checkpoint=reports[-1] if reports and not reports[-1].is_completed else None,
        autoscaled=job.autoscaled,
        failures=job.failures[-_FAILURES_MOST:],
    )


def _with_newest_subtasks(reports: Sequence[CheckpointReport]) -> list[CheckpointReport]:
    """With the figures of subtasks of the newest that has completed alone: a hundred times a thousand are megabytes."""
    newest = next((report for report in reversed(reports) if report.is_completed), None)
    return [report if report is newest else dataclasses.replace(report, subtasks=[], tasks=[]) for report in reports]


def _answer_later(
    outcome: Future[str],
    command: Command,
    send: Callable[[Answer], None],
    on_control_thread: Callable[[Callable[[], None]], object],
) -> None:
    def answer(done: Future[str]) -> None:
        error = done.exception()
        if error is not None:
            # Who reads that it was asked for would wait for it.
            _log.warning("penstock %s was not carried out: %s", command.verb, error)
        answer = Answer(error is None, str(error) if error is not None else done.result())
        # Another thread completes the future, and only the control thread may send.
        on_control_thread(lambda: send(answer))

    outcome.add_done_callback(answer)
