"""Record the progress of a job and publish it as an immutable graph.

Readers cost the JobMaster's thread nothing. If REST does not serve the job, only its failures are recorded.

Hundreds of tasks may report their states at the same time, so a new ExecutionGraph is made at most every
PUBLISH_EVERY_MS. Shorter states of tasks may not be visible; states of the job and failures always are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec

from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import redacted_error
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.effects import Deploy, Finish, JobEffect
from penstock.engine.jobmaster.events import JobEvent, belongs_in_journal
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
from penstock.engine.jobmaster.notices import Autoscaled, EndFailed, OtherRegionFailed, RestartJoined, RestartScheduled
from penstock.engine.runtime.ids import SlotId, SubtaskId

_FAILURES_MAX = 16
"""Flink: web.exception-history-size."""


class FailureHistory:
    """The newest failures of one job, which restarted regions or ended the job. The JobMaster's thread calls it."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master
        self._failures: deque[JobFailure] = deque(maxlen=_FAILURES_MAX)
        self._count = 0
        self._last_error: BaseException | None = None

    @property
    def newest(self) -> Sequence[JobFailure]:
        """The newest failures, oldest first."""
        return tuple(self._failures)

    @property
    def is_complete(self) -> bool:
        """Whether there are no older failures."""
        return self._count == len(self._failures)

    def record(self, effects: Iterable[JobEffect], now_ms: int) -> None:
        """Record the failures among the effects of an event."""
        for effect in effects:
            if _is_failure(effect):
                self.add(effect.error, now_ms)

    def add(self, error: BaseException | None, now_ms: int) -> None:
        """Record a failure of the job or a part of it."""
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
                return JobFailure(
                    error_name(error),
                    redacted_error(error),
                    at_ms=now_ms,
                    slot=attempt.failed_slot,
                    attempt=attempt.number,
                )
        return JobFailure(error_name(error), redacted_error(error), now_ms)


def _is_failure(
    effect: JobEffect,
) -> TypeGuard[RestartScheduled | RestartJoined | OtherRegionFailed | EndFailed | Finish]:
    if isinstance(effect, RestartScheduled):
        return not effect.waits_for_slots
    if isinstance(effect, Finish):
        return effect.status is JobStatus.FAILED
    return isinstance(effect, RestartJoined | OtherRegionFailed | EndFailed)


PUBLISH_EVERY_MS = 100
_DECISIONS_MAX = 16
_DOWN = (JobStatus.FAILING, JobStatus.RESTARTING)
"""Statuses with which a downtime begins. It ends when all tasks run."""


class ExecutionRecorder:
    """Record one job. Any thread may read `published`; only the JobMaster's thread calls methods."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master
        self.failures = FailureHistory(master)
        self.is_served = False
        """Whether REST serves the job."""
        self._submitted_ms = master.now_ms
        self._status: JobStatus | None = None
        self._status_ms: dict[JobStatus, int] = {}
        self._down_since_ms: int | None = None
        self._executions: dict[SubtaskId, Execution] = {}
        self._autoscaled: deque[Autoscaled] = deque(maxlen=_DECISIONS_MAX)
        self._restored_count = 0
        self._restored: RestoredCheckpoint | None = None
        self._restored_by: tuple[int, int] | None = None
        """The number of restarts, and the id of the checkpoint, at the latest restore."""
        self._restored_regions: set[int] = set()
        """The regions that were started with it."""
        self._is_stale = True
        self._published_ms = 0
        self.published = self._publish(master.now_ms)

    def record(self, event: JobEvent, effects: Iterable[JobEffect], now_ms: int) -> None:
        """Record an event that was handled, and its effects."""
        self.failures.record(effects, now_ms)
        if self.is_served:
            self._record(event, effects, now_ms)

    def _record(self, event: JobEvent, effects: Iterable[JobEffect], now_ms: int) -> None:
        for effect in effects:
            if isinstance(effect, Autoscaled):
                self._autoscaled.append(effect)
            elif isinstance(effect, Deploy):
                self._note_restored(effect, now_ms)
            # Publish changes of all tasks at once: they are rare.
            if isinstance(effect, Deploy | Finish | RestartScheduled | RestartJoined | OtherRegionFailed | Autoscaled):
                self._is_stale, self._published_ms = True, 0
        # Until all tasks run, heartbeats matter, too: they show that a task initializes.
        if belongs_in_journal(event) or self.published.status is not JobStatus.RUNNING:
            self._is_stale = True
            self._note_status(now_ms)
        # A wall clock may be set back.
        if self._is_stale and not 0 <= now_ms - self._published_ms < PUBLISH_EVERY_MS:
            self.published = self._publish(now_ms)

    def master_failed(self, error: BaseException, now_ms: int) -> None:
        """Record that an error in the JobMaster itself has ended the job."""
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
        # Only subtasks of the present plans: earlier plans may have had more.
        self._executions = {
            task: self._execution(region.attempt, task, slot, now_ms)
            for region in self._master.regions
            for slot, tasks in region.attempt.slots.items()
            for task in tasks
        }
        return ExecutionGraph(
            job_id=self._master.job_id,
            graph=self._master.graph,
            status=status,
            status_ms=dict(self._status_ms),
            submitted_ms=self._submitted_ms,
            restarts=self._master.restarts,
            executions=dict(self._executions),
            failures=self.failures.newest,
            failures_are_complete=self.failures.is_complete,
            checkpoints=self._checkpoints(),
            autoscaled=tuple(self._autoscaled),
            down_since_ms=self._down_since_ms,
        )

    def _execution(self, attempt: Attempt, task: SubtaskId, slot: SlotId, now_ms: int) -> Execution:
        """Return the present execution of a task: the known one if its state has not changed."""
        known = self._executions.get(task)
        state = attempt.state_of(task)
        since_ms: dict[ExecutionState, int] = {}
        earlier: Sequence[Execution] = ()
        if known is not None and known.attempt != attempt.number:
            earlier = known.history_for_next(ExecutionState.CANCELED, now_ms)
        elif known is not None:
            if known.state is state:
                return known
            since_ms, earlier = dict(known.since_ms), known.earlier
        if attempt.deployed_ms is not None:
            since_ms.setdefault(ExecutionState.DEPLOYING, attempt.deployed_ms)
        since_ms.setdefault(state, now_ms)
        return Execution(task, slot, attempt=attempt.number, state=state, since_ms=since_ms, earlier=earlier)

    def _checkpoints(self) -> Checkpoints:
        coordinator = self._master.coordinator
        history = coordinator.history
        return Checkpoints(
            under_way=[_under_way(pending) for pending in coordinator.pending],
            history=sorted([*history, *history.savepoints], key=lambda report: report.checkpoint_id),
            latest=history.latest,
            summaries=history.summaries,
            completed_count=history.completed_count,
            failed_count=history.failed_count,
            restored_count=self._restored_count,
            restored=self._restored,
            retained=self._master.completed.numbers,
        )


def _under_way(pending: PendingCheckpoint) -> CheckpointUnderWay:
    reports = pending.reports
    return CheckpointUnderWay(
        checkpoint_id=pending.checkpoint_id,
        triggered_ms=pending.triggered_ms,
        acknowledged=pending.acknowledged,
        of_subtasks=pending.task_count,
        savepoint=pending.savepoint,
        subtasks=list(reports.values()),
        tasks=list(reports),
        parallelism=pending.parallelism,
        stops=pending.request.options.stop,
    )
