"""The newest failures of a job: what restarted it or a part of it, and what it ended by."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeGuard

from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import told_error
from penstock.engine.jobmaster.effects import Finish, JobEffect
from penstock.engine.jobmaster.execution_graph import JobFailure, error_name
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.notices import EndFailed, FailedToo, RestartJoined, RestartScheduled

_FAILURES_MOST = 16
"""Flink: web.exception-history-size."""


class FailureHistory:
    """Of one job. Called by the job master's thread."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master
        self._failures: deque[JobFailure] = deque(maxlen=_FAILURES_MOST)
        self._count = 0
        self._last_error: BaseException | None = None

    @property
    def newest(self) -> Sequence[JobFailure]:
        """Oldest first."""
        return tuple(self._failures)

    @property
    def is_complete(self) -> bool:
        """Whether there were no older ones."""
        return self._count == len(self._failures)

    def followed(self, effects: Iterable[JobEffect], now_ms: int) -> None:
        """These are the effects of an event."""
        for effect in effects:
            if _is_failure(effect):
                self.add(effect.error, now_ms)

    def add(self, error: BaseException | None, now_ms: int) -> None:
        """The job, or a part of it, has failed."""
        # The last failure of a job is also how it ends.
        if error is None or error is self._last_error:
            return
        self._last_error = error
        self._count += 1
        self._failures.append(self._failure(error, now_ms))

    def _failure(self, error: BaseException, now_ms: int) -> JobFailure:
        for region in self._master.regions:
            attempt = region.attempt
            if attempt.error is error and attempt.failed_slot is not None:
                return JobFailure(error_name(error), told_error(error), now_ms, attempt.failed_slot, attempt.number)
        return JobFailure(error_name(error), told_error(error), now_ms)


def _is_failure(effect: JobEffect) -> TypeGuard[RestartScheduled | RestartJoined | FailedToo | EndFailed | Finish]:
    if isinstance(effect, RestartScheduled):
        return not effect.waits
    if isinstance(effect, Finish):
        return effect.status is JobStatus.FAILED
    return isinstance(effect, RestartJoined | FailedToo | EndFailed)
