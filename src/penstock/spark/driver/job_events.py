"""What a job's log in the driver says: attempts, failures, checkpoints, the end. Flink: the JobManager's log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.checkpoint.report import CheckpointReport
from penstock.jobmaster.attempt_id import AttemptId
from penstock.jobmaster.effects import Deploy, Finish, JobEffect
from penstock.jobmaster.events import CancelRequested, HostFailed, JobEvent, QueryFailed, Reported, SavepointRequested
from penstock.rpc.messages import SlotFailed


class JobEvents:
    """Writes to the `events` of a JobLog. `history`: the job's checkpoints that completed or failed, as they come."""

    def __init__(self, log: logging.Logger, history: Sequence[CheckpointReport]) -> None:
        self._log = log
        self._history = history
        self._last_checkpoint: CheckpointReport | None = None

    def happened(self, event: JobEvent) -> None:
        """An event is about to be handled."""
        tell = _EVENTS.get(type(event))
        if tell is not None:
            tell(self._log, event)

    def followed(self, effects: Iterable[JobEffect]) -> None:
        """This has come of it."""
        newest = self._history[-1] if self._history else None
        if newest is not None and newest is not self._last_checkpoint:
            self._last_checkpoint = newest
            self._tell_checkpoint(newest)
        for effect in effects:
            if isinstance(effect, Deploy):
                checkpoint = f" from {len(effect.restored)} restored subtasks" * bool(effect.restored)
                self._log.info("%s is deployed%s", _attempt(effect.attempt), checkpoint)
            elif isinstance(effect, Finish):
                self._tell_end(effect)

    def _tell_checkpoint(self, report: CheckpointReport) -> None:
        if report.is_completed:
            self._log.info(
                "checkpoint %d completed in %d ms, %d bytes written of %d",
                report.checkpoint_id,
                report.duration_ms,
                report.written_bytes,
                report.total_bytes,
            )
        else:
            self._log.warning("checkpoint %d failed: %s", report.checkpoint_id, report.failure)

    def _tell_end(self, effect: Finish) -> None:
        if effect.error is None:
            self._log.info("the job has ended: %s", effect.status.name)
        else:
            self._log.error("the job has ended: %s\n%s", effect.status.name, effect.error)


def _attempt(attempt: AttemptId) -> str:
    return f"attempt {attempt.number + 1} of region {attempt.region + 1}"


def _reported(log: logging.Logger, event: Reported) -> None:
    message = event.message
    if isinstance(message.report, SlotFailed):
        where = f"level {message.level} slot {message.index}, attempt {message.attempt + 1}"
        log.warning("%s has failed\n%s", where, message.report.message)


_EVENTS: dict[type[JobEvent], Callable[[logging.Logger, Any], None]] = {
    Reported: _reported,
    QueryFailed: lambda log, event: log.warning("%s has failed\n%s", _attempt(event.attempt), event.error),
    HostFailed: lambda log, event: log.error("a fault of the job itself\n%s", event.error),
    CancelRequested: lambda log, event: log.info("the job is to be cancelled"),
    SavepointRequested: lambda log, event: log.info(
        "a savepoint is to be taken%s", " and the job to stop" * event.stop
    ),
}
