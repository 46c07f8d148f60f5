"""One pipelined region of a job, through all its attempts: the unit that fails, is supervised and restarted.

Its phases are in phases.py, those of its attempt in attempt.py.

Regions have no edge between them, so one can go back to the latest checkpoint while the others run on. Source: Flink
docs, "Task Failure Recovery", Restart Pipelined Region Failover Strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.common.time.earliest import earliest
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.effects import JobEffect, StopAttempt
from penstock.engine.jobmaster.phases import REGION, RegionPhase, RegionStep, after
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SlotId

# Deadlines of an attempt: registration, heartbeats, and the time that tasks have to close in.


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


_UP = (JobStatus.CREATED, JobStatus.RUNNING)


class Region:
    """Region `index` of the graph. `emit` takes its effects, in order."""

    def __init__(
        self, index: int, graph: JobGraph, settings: JobSettings, emit: Callable[[JobEffect], None], now_ms: int
    ) -> None:
        self.index = index
        self.attempt = Attempt(AttemptId(index, 0), graph, emit, now_ms)
        """The present attempt."""
        self.abandoned: list[SlotId] = []
        """Slots of the present attempt whose tasks did not close in time: their workers are killed with the query."""
        self.phase = RegionPhase.DEPLOYED
        """Of the present attempt."""
        self.is_replaced = False
        """Whether the present attempt was closed so that one with another parallelism takes its place."""
        self._emit = emit
        self._supervision = Supervision(settings)

    @property
    def status(self) -> JobStatus:
        """That of its present attempt."""
        return self.attempt.status

    @property
    def is_up(self) -> bool:
        """Whether its attempt is starting or running."""
        return self.attempt.status in _UP

    @property
    def has_failed(self) -> bool:
        """Whether its attempt has failed, or is failing."""
        return self.attempt.status in (JobStatus.FAILING, JobStatus.FAILED)

    def lets_in(self, attempt: int) -> bool:
        """The door: what belongs to an earlier attempt is dropped."""
        return attempt == self.attempt.number

    def begin(self, recovery: Recovery, graph: JobGraph, now_ms: int) -> None:
        """Begin its present attempt. Raises SourceError or CheckpointError if it can't begin."""
        attempt = self.attempt
        manifest = recovery.manifest
        states = recovery.enumerator_states(attempt.sources)
        attempt.restored = recovery.restore(attempt.vertices, graph)
        attempt.restored_id = manifest.checkpoint_id if manifest is not None else 0
        attempt.restored_savepoint = manifest is not None and manifest.savepoint
        attempt.restored_path = recovery.path
        attempt.enumerators.start(states)
        attempt.deploy_if_started(now_ms)

    def next_attempt(self, graph: JobGraph, now_ms: int) -> None:
        """The tasks of the present attempt are gone: the next one takes its place. It has not begun yet."""
        self.phase = after(REGION, self.phase, RegionStep.NEXT_ATTEMPT)
        self._supervision.attempt_begins()
        self.abandoned = []
        self.is_replaced = False
        self.attempt = Attempt(AttemptId(self.index, self.attempt.number + 1), graph, self._emit, now_ms)

    # Its end.

    def fail(self, error: BaseException, slot: SlotId | None, now_ms: int) -> None:
        """The attempt fails; `slot`: the one that failed. Its tasks have a grace period to close in."""
        # Before the attempt: it may be over at once, and then no deadline is needed; one that was set does no harm.
        self._supervision.failed(now_ms)
        self.attempt.failed(error, slot)

    def cancel(self, now_ms: int) -> None:
        """The user cancels the job."""
        self._supervision.cancelled(now_ms)
        self.attempt.cancel()

    def replace(self, now_ms: int) -> None:
        """Close the tasks, to go on from the latest checkpoint with another parallelism."""
        # One that has failed goes on so anyway.
        if self.is_up:
            self.is_replaced = True
            self._supervision.failed(now_ms)
            self.attempt.cancel()

    def stop_if_over(self) -> None:
        """Stop the query, once, when all tasks are closed or abandoned."""
        if self.attempt.is_over and self.phase is RegionPhase.DEPLOYED:
            self.phase = after(REGION, self.phase, RegionStep.TASKS_CLOSED)
            self._emit(StopAttempt(self.attempt.id))

    def query_ended(self) -> None:
        """Its query has ended, after StopAttempt: no task of the present attempt is left."""
        self.phase = after(REGION, self.phase, RegionStep.QUERY_ENDED)

    @property
    def is_gone(self) -> bool:
        """Whether the tasks of the present attempt are gone."""
        return self.phase in (RegionPhase.GONE, RegionPhase.ENDED)

    @property
    def is_ended(self) -> bool:
        """Whether the coordinator knows that they are."""
        return self.phase is RegionPhase.ENDED

    def end(self) -> None:
        """The tasks are gone, and the coordinator is about to know it."""
        self.phase = after(REGION, self.phase, RegionStep.TASKS_ENDED)
        self.attempt.enumerators.close()

    # Time.

    def fault(self, now_ms: int) -> Fault | None:
        """A deadline that has passed."""
        return self._supervision.fault(self.attempt, now_ms)

    def abandon_if_late(self, now_ms: int) -> None:
        """Give the tasks up that should have closed by now."""
        if self._supervision.abandons(self.attempt, now_ms):
            self.abandoned = self.attempt.unfinished
            self.attempt.abandon()

    def wake_at_ms(self) -> int | None:
        """When a deadline passes, an enumerator wants to look for new splits, or a loop is asked."""
        times = [self._supervision.wake_at_ms(self.attempt)]
        if self.attempt.status is JobStatus.RUNNING:
            times.append(self.attempt.enumerators.wake_at_ms())
            times.append(self.attempt.loops.wake_at_ms())
        return earliest(*times)
