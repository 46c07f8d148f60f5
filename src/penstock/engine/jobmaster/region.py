"""Control the pipelined regions of a job through all attempts. A region fails, is supervised and restarts as a unit.

phases.py has the phases of a region, attempt.py those of an attempt.

Regions have no edge between them, so one can return to the latest checkpoint while the others continue to run. Source:
Flink docs, "Task Failure Recovery", Restart Pipelined Region Failover Strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock.common.errors import TaskLostError
from penstock.common.job_status import JobStatus
from penstock.common.time.earliest import earliest
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.effects import JobEffect, StopAttempt
from penstock.engine.jobmaster.phases import REGION, RegionPhase, RegionStep, after
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import AttemptId, SlotId


class Fault(NamedTuple):
    """A deadline has passed. `slot`: the lost slot."""

    error: TaskLostError
    slot: SlotId | None = None


class Supervision:
    """Watch the deadlines of a region's present attempt: registration, heartbeats, and closing of tasks.

    Heartbeats come from separate threads, so slots under back pressure also send them.
    """

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._close_by_ms: int | None = None
        """When tasks that have not closed are abandoned."""

    def attempt_begins(self) -> None:
        """Clear the deadline for closing: a new attempt begins."""
        self._close_by_ms = None

    def failed(self, now_ms: int) -> None:
        """Give the tasks of a failed attempt a grace period to close."""
        # From the first failure: errors of tasks that are being canceled would postpone the restart again and again.
        if self._close_by_ms is None:
            self._close_by_ms = now_ms + self._settings.failure_grace_ms

    def canceled(self, now_ms: int) -> None:
        """Give the tasks of a canceled job the cancellation timeout to close."""
        timeout_ms = self._settings.cancellation_timeout_ms
        if self._close_by_ms is None and timeout_ms:
            # Tasks of a failed attempt already have a deadline.
            self._close_by_ms = now_ms + timeout_ms

    def find_fault(self, attempt: Attempt, now_ms: int) -> Fault | None:
        """Return a slot that is lost, or None."""
        timeout_ms = self._settings.heartbeat_timeout_ms
        silent = attempt.silent_slot(now_ms, timeout_ms)
        if silent is not None:
            text = f"no heartbeat from level {silent.level} slot {silent.index} for {timeout_ms} ms"
            return Fault(TaskLostError(text), silent)
        registers_by_ms = self._registers_by_ms(attempt)
        if registers_by_ms is not None and now_ms >= registers_by_ms:
            missing = ", ".join(f"level {level} slot {slot}" for level, slot in attempt.slots_without_report)
            return Fault(
                TaskLostError(
                    f"these slots sent no message for {self._settings.registration_timeout_ms // 1000} s: {missing}. "
                    f"Check that Spark has {len(attempt.slots)} free slots, and that executors can reach the driver"
                )
            )
        return None

    def _registers_by_ms(self, attempt: Attempt) -> int | None:
        """Return when slots without any message count as lost. A restore may last as long as heartbeats arrive."""
        # Counted from the deployment: a source's slow listing must not look like missing slots.
        if attempt.status is not JobStatus.CREATED or attempt.deployed_ms is None or not attempt.slots_without_report:
            return None
        return attempt.deployed_ms + self._settings.registration_timeout_ms + 1

    def abandons(self, attempt: Attempt, now_ms: int) -> bool:
        """Return whether the deadline to close has passed."""
        return self._close_by_ms is not None and now_ms >= self._close_by_ms and not attempt.is_closed

    def wake_at_ms(self, attempt: Attempt) -> int | None:
        """Return the next deadline of the attempt, or None."""
        times = [
            self._close_by_ms if not attempt.is_closed else None,
            attempt.next_silence_ms(self._settings.heartbeat_timeout_ms),
            self._registers_by_ms(attempt),
        ]
        return earliest(*times)


_UP = (JobStatus.CREATED, JobStatus.RUNNING)


class Region:
    """Region `index` of the graph. `emit` receives its effects, in order."""

    def __init__(
        self, index: int, graph: JobGraph, settings: JobSettings, emit: Callable[[JobEffect], None], now_ms: int
    ) -> None:
        self.index = index
        self.attempt = Attempt(AttemptId(index, 0), graph, emit, now_ms)
        """The present attempt."""
        self.abandoned: list[SlotId] = []
        """Slots of the present attempt whose tasks did not close in time. Their workers are killed with the query."""
        self.phase = RegionPhase.DEPLOYED
        """Phase of the present attempt."""
        self.is_replaced = False
        """Whether the present attempt was closed to continue with another plan."""
        self._emit = emit
        self._supervision = Supervision(settings)

    @property
    def status(self) -> JobStatus:
        """Status of the present attempt."""
        return self.attempt.status

    @property
    def is_up(self) -> bool:
        """Whether its attempt is starting or running."""
        return self.attempt.status in _UP

    @property
    def has_failed(self) -> bool:
        """Whether its attempt has failed, or is failing."""
        return self.attempt.status in (JobStatus.FAILING, JobStatus.FAILED)

    def accepts(self, attempt: int) -> bool:
        """Return whether this is the present attempt. Messages of earlier attempts are dropped."""
        return attempt == self.attempt.number

    def begin(self, recovery: Recovery, graph: JobGraph, now_ms: int) -> None:
        """Begin the present attempt. Raises SourceError or CheckpointError if it cannot begin."""
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
        """Replace the present attempt, whose tasks are gone, by the next one. `begin` starts it."""
        self.phase = after(REGION, self.phase, RegionStep.NEXT_ATTEMPT)
        self._supervision.attempt_begins()
        self.abandoned = []
        self.is_replaced = False
        self.attempt = Attempt(AttemptId(self.index, self.attempt.number + 1), graph, self._emit, now_ms)

    # The end of an attempt.

    def fail(self, error: BaseException, slot: SlotId | None, now_ms: int) -> None:
        """Fail the attempt; `slot`: the slot that failed. Its tasks get a grace period to close."""
        # Before the attempt, which may close at once; a deadline does no harm then.
        self._supervision.failed(now_ms)
        self.attempt.failed(error, slot)

    def cancel(self, now_ms: int) -> None:
        """Cancel the attempt for the user."""
        self._supervision.canceled(now_ms)
        self.attempt.cancel()

    def replace(self, now_ms: int) -> None:
        """Close the tasks, to continue from the latest checkpoint with another plan."""
        # A region that has failed restarts with the next plan anyway.
        if self.is_up:
            self.is_replaced = True
            self._supervision.failed(now_ms)
            self.attempt.cancel()

    def stop_if_closed(self) -> None:
        """Stop the query, once, when all tasks are closed or abandoned."""
        if self.attempt.is_closed and self.phase is RegionPhase.DEPLOYED:
            self.phase = after(REGION, self.phase, RegionStep.TASKS_CLOSED)
            self._emit(StopAttempt(self.attempt.id))

    def query_ended(self) -> None:
        """Handle the end of the query after StopAttempt: all tasks of the present attempt are gone."""
        self.phase = after(REGION, self.phase, RegionStep.QUERY_ENDED)

    @property
    def is_gone(self) -> bool:
        """Whether the tasks of the present attempt are gone."""
        return self.phase in (RegionPhase.GONE, RegionPhase.ENDED)

    @property
    def is_ended(self) -> bool:
        """Whether the coordinator knows that the tasks are gone."""
        return self.phase is RegionPhase.ENDED

    def end(self) -> None:
        """Close the enumerators. The caller is about to tell the coordinator that the tasks are gone."""
        self.phase = after(REGION, self.phase, RegionStep.TASKS_ENDED)
        self.attempt.enumerators.close()

    # Time.

    def find_fault(self, now_ms: int) -> Fault | None:
        """Return a slot that is lost, or None."""
        return self._supervision.find_fault(self.attempt, now_ms)

    def abandon_if_late(self, now_ms: int) -> None:
        """Abandon tasks that did not close in time."""
        if self._supervision.abandons(self.attempt, now_ms):
            self.abandoned = self.attempt.unfinished
            self.attempt.abandon()

    def wake_at_ms(self) -> int | None:
        """Return the next deadline, time to discover splits, or time to probe a loop."""
        times = [self._supervision.wake_at_ms(self.attempt)]
        if self.attempt.status is JobStatus.RUNNING:
            times.append(self.attempt.enumerators.wake_at_ms())
            times.append(self.attempt.loops.wake_at_ms())
        return earliest(*times)


_STATUS_OF_JOB = (
    (JobStatus.CANCELLING, (JobStatus.CANCELLING, JobStatus.CANCELED)),
    (JobStatus.FAILING, (JobStatus.FAILING, JobStatus.FAILED)),
    (JobStatus.CREATED, (JobStatus.CREATED,)),
    (JobStatus.RUNNING, (JobStatus.RUNNING,)),
)
"""The status of a job is the first one for which a region has one of these statuses."""


class Regions:
    """All regions of a job, in the order of the graph, and the job's status as far as it follows from theirs.

    Graphs of later attempts have the same regions.

    `emit` receives their effects, in order.
    """

    def __init__(self, graph: JobGraph, settings: JobSettings, emit: Callable[[JobEffect], None], now_ms: int) -> None:
        self._regions = [
            Region(index, graph, settings, emit=emit, now_ms=now_ms) for index in range(len(graph.regions))
        ]
        self._by_level: dict[int, Region] = {}
        self._by_vertex: dict[int, Region] = {}
        self._by_sink: dict[int, Region] = {}
        self.attempts_changed()

    def attempts_changed(self) -> None:
        """Take over the vertices and sinks of new attempts."""
        for region in self._regions:
            attempt = region.attempt
            self._by_level.update(dict.fromkeys(attempt.graph.regions[region.index], region))
            self._by_vertex.update(dict.fromkeys((vertex.id for vertex in attempt.vertices), region))
            self._by_sink.update(dict.fromkeys(attempt.sinks, region))

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def __getitem__(self, index: int) -> Region:
        return self._regions[index]

    def __len__(self) -> int:
        return len(self._regions)

    def of_level(self, level: int) -> Region:
        """Return the region whose query hosts a level. A stage hosts vertices of one region only."""
        return self._by_level[level]

    def of_vertex(self, vertex: int) -> Region:
        """Return the region of a vertex."""
        return self._by_vertex[vertex]

    def of_sink(self, sink: int) -> Region:
        """Return the region of a sink."""
        return self._by_sink[sink]

    @property
    def vertices(self) -> list[CheckpointVertex]:
        """The vertices of the present attempts, in the order of the graph."""
        return sorted((vertex for region in self for vertex in region.attempt.vertices), key=lambda vertex: vertex.id)

    @property
    def all_running(self) -> bool:
        """Whether all tasks of the job are running."""
        return all(region.attempt.status is JobStatus.RUNNING for region in self._regions)

    @property
    def all_ended(self) -> bool:
        """Whether all tasks have ended and the coordinator knows it."""
        return all(region.is_ended for region in self)

    @property
    def down(self) -> list[Region]:
        """Regions that close, or wait for their restart or for the end of the job."""
        return [region for region in self._regions if not region.is_up]

    @property
    def status(self) -> JobStatus:
        """The status of the job, as far as it follows from the attempts."""
        found = {region.status for region in self}
        return next((status for status, states in _STATUS_OF_JOB if found.intersection(states)), JobStatus.FINISHED)
