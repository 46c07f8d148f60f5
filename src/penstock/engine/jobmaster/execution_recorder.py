"""Records how a job goes, and publishes it: what readers see costs the job master's thread nothing when they read.

If REST does not serve the job, only its failures are recorded.

Tasks report their states by messages of which there may be hundreds at once, so a new ExecutionGraph is made at most
every PUBLISH_EVERY_MS. What takes less time may not be seen, but for the states of the job itself, and failures.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec

from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import told_error
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.effects import Deploy, Finish, JobEffect
from penstock.engine.jobmaster.events import JobEvent, is_noted
from penstock.engine.jobmaster.execution_graph import (
    Checkpoints,
    CheckpointUnderWay,
    Execution,
    ExecutionGraph,
    JobFailure,
    RestoredCheckpoint,
    error_name,
)
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.jobmaster.job_master import JobMaster
from penstock.engine.jobmaster.notices import Autoscaled, EndFailed, FailedToo, RestartJoined, RestartScheduled
from penstock.engine.runtime.ids import SlotId, SubtaskId

# The newest failures of a job: what restarted it or a part of it, and what it ended by.

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


PUBLISH_EVERY_MS = 100
_DECISIONS_MOST = 16
_DOWN = (JobStatus.FAILING, JobStatus.RESTARTING)
"""Here a time begins in which the job does not run, and which ends when all its tasks do."""


class ExecutionRecorder:
    """Of one job. `published` may be read by any thread; all else is called by the job master's."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master
        self.failures = FailureHistory(master)
        self.is_served = False
        """Whether somebody may read what is published."""
        self._submitted_ms = master.now_ms
        self._status: JobStatus | None = None
        self._status_ms: dict[JobStatus, int] = {}
        self._down_since_ms: int | None = None
        self._executions: dict[SubtaskId, Execution] = {}
        self._autoscaled: deque[Autoscaled] = deque(maxlen=_DECISIONS_MOST)
        self._restored_count = 0
        self._restored: RestoredCheckpoint | None = None
        self._restored_by: tuple[int, int] | None = None
        """The number of the restart and of the checkpoint that the latest restore belongs to."""
        self._restored_regions: set[int] = set()
        """Which have begun with it."""
        self._is_stale = True
        self._published_ms = 0
        self.published = self._publish(master.now_ms)

    def followed(self, event: JobEvent, effects: Iterable[JobEffect], now_ms: int) -> None:
        """An event was handled, and these are its effects."""
        self.failures.followed(effects, now_ms)
        if self.is_served:
            self._follow(event, effects, now_ms)

    def _follow(self, event: JobEvent, effects: Iterable[JobEffect], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, Autoscaled):
                self._autoscaled.append(effect)
            elif isinstance(effect, Deploy):
                self._note_restored(effect, now_ms)
            # What changes all tasks is seen at once: these are rare.
            if isinstance(effect, Deploy | Finish | RestartScheduled | RestartJoined | FailedToo | Autoscaled):
                self._is_stale, self._published_ms = True, 0
        # Before all run, a task's heartbeat says that it initializes.
        if is_noted(event) or self.published.status is not JobStatus.RUNNING:
            self._is_stale = True
            self._note_status(now_ms)
        # A wall clock may be set back.
        if self._is_stale and not 0 <= now_ms - self._published_ms < PUBLISH_EVERY_MS:
            self.published = self._publish(now_ms)

    def broke(self, error: BaseException, now_ms: int) -> None:
        """The job has ended by a fault of its own, without its master."""
        self.failures.add(error, now_ms)
        self._status_ms[JobStatus.FAILED] = now_ms
        self.published = msgspec.structs.replace(
            self._publish(now_ms), status=JobStatus.FAILED, status_ms=dict(self._status_ms)
        )

    def _note_restored(self, deploy: Deploy, now_ms: int) -> None:
        region = deploy.attempt.region
        attempt = self._master.regions[region].attempt
        if not attempt.restored_id:
            return
        # Regions that start together are one restore, though their tasks may not be deployed at the same moment.
        start = (self._master.restarts, attempt.restored_id)
        if start != self._restored_by or region in self._restored_regions:
            self._restored_count += 1
            self._restored_by = start
            self._restored_regions.clear()
            self._restored = RestoredCheckpoint(
                attempt.restored_id, now_ms, attempt.restored_savepoint, attempt.restored_path
            )
        self._restored_regions.add(region)

    def _note_status(self, now_ms: int) -> JobStatus:
        status = self._master.status
        if status is not self._status:
            self._status = status
            self._status_ms[status] = now_ms
            if status is JobStatus.RUNNING:
                self._down_since_ms = None
            elif status in _DOWN and self._down_since_ms is None:
                self._down_since_ms = now_ms
        return status

    def _publish(self, now_ms: int) -> ExecutionGraph:
        self._is_stale = False
        self._published_ms = now_ms
        status = self._note_status(now_ms)
        # None of subtasks that an earlier plan had.
        self._executions = {
            task: self._execution(region.attempt, task, slot, now_ms)
            for region in self._master.regions
            for slot, tasks in region.attempt.slots.items()
            for task in tasks
        }
        return ExecutionGraph(
            self._master.job_id,
            self._master.graph,
            status,
            dict(self._status_ms),
            self._submitted_ms,
            self._master.restarts,
            dict(self._executions),
            self.failures.newest,
            self.failures.is_complete,
            self._checkpoints(),
            tuple(self._autoscaled),
            self._down_since_ms,
        )

    def _execution(self, attempt: Attempt, task: SubtaskId, slot: SlotId, now_ms: int) -> Execution:
        """The execution of a task as it is now: a new one if anything has changed."""
        known = self._executions.get(task)
        state = attempt.state_of(task)
        since_ms: dict[ExecutionState, int] = {}
        earlier: Sequence[Execution] = ()
        if known is not None and known.attempt != attempt.number:
            earlier = known.then_earlier(ExecutionState.CANCELED, now_ms)
        elif known is not None:
            if known.state is state:
                return known
            since_ms, earlier = dict(known.since_ms), known.earlier
        if attempt.deployed_ms is not None:
            since_ms.setdefault(ExecutionState.DEPLOYING, attempt.deployed_ms)
        since_ms.setdefault(state, now_ms)
        return Execution(task, slot, attempt.number, state, since_ms, earlier)

    def _checkpoints(self) -> Checkpoints:
        coordinator = self._master.coordinator
        history = coordinator.history
        return Checkpoints(
            [_under_way(pending) for pending in coordinator.pending],
            sorted([*history, *history.savepoints], key=lambda report: report.checkpoint_id),
            history.latest,
            history.summaries,
            history.completed_count,
            history.failed_count,
            self._restored_count,
            self._restored,
            self._master.completed.numbers,
        )


def _under_way(pending: PendingCheckpoint) -> CheckpointUnderWay:
    reports = pending.reports
    return CheckpointUnderWay(
        pending.checkpoint_id,
        pending.triggered_ms,
        pending.acknowledged,
        pending.of_tasks,
        pending.savepoint,
        list(reports.values()),
        list(reports),
        pending.parallelism,
        pending.request.options.stop,
    )
