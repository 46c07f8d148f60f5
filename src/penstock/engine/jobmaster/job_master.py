"""Control one job through all its attempts, as a state machine without I/O.

Events and the time come in (events.py), effects go out (effects.py). Spark's host and the simulator's carry out effects
and make no decisions. Each pipelined region has its own attempts (region.py); checkpoints span all regions. A region
that fails is restarted alone (failover.py). When all regions have ended, results are closed, checkpoints are dropped or
retained, and Finish follows.

A new attempt is deployed only after the tasks of the previous one are gone and the storage is settled. Spark admits a
query by capacity, not by free slots, so half of a region could wait forever. A sweep must not delete files of the next
attempt, and no manifest may be stored after the region was restored from another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.common.errors import FencedError, JobError
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.common.job_status import JobStatus
from penstock.common.time.earliest import earliest
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints, RecordedEnd
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.effects import CheckpointEffect, SendToTask
from penstock.engine.checkpoint.manifest import Manifest, packed
from penstock.engine.checkpoint.pending import JobIdentity
from penstock.engine.checkpoint.schedule import CheckpointRequest
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.autoscaling.job_autoscaling import JobAutoscaling
from penstock.engine.jobmaster.closing import STATUS_WHILE_ENDING, JobClosing
from penstock.engine.jobmaster.effects import JobEffect, Reply
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.events import (
    AttemptStopped,
    CallEnded,
    CancelRequested,
    CheckpointRequested,
    CommitEnded,
    DeliveryFailed,
    HostFailed,
    JobEvent,
    QueryFailed,
    Reported,
    RescaleRequested,
    ResultsClosed,
    SavepointRequested,
    SlotsCounted,
    StacksRequested,
    StateReadRequested,
    StorageEnded,
    Tick,
    UpdateRequested,
    belongs_in_journal,
)
from penstock.engine.jobmaster.failover import Failover
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.jobmaster.phases import RegionPhase
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.region import Region, Regions
from penstock.engine.jobmaster.reports import SlotReports
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.engine.jobmaster.restarts import RestartDecision, RestartStrategy
from penstock.engine.jobmaster.results.collected import CollectedOnce
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.jobmaster.slot_following import SlotFollowing
from penstock.engine.jobmaster.stack_samples import TaskQueries
from penstock.engine.jobmaster.updating import JobUpdating
from penstock.engine.jobmaster.watermark_groups import WatermarkGroups
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import AttemptId, SlotId
from penstock.engine.runtime.task.events import ControlEvent
from penstock.engine.runtime.task.journal import Journal


class JobMaster:
    """Control one job through all its attempts.

    `origin`: the checkpoint or savepoint from which the job starts, at `origin_path`. `collected`: sinks whose results
    go to the program. `epoch`: number of this run of the job, from 1. `older`: checkpoints before `origin`.
    `directory`: directory of the job's own checkpoints.
    """

    def __init__(
        self,
        job_id: str,
        graph: JobGraph,
        settings: JobSettings,
        restarts: RestartStrategy,
        *,
        now_ms: int,
        origin: Manifest | None = None,
        collected: frozenset[int] = frozenset(),
        epoch: int = 1,
        older: Sequence[Manifest] = (),
        origin_path: str = "",
        directory: str = "",
    ) -> None:
        self.job_id = job_id
        self.journal = Journal()
        self.now_ms = now_ms
        self.settings = settings
        self.graph = graph
        """The plan of the next attempts."""
        self._restarts = RestartDecision(restarts, settings)
        self._effects: list[JobEffect] = []
        self.storage = StorageRequests(self._emit)
        self.completed = CompletedCheckpoints(self.storage, settings.checkpoints.retained)
        end = RecordedEnd(self.storage, self.completed, epoch)
        self.coordinator = CheckpointCoordinator(
            JobIdentity(job_id, graph.name, epoch=epoch, compiled_plan=graph.compiled_plan),
            settings=settings.checkpoints,
            storage=self.storage,
            completed=self.completed,
            end=end,
            emit=self._emit_for_coordinator,
        )
        if origin is not None:
            self.coordinator.start_from(origin, older)
        self._recovery = Recovery(
            self.coordinator,
            self.completed,
            settings,
            origin=origin,
            origin_path=origin_path,
            directory=directory,
        )
        self._is_canceled = False
        self._make_parts(collected, end)
        self.regions = Regions(graph, settings, self._emit, now_ms)

    def _make_parts(self, collected: frozenset[int], end: RecordedEnd) -> None:
        self._ending: JobEnding = JobEnding(self, self._emit)
        self._watermarks = WatermarkGroups(self.graph, self._send_to_task)
        self._collected = CollectedOnce(collected, self.settings.checkpoints.interval_ms is not None, self._emit)
        self._rescaling: JobRescaling = JobRescaling(self, self._ending, self._emit)
        self._updating: JobUpdating = JobUpdating(self, self._ending, self._emit)
        self._autoscaling = JobAutoscaling(self, self._rescaling, self._emit)
        self._slot_following: SlotFollowing = SlotFollowing(self, self._rescaling, self._emit)
        self._queries: TaskQueries = TaskQueries(self, self._emit)
        self._reports = SlotReports(
            self,
            collected=self._collected,
            region_started=self._region_started,
            data_ended=self._ending.data_ended,
            watermarks=self._watermarks,
            autoscaling=self._autoscaling,
            updating=self._updating,
            queries=self._queries,
        )
        self._failover = Failover(
            self,
            ending=self._ending,
            recovery=self._recovery,
            collected=self._collected,
            restarts=self._restarts,
            emit=self._emit,
        )
        self._closing: JobClosing = JobClosing(
            self,
            recorded_end=end,
            emit=self._emit,
            before_end=self._ending.job_ends,
            recovery=self._recovery,
        )

    # For hosts.

    def start(self) -> list[JobEffect]:
        """Begin the first attempts. Raises SourceError or CheckpointError if they cannot begin."""
        for region in self.regions:
            region.begin(self._recovery, self.graph, self.now_ms)
        return self._take_effects()

    def abandon(self) -> list[JobEffect]:
        """Close the enumerators of a job whose `start` has raised. Return the remaining effects."""
        for region in self.regions:
            region.attempt.enumerators.close()
        return self._take_effects()

    def handle(self, event: JobEvent, now_ms: int) -> list[JobEffect]:
        """Handle an event. Return the effects to carry out, in order."""
        # Never back, though a wall clock may be set back: deadlines and delays are counted from earlier times.
        self.now_ms = max(self.now_ms, now_ms)
        for region in self.regions:
            region.attempt.enumerators.now_ms = self.now_ms
        if not self._closing.has_ended:
            if belongs_in_journal(event):
                self.journal.note(self.now_ms, event)
            _HANDLERS[type(event)](self, event)
            self._advance()
        elif isinstance(event, SavepointRequested | RescaleRequested | UpdateRequested):
            # Each request gets one reply, or its user would wait forever.
            self._emit(Reply(event.request, error=JobError("the job has ended")))
        elif isinstance(event, StateReadRequested | StacksRequested):
            self._queries.requested(event)
        return self._take_effects()

    def wake_at_ms(self, checkpoints: bool = True) -> int | None:
        """Return when the next Tick is needed. `checkpoints`: for periodic work, too, such as checkpoints."""
        if self._closing.has_ended:
            return None
        times = [region.wake_at_ms() for region in self.regions]
        # Before all regions that are down have ended, a restart waits for events, not for a time.
        if self._failover.may_restart:
            times.append(self._failover.restart_at_ms)
        times += [self._watermarks.wake_at_ms(), self._queries.wake_at_ms()]
        if self.regions.all_running:
            times.append(self.coordinator.wake_at_ms(checkpoints and self._ending.takes_checkpoints))
            times.append(self._autoscaling.wake_at_ms() if checkpoints else None)
        if checkpoints and (self.regions.all_running or self._failover.restart_at_ms is not None):
            times.append(self._slot_following.wake_at_ms())
        return earliest(*times)

    @property
    def name(self) -> str:
        """The job's name in log lines."""
        return f"job '{self.graph.name}'"

    @property
    def restarts(self) -> int:
        """Number of restarts of the job or of a part of it."""
        return self._failover.restarts

    @property
    def status(self) -> JobStatus:
        """The job's status."""
        if self._failover.restart_at_ms is not None or (self._rescaling.is_closing and not self._is_canceled):
            return JobStatus.RESTARTING
        return self._closing.status or STATUS_WHILE_ENDING.get(self.regions.status, self.regions.status)

    @property
    def is_changing(self) -> bool:
        """Whether it is being rescaled or updated."""
        return not (self._rescaling.is_idle and self._updating.is_idle)

    @property
    def autoscaled(self) -> Autoscaled | None:
        """The newest decision of its autoscaler, or None."""
        return self._autoscaling.newest

    @property
    def error(self) -> BaseException | None:
        """Why the job ended, if it did not succeed."""
        return self._closing.error

    def is_present(self, level: int, attempt: int) -> bool:
        """Return whether this is the present attempt of the region that hosts a level."""
        return self.regions.of_level(level).accepts(attempt)

    # Failures.

    def fail(self, region: Region, error: BaseException, slot: SlotId | None = None) -> None:
        """Fail the attempt of a region; `slot`: the slot that failed. Its tasks get a grace period to close."""
        region.fail(error, slot, self.now_ms)
        # Only the first error of an attempt counts: later errors are its consequences.
        if region.attempt.error is error:
            self._failover.failed(region)
            self._rescaling.attempt_failed(error)

    def fail_all(self, error: BaseException) -> None:
        """Fail the attempts of all regions."""
        for region in self.regions:
            if region.is_up:
                self.fail(region, error)

    # Events.

    def _reported(self, event: Reported) -> None:
        # Ignore reports that arrive between two attempts: the next attempt does the same work again.
        region = self.regions.of_level(event.message.level)
        if region.accepts(event.message.attempt) and not region.is_gone:
            self._reports.handle(region, event.message, event.connection)

    def _region_of(self, attempt: AttemptId) -> Region | None:
        """Return the region whose present attempt this is, or None for an earlier attempt."""
        region = self.regions[attempt.region]
        return region if region.accepts(attempt.number) else None

    def _region_started(self) -> None:
        if self.regions.all_running:
            self._restarts.all_tasks_started()
            self._rescaling.all_tasks_started()
            self._autoscaling.all_tasks_started()
            self._slot_following.all_tasks_started()
            number = max(region.attempt.number for region in self.regions)
            self.coordinator.tasks_began(number, self.regions.vertices, self._enumerator_states, self.now_ms)

    def _call_ended(self, event: CallEnded) -> None:
        region = self._region_of(event.attempt)
        # The outcome must not reach an enumerator that is closed.
        if region is not None and region.is_up:
            enumerators = region.attempt.enumerators
            self.guarded(lambda: enumerators.call_ended(event.number, event.value, event.error), region)
            region.attempt.deploy_if_started(self.now_ms)

    def _storage_ended(self, event: StorageEnded) -> None:
        before = self.coordinator.committed_id
        self.coordinator.storage_ended(event.operation, event.error, self.now_ms, event.fenced)
        if event.fenced:
            self.fail_all(FencedError(event.error))
        # Compare numbers, since the next checkpoint may have failed a region in this call: results of the completed one
        # still count.
        committed_id = self.coordinator.committed_id
        if committed_id != before:
            self._collected.completed(committed_id, [region.attempt.results for region in self.regions])

    def _commit_ended(self, event: CommitEnded) -> None:
        if event.error is None:
            self.coordinator.committed(event.operation)
            return
        sink = self.coordinator.sink_of_open_commit(event.operation)
        # A commit from before the last restart is not open: the checkpoint's committables were handed out again.
        if sink is not None:
            self.fail(self.regions.of_sink(sink), event.error)

    def _delivery_failed(self, event: DeliveryFailed) -> None:
        region = self._region_of(event.attempt)
        if region is not None:
            self.fail(region, event.error)

    def _cancel_requested(self, event: CancelRequested) -> None:
        if not self._is_canceled:
            self._is_canceled = True
            for region in self.regions:
                region.cancel(self.now_ms)

    def _slots_counted(self, event: SlotsCounted) -> None:
        self._autoscaling.slots_counted(event)
        self._slot_following.slots_counted(event)

    def _checkpoint_requested(self, event: CheckpointRequested) -> None:
        if self._ending.takes_checkpoints and not self.coordinator.request_waits:
            request = CheckpointRequest(options=event.options)
            self.guarded(lambda: self.coordinator.trigger(self.now_ms, request))

    def _query_failed(self, event: QueryFailed) -> None:
        region = self._region_of(event.attempt)
        # A query that ends after StopAttempt ends because of it.
        if region is not None and region.phase is RegionPhase.DEPLOYED:
            self.fail(region, region.attempt.explained(event.error))
            region.attempt.abandon()

    def _attempt_stopped(self, event: AttemptStopped) -> None:
        region = self._region_of(event.attempt)
        if region is not None:
            region.query_ended()

    def _host_failed(self, event: HostFailed) -> None:
        # The lease shows this before anything is published.
        if isinstance(event.error, FencedError):
            self.storage.fence()
        self.fail_all(event.error)
        if self.regions.all_ended and self._closing.is_executing and self._failover.restart_at_ms is None:
            # The job failed while it terminated: no other event would end it.
            self._end_with(JobStatus.FAILED, event.error)

    # After each event.

    def _advance(self) -> None:
        self._do_what_is_due()
        self._rescaling.advance()
        self._updating.advance()
        self._failover.spread()
        for region in self.regions:
            region.stop_if_closed()
        end = self._failover.end_attempts(self._is_canceled)
        if end is not None:
            self._end_with(*end)
        if self._failover.is_due:
            self._rescaling.attempts_begin()
            restarted = self._failover.restart(self.graph)
            self._watermarks.rescaled(self.graph)
            self._watermarks.restarted([task for region in restarted for task in region.attempt.tasks], self.now_ms)
            self._advance()
        self._queries.advance()
        self._closing.advance()

    def _do_what_is_due(self) -> None:
        """Do periodic work, and fail regions whose deadlines have passed."""
        self._watermarks.tick(self.now_ms)
        for region in self.regions:
            if region.status is JobStatus.RUNNING:
                self.guarded(region.attempt.enumerators.discover_due, region)
                region.attempt.loops.tick(self.now_ms)
        if self.regions.all_running:
            self.guarded(lambda: self.coordinator.tick(self.now_ms, self._ending.takes_checkpoints))
        self._autoscaling.tick()
        self._slot_following.tick(self._failover.restart_at_ms is not None)
        # The coordinator only stores an error: it may be in the middle of an abort, and only this path ends attempts.
        error = self.coordinator.take_error()
        if error is not None:
            self.fail_all(error)
        for region in self.regions:
            fault = region.find_fault(self.now_ms)
            if fault is not None:
                self.fail(region, *fault)
            region.abandon_if_late(self.now_ms)

    def _end_with(self, status: JobStatus, error: BaseException | None) -> None:
        self._rescaling.job_ends()
        self._updating.job_ends()
        self._closing.begin(status, error)

    # Effects.

    def _enumerator_states(self) -> dict[str, str] | None:
        states: dict[str, str] = {}

        def take(attempt: Attempt) -> None:
            of_vertices = attempt.enumerators.states()
            states.update((attempt.sources[vertex], packed(state)) for vertex, state in of_vertices.items())

        taken = [self.guarded(partial(take, region.attempt), region) for region in self.regions]
        return states if all(taken) else None

    def guarded(self, do: Callable[[], object], region: Region | None = None) -> bool:
        """Make a call that may run users' code. An error fails the region, or all if None, but not the JobMaster.

        Return whether the call succeeded.
        """
        try:
            do()
        except AssertionError:
            # A broken invariant is a bug of penstock: the host gets the error, and adds the journal to its text.
            raise
        except RAISED as error:
            fail = self.fail_all if region is None else partial(self.fail, region)
            fail(as_exception(error))
            return False
        return True

    def _emit_for_coordinator(self, effect: CheckpointEffect) -> None:
        if isinstance(effect, SendToTask):
            self._send_to_task(effect.vertex, effect.subtask, effect.event)
        else:
            self._emit(effect)

    def _send_to_task(self, vertex: int, subtask: int, event: ControlEvent) -> None:
        self.regions.of_vertex(vertex).attempt.send(vertex, subtask, event)

    def _emit(self, effect: JobEffect) -> None:
        self._effects.append(effect)

    def _take_effects(self) -> list[JobEffect]:
        effects, self._effects = self._effects, []
        return effects


_HANDLERS: dict[type[JobEvent], Callable[[JobMaster, Any], None]] = {
    Reported: JobMaster._reported,
    Tick: lambda master, event: None,
    QueryFailed: JobMaster._query_failed,
    AttemptStopped: JobMaster._attempt_stopped,
    CallEnded: JobMaster._call_ended,
    StorageEnded: JobMaster._storage_ended,
    CommitEnded: JobMaster._commit_ended,
    DeliveryFailed: JobMaster._delivery_failed,
    ResultsClosed: lambda master, event: master._closing.results_closed(event),
    CancelRequested: JobMaster._cancel_requested,
    SavepointRequested: lambda master, event: master._ending.requested(event),
    RescaleRequested: lambda master, event: master._slot_following.rescale_requested(event),
    StateReadRequested: lambda master, event: master._queries.requested(event),
    StacksRequested: lambda master, event: master._queries.requested(event),
    UpdateRequested: lambda master, event: master._updating.requested(event),
    SlotsCounted: JobMaster._slots_counted,
    CheckpointRequested: JobMaster._checkpoint_requested,
    HostFailed: JobMaster._host_failed,
}
