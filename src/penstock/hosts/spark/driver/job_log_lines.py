"""What a job's log in the driver says: attempts, failures, checkpoints, the end. Flink: the JobManager's log."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock.common.errors.raised_line import raised_line
from penstock.common.text.secrets import told_error
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.attempt_id import AttemptId
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
    FailedToo,
    FellBack,
    JobNotice,
    RescaleFailed,
    Rescaling,
    RestartJoined,
    RestartScheduled,
    Stopping,
    Updated,
)
from penstock.engine.rpc.messages import SlotFailed
from penstock.hosts.traces.spans import JobSpans

_SAME_ERROR = 10
"""After this many consecutive equal failures, and each multiple, the notice of a restart says that nothing changes."""

_notices = logging.getLogger(__name__)


class JobLogLines:
    """Writes to the `events` of a JobLog, and notices of the job master to penstock's own log: the user's terminal.

    `name`: the job as log lines name it. `history`: the newest checkpoints that completed or failed, oldest first.
    `spans`: what traces show of them.
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
        self._in_a_row = 0
        """How many consecutive restarts had this error."""
        self._checkpoints_failed = 0
        """How many checkpoints have failed since the last one that completed."""

    def happened(self, event: JobEvent) -> None:
        """An event is about to be handled."""
        tell = _EVENTS.get(type(event))
        if tell is not None:
            tell(self._log, event)

    def followed(self, effects: Iterable[JobEffect]) -> None:
        """Logs the effects of the event."""
        for report in self._new_checkpoints():
            self._log_checkpoint(report)
            self._note_checkpoint(report)
            if self._spans is not None:
                self._spans.checkpoint(report)
        for effect in effects:
            if isinstance(effect, RestartScheduled):
                line = self._restart_line(effect)
                # A job that waits for slots tries each second: once told is enough.
                is_told = effect.waits and self._in_a_row > 1
                _notices.log(logging.DEBUG if is_told else logging.WARNING, "%s", line)
            elif isinstance(effect, EnumeratorNotClosed):
                _notices.error("a split enumerator could not be closed", exc_info=effect.error)
            elif isinstance(effect, Stopping):
                self._log.info(
                    "it stops with the savepoint %s, which is stored: its output is committed", effect.savepoint
                )
            elif isinstance(effect, Rescaling):
                _notices.warning("%s is rescaled: %s", self._name, _changes(effect))
            elif isinstance(effect, Autoscaled):
                _notices.warning("%s", self._autoscaled_line(effect))
            elif isinstance(effect, Updated):
                names = ", ".join(effect.operators)
                _notices.warning("%s: new functions from checkpoint %d on: %s", self._name, effect.checkpoint_id, names)
            elif isinstance(effect, JobNotice):
                _notices.warning(_NOTICES[type(effect)], self._name, told_error(effect.error))
            elif isinstance(effect, Deploy):
                checkpoint = f" from {len(effect.restored)} restored subtasks" * bool(effect.restored)
                self._log.info("%s is deployed%s", _attempt(effect.attempt), checkpoint)
            elif isinstance(effect, Finish):
                self._log_end(effect)

    def _new_checkpoints(self) -> list[CheckpointReport]:
        """Checkpoints that ended since the last call: one event may end several."""
        new: list[CheckpointReport] = []
        for report in reversed(self._history):
            if report is self._last_checkpoint:
                break
            new.insert(0, report)
        if new:
            self._last_checkpoint = new[-1]
        return new

    def _restart_line(self, notice: RestartScheduled) -> str:
        """What the user reads about a restart; of an error that repeats only where it was, and what."""
        at = datetime.datetime.fromtimestamp(notice.now_ms / 1000).strftime("%H:%M:%S")
        lines = told_error(notice.error).splitlines() or [""]
        again = lines[-1] == self._last_line
        self._in_a_row = self._in_a_row + 1 if again else 1
        self._last_line = lines[-1]
        # In between there are the value and the traceback.
        raised = raised_line("\n".join(lines)) or lines[-1].strip()
        text = f"{lines[0]} … {raised}" if again and len(lines) > 1 else "\n".join(lines)
        kind = type(notice.error).__name__
        if self._in_a_row % _SAME_ERROR == 0:
            text += f". This is the same error {self._in_a_row} times in a row: no restart repairs it (penstock cancel)"
        return (
            f"{at} {self._name} failed and restarts in {notice.delay_ms} ms (restart {notice.restart}): {kind}: {text}"
        )

    def _autoscaled_line(self, notice: Autoscaled) -> str:
        if notice.done:
            return f"{self._name}: the autoscaler decides: {notice.decision}"
        why = f" ({notice.why})" if notice.why else ""
        return f"{self._name}: what the autoscaler would do is not done{why}: {notice.decision}"

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
        """Say when checkpoints begin to fail, and when they complete again: output may wait for them meanwhile."""
        failed = self._checkpoints_failed
        if report.savepoint:
            return
        if report.is_completed:
            self._checkpoints_failed = 0
            if failed:
                _notices.warning("%s: checkpoints complete again, after %d that failed", self._name, failed)
        elif report.counts:
            self._checkpoints_failed += 1
            if not failed:
                _notices.warning("%s: checkpoint %d failed: %s", self._name, report.checkpoint_id, report.failure)

    def _log_end(self, effect: Finish) -> None:
        if effect.error is None:
            self._log.info("the job has ended: %s", effect.status.name)
        else:
            self._log.error("the job has ended: %s\n%s", effect.status.name, told_error(effect.error))


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
    RestartJoined: "%s: a further region failed and restarts with the others: %s",
    FailedToo: "%s: a further region failed at the same time: %s",
    FellBack: "%s falls back to the previous checkpoint: %s",
    RescaleFailed: "%s goes back to the parallelism it had, since it failed before all of it ran with another: %s",
    EndFailed: "%s stopped with a savepoint, but its end failed: %s",
}
"""Each with the job and the error."""

_EVENTS: dict[type[JobEvent], Callable[[logging.Logger, Any], None]] = {
    Reported: _reported,
    QueryFailed: lambda log, event: log.warning("%s has failed\n%s", _attempt(event.attempt), told_error(event.error)),
    HostFailed: lambda log, event: log.error("a fault of the job itself\n%s", told_error(event.error)),
    CancelRequested: lambda log, event: log.info("cancellation requested"),
    RescaleRequested: lambda log, event: log.info("another parallelism requested"),
    UpdateRequested: lambda log, event: log.info("other functions requested"),
    SavepointRequested: lambda log, event: log.info(
        "savepoint requested%s", ", with which the job stops" * event.options.stop
    ),
}
