"""The lines of a job's log in the driver: attempts, failures, checkpoints, the end. Flink: the JobManager's log."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.common.errors.user_traceback import raised_line
from penstock.common.text.secrets import redacted_error
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.effects import Deploy, Finish, JobEffect
from penstock.engine.jobmaster.events import (
    CancelRequested,
    HostFailed,
    JobEvent,
    QueryFailed,
    Reported,
    RescaleRequested,
    SavepointRequested,
    UpdateRequested,
)
from penstock.engine.jobmaster.notices import (
    Autoscaled,
    EndFailed,
    EnumeratorNotClosed,
    FellBack,
    JobNotice,
    OtherRegionFailed,
    RescaleFailed,
    Rescaling,
    RestartJoined,
    RestartScheduled,
    Stopping,
    Updated,
)
from penstock.engine.rpc.messages import SlotFailed
from penstock.engine.runtime.ids import AttemptId
from penstock.hosts.traces.spans import JobSpans

_SAME_ERROR = 10
"""After this many consecutive equal failures, and each multiple, the notice of a restart says that restarts are
useless."""

_notices = logging.getLogger(__name__)


class JobLogLines:
    """Write lines to the `events` of a JobLog, and notices of the JobMaster to penstock's log: the user's terminal.

    `name`: the job's name in log lines. `history`: the newest completed or failed checkpoints, oldest first. `spans`:
    receives checkpoints for traces.
    """

    def __init__(
        self,
        log: logging.Logger,
        name: str,
        history: Sequence[CheckpointReport],
        spans: JobSpans | None = None,
    ) -> None:
        self._log = log
        self._spans = spans
        self._name = name
        self._history = history
        self._last_checkpoint: CheckpointReport | None = None
        self._last_line = ""
        """The last line of the error of the last restart."""
        self._same_errors = 0
        """The number of consecutive restarts with this error."""
        self._failed_checkpoints = 0
        """The number of failed checkpoints since the last completed one."""

    def log_event(self, event: JobEvent) -> None:
        """Log an event, before the JobMaster handles it."""
        log = _EVENTS.get(type(event))
        if log is not None:
            log(self._log, event)

    def log_effects(self, effects: Iterable[JobEffect]) -> None:
        """Log the effects of an event."""
        for report in self._new_checkpoints():
            self._log_checkpoint(report)
            self._note_checkpoint(report)
            if self._spans is not None:
                self._spans.checkpoint(report)
        for effect in effects:
            if isinstance(effect, RestartScheduled):
                line = self._restart_line(effect)
                # A job that waits for slots restarts each second: show that once.
                is_repeated = effect.waits_for_slots and self._same_errors > 1
                _notices.log(logging.DEBUG if is_repeated else logging.WARNING, "%s", line)
            elif isinstance(effect, EnumeratorNotClosed):
                _notices.error("a split enumerator could not be closed", exc_info=effect.error)
            elif isinstance(effect, Stopping):
                self._log.info(
                    "the job stops with the savepoint %s, which is stored: its output is committed", effect.savepoint
                )
            elif isinstance(effect, Rescaling):
                _notices.warning("%s is rescaled: %s", self._name, _changes(effect))
            elif isinstance(effect, Autoscaled):
                _notices.warning("%s", self._autoscaled_line(effect))
            elif isinstance(effect, Updated):
                names = ", ".join(effect.operators)
                _notices.warning("%s: new functions from checkpoint %d on: %s", self._name, effect.checkpoint_id, names)
            elif isinstance(effect, JobNotice):
                _notices.warning(_NOTICES[type(effect)], self._name, redacted_error(effect.error))
            elif isinstance(effect, Deploy):
                checkpoint = f" from {len(effect.restored)} restored subtasks" * bool(effect.restored)
                self._log.info("%s is deployed%s", _attempt(effect.attempt), checkpoint)
            elif isinstance(effect, Finish):
                self._log_end(effect)

    def _new_checkpoints(self) -> list[CheckpointReport]:
        """Return the checkpoints that ended since the last call: one event may end several."""
        new: list[CheckpointReport] = []
        for report in reversed(self._history):
            if report is self._last_checkpoint:
                break
            new.insert(0, report)
        if new:
            self._last_checkpoint = new[-1]
        return new

    def _restart_line(self, notice: RestartScheduled) -> str:
        """Return the notice of a restart. For a repeated error, it has only the first line and the raised line."""
        at = datetime.datetime.fromtimestamp(notice.now_ms / 1000).strftime("%H:%M:%S")
        lines = redacted_error(notice.error).splitlines() or [""]
        is_same = lines[-1] == self._last_line
        self._same_errors = self._same_errors + 1 if is_same else 1
        self._last_line = lines[-1]
        # The lines in between are the value and the traceback.
        raised = raised_line("\n".join(lines)) or lines[-1].strip()
        text = f"{lines[0]} … {raised}" if is_same and len(lines) > 1 else "\n".join(lines)
        kind = type(notice.error).__name__
        if self._same_errors % _SAME_ERROR == 0:
            text += (
                f". This is the same error {self._same_errors} times in a row: restarts do not repair it "
                "(penstock cancel)"
            )
        return (
            f"{at} {self._name} failed and restarts in {notice.delay_ms} ms (restart {notice.restart}): {kind}: {text}"
        )

    def _autoscaled_line(self, notice: Autoscaled) -> str:
        if notice.done:
            return f"{self._name}: the autoscaler decides: {notice.decision}"
        why = f" ({notice.why})" if notice.why else ""
        return f"{self._name}: the autoscaler's decision is not carried out{why}: {notice.decision}"

    def _log_checkpoint(self, report: CheckpointReport) -> None:
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

    def _note_checkpoint(self, report: CheckpointReport) -> None:
        """Show when checkpoints start to fail, and when they complete again: output may wait for them."""
        failed = self._failed_checkpoints
        if report.savepoint:
            return
        if report.is_completed:
            self._failed_checkpoints = 0
            if failed:
                _notices.warning("%s: checkpoints complete again, after %d that failed", self._name, failed)
        elif report.counts:
            self._failed_checkpoints += 1
            if not failed:
                _notices.warning("%s: checkpoint %d failed: %s", self._name, report.checkpoint_id, report.failure)

    def _log_end(self, effect: Finish) -> None:
        if effect.error is None:
            self._log.info("the job has ended: %s", effect.status.name)
        else:
            self._log.error("the job has ended: %s\n%s", effect.status.name, redacted_error(effect.error))


def _attempt(attempt: AttemptId) -> str:
    return f"attempt {attempt.number + 1} of region {attempt.region + 1}"


def _changes(effect: Rescaling) -> str:
    return ", ".join(
        f"{old.name} {old.parallelism} → {new.parallelism}"
        for old, new in zip(effect.before.vertices, effect.after.vertices, strict=True)
        if old.parallelism != new.parallelism
    )


def _reported(log: logging.Logger, event: Reported) -> None:
    message = event.message
    if isinstance(message.report, SlotFailed):
        where = f"level {message.level} slot {message.index}, attempt {message.attempt + 1}"
        log.warning("%s has failed\n%s", where, message.report.message)


_NOTICES: dict[type[JobNotice], str] = {
    RestartJoined: "%s: another region failed and restarts with the others: %s",
    OtherRegionFailed: "%s: another region failed at the same time: %s",
    FellBack: "%s falls back to the previous checkpoint: %s",
    RescaleFailed: "%s returns to its previous parallelism: it failed before all tasks ran with the new one: %s",
    EndFailed: "%s stopped with a savepoint, but its end failed: %s",
}
"""Formats with two arguments: the job's name and the error."""

_EVENTS: dict[type[JobEvent], Callable[[logging.Logger, Any], None]] = {
    Reported: _reported,
    QueryFailed: lambda log, event: log.warning(
        "%s has failed\n%s", _attempt(event.attempt), redacted_error(event.error)
    ),
    HostFailed: lambda log, event: log.error("an internal error of the job\n%s", redacted_error(event.error)),
    CancelRequested: lambda log, event: log.info("cancellation requested"),
    RescaleRequested: lambda log, event: log.info("another parallelism requested"),
    UpdateRequested: lambda log, event: log.info("other functions requested"),
    SavepointRequested: lambda log, event: log.info(
        "savepoint requested%s", ", with which the job stops" * event.options.stop
    ),
}
