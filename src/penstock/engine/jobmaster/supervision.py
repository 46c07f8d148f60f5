"""Deadlines of an attempt: registration, heartbeats, and the time that tasks have to close in."""

from __future__ import annotations

from typing import NamedTuple

from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.common.time.earliest import earliest
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.runtime.ids import SlotId


class Fault(NamedTuple):
    """A deadline has passed; `slot`: the one that is lost."""

    error: TaskLostError
    slot: SlotId | None = None


class Supervision:
    """Watches the deadlines of a region's current attempt.

    Heartbeats come from threads of their own: back pressure is no silence.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._close_by_ms: int | None = None
        """When tasks that should have closed are abandoned."""

    def attempt_begins(self) -> None:
        """No task of the new attempt was requested to close."""
        self._close_by_ms = None

    def failed(self, now_ms: int) -> None:
        """The attempt failed: its tasks have a grace period to close in."""
        # The first failure counts: errors of tasks that are being cancelled would postpone the restart again and again.
        if self._close_by_ms is None:
            self._close_by_ms = now_ms + self._settings.failure_grace_ms

    def cancelled(self, now_ms: int) -> None:
        """The user cancelled the job."""
        timeout_ms = self._settings.cancellation_timeout_ms
        if self._close_by_ms is None and timeout_ms:
            # Tasks of an attempt that has failed have their deadline already.
            self._close_by_ms = now_ms + timeout_ms

    def fault(self, attempt: Attempt, now_ms: int) -> Fault | None:
        """What is wrong with the attempt now."""
        timeout_ms = self._settings.heartbeat_timeout_ms
        silent = attempt.silent(now_ms, timeout_ms)
        if silent is not None:
            text = f"no heartbeat from level {silent.level} slot {silent.index} for {timeout_ms} ms"
            return Fault(TaskLostError(text), silent)
        registers_by_ms = self._registers_by_ms(attempt)
        if registers_by_ms is not None and now_ms >= registers_by_ms:
            missing = ", ".join(f"level {level} slot {slot}" for level, slot in attempt.silent_from_the_start)
            return Fault(
                TaskLostError(
                    f"after {self._settings.registration_timeout_ms // 1000} s these slots have sent nothing: "
                    f"{missing}. Does Spark have {len(attempt.slots)} free slots, and do executors reach the driver?"
                )
            )
        return None

    def _registers_by_ms(self, attempt: Attempt) -> int | None:
        """When slots that have sent nothing count as lost. A restore may take as long as heartbeats come."""
        # Counted from the deployment: a listing that takes long must not look like missing slots.
        if attempt.status is not JobStatus.CREATED or attempt.deployed_ms is None or not attempt.silent_from_the_start:
            return None
        return attempt.deployed_ms + self._settings.registration_timeout_ms + 1

    def abandons(self, attempt: Attempt, now_ms: int) -> bool:
        """Whether the time to close is over."""
        return self._close_by_ms is not None and now_ms >= self._close_by_ms and not attempt.is_over

    def wake_at_ms(self, attempt: Attempt) -> int | None:
        """When a deadline of the attempt passes."""
        times = [
            self._close_by_ms if not attempt.is_over else None,
            attempt.next_silence_ms(self._settings.heartbeat_timeout_ms),
            self._registers_by_ms(attempt),
        ]
        return earliest(*times)
