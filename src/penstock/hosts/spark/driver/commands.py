"""Commands to a running job from another process of the user: its status, a savepoint, another parallelism, its end."""

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

_FAILURES_MAX = 3
"""Maximum number of failures in an answer, for a job that fails all the time."""
_log = logging.getLogger(__name__)


class CommandedJob(Protocol):
    """The interface of a job that commands use."""

    @property
    def status(self) -> JobStatus:
        """Return the status of the job."""

    @property
    def restarts(self) -> int:
        """Return the number of restarts."""

    @property
    def metrics(self) -> JobMetrics:
        """Return the counters of the job."""

    @property
    def failures(self) -> Sequence[JobFailure]:
        """Return the newest failures, oldest first."""

    @property
    def autoscaled(self) -> Autoscaled | None:
        """Return the newest decision of the autoscaler."""

    def checkpoint_reports(self) -> list[CheckpointReport]:
        """Return the newest checkpoints."""

    def cancel(self) -> None:
        """Cancel the job."""

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint, and stop the job with it if `stop`."""

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """Change the parallelism of the whole job, or of operators by name or uid."""

    def update(self, program: bytes, allow_non_restored: bool) -> Future[str]:
        """Give the job the functions of another program."""


def answer_command(
    job: CommandedJob,
    command: Command,
    send: Callable[[Answer], None],
    on_control_thread: Callable[[Callable[[], None]], object],
) -> None:
    """Carry out a command. `send` is called on the control thread with the answer."""
    if command.verb == "status":
        send(Answer(True, job.status.name))
    elif command.verb == "figures":
        send(Answer(True, msgspec.json.encode(_figures(job)).decode()))
    elif command.verb == "checkpoints":
        send(Answer(True, msgspec.json.encode(_with_newest_subtasks(job.checkpoint_reports())).decode()))
    elif command.verb == "cancel":
        _log.warning("penstock cancel: canceling the job")
        job.cancel()
        send(Answer(True, ""))
    elif command.verb == "scale":
        _log.warning("penstock scale: changing the parallelism")
        _answer_later(job.scale(command.parallelism, command.operators), command, send, on_control_thread)
    elif command.verb == "update":
        _log.warning("penstock update: replacing functions")
        _answer_later(job.update(command.program, command.allow_non_restored), command, send, on_control_thread)
    else:
        stop = command.verb == "stop"
        if stop:
            _log.warning("penstock stop: stopping the job with a savepoint")
        outcome = job.savepoint(command.directory, stop, stop and command.drain)
        _answer_later(outcome, command, send, on_control_thread)


def _figures(job: CommandedJob) -> JobFigures:
    reports = job.checkpoint_reports()
    completed = [report for report in reports if report.is_completed]
    metrics = job.metrics
    return JobFigures(
        status=job.status.name,
        restarts=job.restarts,
        totals=metrics.totals(),
        vertices=metrics.vertices(),
        checkpoint=completed[-1] if completed else None,
        rescales=metrics.rescales,
        updates=metrics.updates,
        failed_checkpoint=reports[-1] if reports and not reports[-1].is_completed else None,
        autoscaled=job.autoscaled,
        failures=job.failures[-_FAILURES_MAX:],
    )


def _with_newest_subtasks(reports: Sequence[CheckpointReport]) -> list[CheckpointReport]:
    """Return the reports, with figures of subtasks only in the newest completed one, to save megabytes."""
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
            # A reader of the log expects the outcome of the line above.
            _log.warning("penstock %s failed: %s", command.verb, error)
        answer = Answer(True, done.result()) if error is None else Answer(False, str(error), type(error).__name__)
        # Another thread completes the future, and only the control thread may send.
        on_control_thread(lambda: send(answer))

    outcome.add_done_callback(answer)
