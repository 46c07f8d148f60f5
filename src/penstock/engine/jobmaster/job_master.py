"""The job master: one job through all its attempts, as a state machine without I/O.

Events come in with the time (events.py), effects go out (effects.py). It has two hosts, Spark's and the simulator's;
neither holds a rule. Each pipelined region has attempts of its own (region.py), checkpoints span all of them. A region
that fails is restarted alone (failover.py). The job ends when all regions are over: results are closed, checkpoints
dropped or retained, then Finish.

A new attempt is deployed only when the tasks of the one before are gone and the storage is settled. Both matter: Spark
admits a query by capacity, not by free slots, so half of a region could wait forever; and a sweep must not meet files
of the next attempt, nor may a manifest be stored after the region was restored from another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.common.errors import FencedError, JobError
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.common.job_status import JobStatus
from penstock.common.time.earliest import earliest
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.effects import CheckpointEffect, SendToTask
from penstock.engine.checkpoint.manifest import Manifest, packed
from penstock.engine.checkpoint.pending import JobIdentity
from penstock.engine.checkpoint.recorded_end import RecordedEnd
from penstock.engine.checkpoint.requests import CheckpointRequest
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.autoscaling.job_autoscaling import JobAutoscaling
from penstock.engine.jobmaster.closing import JobClosing
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
    is_noted,
)
from penstock.engine.jobmaster.failover import Failover
from penstock.engine.jobmaster.job_end import BEFORE_THE_END
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.jobmaster.phases import RegionPhase
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.regions import Regions
from penstock.engine.jobmaster.reports import SlotReports
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.engine.jobmaster.restarts import RestartDecision, RestartStrategy
from penstock.engine.jobmaster.results.collected import CollectedOnce
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.jobmaster.slot_following import SlotFollowing
from penstock.engine.jobmaster.stack_samples import Questions
from penstock.engine.jobmaster.updating import JobUpdating
from penstock.engine.jobmaster.watermark_groups import WatermarkGroups
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import ControlEvent
from penstock.engine.runtime.task.journal import Journal


class JobMaster:
    """Controls one job through all its attempts.

    `origin`: the checkpoint or savepoint that the job starts from; it is at `origin_at`. `collected`: sinks whose
    results the program is given. `epoch`: which run of the job this is, from 1. `older`: checkpoints before `origin`.
    `directory`: that of its own checkpoints.
    """

    def __init__(
        self,
        job_id: str,
        graph: JobGraph,
        settings: JobSettings,
        restarts: RestartStrategy,
        now_ms: int,
        origin: Manifest | None = None,
        collected: frozenset[int] = frozenset(),
        epoch: int = 1,
        older: Sequence[Manifest] = (),
        origin_at: str = "",
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
            JobIdentity(job_id, graph.name, epoch=epoch),
            settings.checkpoints,
            self.storage,
            self.completed,
            end,
            self._of_coordinator,
        )
        if origin is not None:
            self.coordinator.start_from(origin, older)
        self._recovery = Recovery(self.coordinator, self.completed, origin, settings, origin_at, directory)
        self._ending: JobEnding = JobEnding(self, self._emit)
        self._watermarks = WatermarkGroups(graph, self._send_to_task)
        self._collected = CollectedOnce(collected, settings.checkpoints.interval_ms is not None, self._emit)
        self._rescaling: JobRescaling = JobRescaling(self, self._ending, self._emit)
        self._updating: JobUpdating = JobUpdating(self, self._ending, self._emit)
        self._autoscaling = JobAutoscaling(self, self._rescaling, self._emit)
        self._slot_following: SlotFollowing = SlotFollowing(self, self._rescaling, self._emit)
        self._questions: Questions = Questions(self, self._emit)
        self._reports = SlotReports(
            self,
            collected=self._collected,
            region_runs=self._region_runs,
            data_ended=self._ending.data_ended,
            watermarks=self._watermarks,
            autoscaling=self._autoscaling,
            updating=self._updating,
            questions=self._questions,
        )
        self._failover = Failover(self, self._ending, self._recovery, self._collected, self._restarts, self._emit)
        self._closing: JobClosing = JobClosing(self, end, self._emit, self._ending.job_ends, self._recovery)
        self._is_cancelled = False
        self.regions = Regions(graph, settings, self._emit, now_ms)

    # What hosts call.

    def start(self) -> list[JobEffect]:
        """Begin the first attempts. Raises SourceError or CheckpointError if they can't begin."""
        for region in self.regions:
            region.begin(self._recovery, self.graph, self.now_ms)
        return self._take_effects()

    def abandon(self) -> list[JobEffect]:
        """`start` has raised: the job never begins. Returns what is left to do."""
        for region in self.regions:
            region.attempt.enumerators.close()
        return self._take_effects()

    def handle(self, event: JobEvent, now_ms: int) -> list[JobEffect]:
        """Something happened. Returns what is to be done, in order."""
        # A wall clock may be set back; deadlines and delays are counted from times that were taken before.
        self.now_ms = max(self.now_ms, now_ms)
        for region in self.regions:
            region.attempt.enumerators.now_ms = self.now_ms
        if not self._closing.is_over:
            if is_noted(event):
                self.journal.note(self.now_ms, event)
            _HANDLERS[type(event)](self, event)
            self._go_on()
        elif isinstance(event, SavepointRequested | RescaleRequested | UpdateRequested):
            # Each request is answered once, or the user who made it waits forever.
            self._emit(Reply(event.request, error=JobError("the job has ended")))
        elif isinstance(event, StateReadRequested | StacksRequested):
            self._questions.asked(event)
        return self._take_effects()

    def wake_at_ms(self, checkpoints: bool = True) -> int | None:
        """When a Tick has something to do though nothing else happens; `checkpoints`: or is done periodically."""
        if self._closing.is_over:
            return None
        times = [region.wake_at_ms() for region in self.regions]
        # Until all that are down have ended no time helps: that they are gone, or the storage's answer, is an event.
        if self._failover.may_restart:
            times.append(self._failover.restart_at_ms)
        times += [self._watermarks.wake_at_ms(), self._questions.wake_at_ms()]
        if self.regions.all_running:
            times.append(self.coordinator.wake_at_ms(checkpoints and self._ending.takes_checkpoints))
            times.append(self._autoscaling.wake_at_ms() if checkpoints else None)
        if checkpoints and (self.regions.all_running or self._failover.restart_at_ms is not None):
            times.append(self._slot_following.wake_at_ms())
        return earliest(*times)

    @property
    def name(self) -> str:
        """The job as log lines name it."""
        return f"job '{self.graph.name}'"

    @property
    def restarts(self) -> int:
        """How often it was started again, in whole or in part."""
        return self._failover.restarts

    @property
    def status(self) -> JobStatus:
        """Where the job is."""
        if self._failover.restart_at_ms is not None or (self._rescaling.is_closing and not self._is_cancelled):
            return JobStatus.RESTARTING
        return self._closing.status or BEFORE_THE_END.get(self.regions.status, self.regions.status)

    @property
    def is_changing(self) -> bool:
        """Whether it is being rescaled or updated."""
        return not (self._rescaling.is_idle and self._updating.is_idle)

    @property
    def autoscaled(self) -> Autoscaled | None:
        """The newest decision of its autoscaler; None: there is none."""
        return self._autoscaling.newest

    @property
    def error(self) -> BaseException | None:
        """Why the job ended, if it did not succeed."""
        return self._closing.error

    def is_present(self, level: int, attempt: int) -> bool:
        """Whether an attempt of the region that hosts a level is the present one."""
        return self.regions.of_level(level).lets_in(attempt)

    # Failures.

    def fail(self, region: Region, error: BaseException, slot: SlotId | None = None) -> None:
        """The attempt of a region fails; `slot`: the one that failed. Its tasks have a grace period to close in."""
        region.fail(error, slot, self.now_ms)
        # The first error of an attempt counts: those that follow from it are no further failures.
        if region.attempt.error is error:
            self._failover.failed(region)
            self._rescaling.attempt_failed(error)

    def fail_all(self, error: BaseException) -> None:
        """The attempts of all regions fail."""
        for region in self.regions:
            if region.is_up:
                self.fail(region, error)

    # Events.

    def _reported(self, event: Reported) -> None:
        # A report that arrives between two attempts counts for neither: the next one does the same work again.
        region = self.regions.of_level(event.message.level)
        if region.lets_in(event.message.attempt) and not region.is_gone:
            self._reports.take(region, event.message, event.connection)

    def _region_of(self, attempt: AttemptId) -> Region | None:
        """The region whose present attempt this is. None: it is an earlier one."""
        region = self.regions[attempt.region]
        return region if region.lets_in(attempt.number) else None

    def _region_runs(self) -> None:
        if self.regions.all_running:
            self._restarts.all_run()
            self._rescaling.all_run()
            self._autoscaling.all_run()
            self._slot_following.all_run()
            number = max(region.attempt.number for region in self.regions)
            self.coordinator.tasks_began(number, self.regions.vertices, self._enumerator_states, self.now_ms)

    def _call_ended(self, event: CallEnded) -> None:
        region = self._region_of(event.attempt)
        # An answer after the end must not reach an enumerator that is closed.
        if region is not None and region.is_up:
            enumerators = region.attempt.enumerators
            self.guarded(lambda: enumerators.call_ended(event.number, event.value, event.error), region)
            region.attempt.deploy_if_started(self.now_ms)

    def _storage_ended(self, event: StorageEnded) -> None:
        before = self.coordinator.committed_id
        self.coordinator.storage_ended(event.operation, event.error, self.now_ms, event.fenced)
        if event.fenced:
            self.fail_all(FencedError(event.error))
        # Compared by number: the next checkpoint, begun in this call, may have failed a region; results count
        # nevertheless.
        committed_id = self.coordinator.committed_id
        if committed_id != before:
            self._collected.completed(committed_id, [region.attempt.results for region in self.regions])

    def _commit_ended(self, event: CommitEnded) -> None:
        if event.error is None:
            self.coordinator.committed(event.operation)
            return
        sink = self.coordinator.sink_of_open(event.operation)
        # One from before the last restart is not open: what the checkpoint names was handed out again.
        if sink is not None:
            self.fail(self.regions.of_sink(sink), event.error)

    def _delivery_failed(self, event: DeliveryFailed) -> None:
        region = self._region_of(event.attempt)
        if region is not None:
            self.fail(region, event.error)

    def _cancel_requested(self, event: CancelRequested) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
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
        # The lease shows it before anything is published.
        if isinstance(event.error, FencedError):
            self.storage.fence()
        self.fail_all(event.error)
        if self.regions.all_ended and self._closing.is_executing and self._failover.restart_at_ms is None:
            # Failed while terminating: no other event ends the job.
            self._end_with(JobStatus.FAILED, event.error)

    # After each event: what follows from where the job is now.

    def _go_on(self) -> None:
        self._watch()
        self._rescaling.go_on()
        self._updating.go_on()
        self._failover.spread()
        for region in self.regions:
            region.stop_if_over()
        end = self._failover.end_attempts(self._is_cancelled)
        if end is not None:
            self._end_with(*end)
        if self._failover.is_due:
            self._rescaling.attempts_begin()
            restarted = self._failover.restart(self.graph)
            self._watermarks.rescaled(self.graph)
            self._watermarks.restarted([task for region in restarted for task in region.attempt.tasks], self.now_ms)
            self._go_on()
        self._questions.go_on()
        self._closing.go_on()

    def _watch(self) -> None:
        """Time may have passed: do what is due, and look whether a deadline has passed."""
        self._watermarks.tick(self.now_ms)
        for region in self.regions:
            if region.status is JobStatus.RUNNING:
                self.guarded(region.attempt.enumerators.discover_due, region)
                region.attempt.loops.tick(self.now_ms)
        if self.regions.all_running:
            self.guarded(lambda: self.coordinator.tick(self.now_ms, self._ending.takes_checkpoints))
        self._autoscaling.tick()
        self._slot_following.tick(self._failover.restart_at_ms is not None)
        # The coordinator notes it only: it was in the middle of an abort, and attempts end by this path alone.
        error = self.coordinator.take_error()
        if error is not None:
            self.fail_all(error)
        for region in self.regions:
            fault = region.fault(self.now_ms)
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
        """Call what may run users' code: an error there fails the region, not the job master. True: there was none.

        `region` None: all regions.
        """
        try:
            do()
        except AssertionError:
            # A broken invariant is a fault of ours: it goes to the host, and the message gets the journal.
            raise
        except RAISED as error:
            fail = self.fail_all if region is None else partial(self.fail, region)
            fail(as_exception(error))
            return False
        return True

    def _of_coordinator(self, effect: CheckpointEffect) -> None:
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
    ResultsClosed: lambda master, event: master._closing.results_were_closed(event),
    CancelRequested: JobMaster._cancel_requested,
    SavepointRequested: lambda master, event: master._ending.requested(event),
    RescaleRequested: lambda master, event: master._slot_following.rescale_requested(event),
    StateReadRequested: lambda master, event: master._questions.asked(event),
    StacksRequested: lambda master, event: master._questions.asked(event),
    UpdateRequested: lambda master, event: master._updating.requested(event),
    SlotsCounted: JobMaster._slots_counted,
    CheckpointRequested: JobMaster._checkpoint_requested,
    HostFailed: JobMaster._host_failed,
}
