"""The job master: one job through all its attempts, as a state machine without I/O.

Events come in with the time (events.py), effects go out (effects.py). It has two hosts, Spark's and the simulator's;
neither holds a rule. An attempt goes through these phases:

    starting   split enumerators look for what there is to read, on another thread if it takes long
    deployed   Deploy was emitted: slots register, tasks run, until the attempt is over (attempt.py)
    stopping   StopAttempt was emitted: its queries end, and the storage answers what it was asked
    waiting    the attempt is gone; the restart strategy has set a time for the next one
    ending     the job is over: results are closed, checkpoints dropped or retained, then Finish

A new attempt is deployed only when the tasks of the one before are gone and the storage is idle. Both matter: Spark
admits a query by capacity, not by free slots, so half of a job could wait forever; and what the storage still has to
delete must not meet files of the next attempt, nor may a manifest be stored after the job was restored from another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from penstock.checkpoint.coordinator import CheckpointCoordinator
from penstock.checkpoint.effects import CheckpointEffect, SendToTask
from penstock.checkpoint.failure import output_twice
from penstock.checkpoint.manifest import Manifest, packed
from penstock.checkpoint.pending import CheckpointRequest
from penstock.common.checkpointing import ExternalizedCheckpointRetention
from penstock.common.errors import DamagedCheckpointError, FencedError, JobCancelledError, JobError
from penstock.common.job_status import JobStatus
from penstock.jobmaster.attempt import Attempt
from penstock.jobmaster.effects import (
    CloseResults,
    Deliver,
    Finish,
    JobEffect,
    Reply,
    RestartResults,
    StopAttempt,
)
from penstock.jobmaster.ending import JobEnding
from penstock.jobmaster.events import (
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
    ResultsClosed,
    SavepointRequested,
    StorageEnded,
    Tick,
)
from penstock.jobmaster.recovery import Recovery
from penstock.jobmaster.reports import SlotReports
from penstock.jobmaster.restarts import RestartDecision, RestartStrategy
from penstock.jobmaster.settings import JobSettings
from penstock.jobmaster.supervision import Supervision
from penstock.plan.job_graph import JobGraph
from penstock.rpc.messages import Heartbeat
from penstock.runtime.checkpoint_options import CheckpointOptions
from penstock.runtime.ids import SlotId
from penstock.runtime.task.events import Result
from penstock.runtime.task.journal import Journal

_log = logging.getLogger(__name__)

_RETAINED = {
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: (),
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: (JobStatus.FAILED,),
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: (JobStatus.FAILED, JobStatus.CANCELED),
}
"""The ends of a job after which its checkpoints stay."""


_BEFORE_THE_END = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
    JobStatus.FAILED: JobStatus.FAILING,
}


class JobMaster:
    """Controls one job through all its attempts.

    `origin`: the checkpoint or savepoint that the job starts from. `held_back`: sinks whose results wait for a
    checkpoint. `epoch`: which run of the job this is, from 1.
    """

    def __init__(
        self,
        job_id: str,
        graph: JobGraph,
        settings: JobSettings,
        restarts: RestartStrategy,
        now_ms: int,
        origin: Manifest | None = None,
        held_back: frozenset[int] = frozenset(),
        epoch: int = 1,
    ) -> None:
        self.journal = Journal()
        self.now_ms = now_ms
        self.settings = settings
        self.graph = graph
        """The plan of the next attempt."""
        self._restarts = RestartDecision(restarts, settings)
        self._effects: list[JobEffect] = []
        self.coordinator = CheckpointCoordinator(job_id, graph.name, settings.checkpoints, self._of_coordinator, epoch)
        if origin is not None:
            self.coordinator.start_from(origin)
        self._recovery = Recovery(self.coordinator, origin, settings.allow_non_restored_state)
        self._supervision = Supervision(settings)
        self._ending = JobEnding(self, self._emit)
        self._reports = SlotReports(self, self._emit, held_back, self._attempt_runs, self._ending.data_ended)
        self._attempts = 0
        self._is_cancelled = False
        self._stops = False
        """Whether StopAttempt was emitted for the present attempt."""
        self._is_gone = False
        """Whether the tasks of the present attempt are gone."""
        self._delivered_with: set[int] = set()
        """Checkpoints with which results that were held back have been delivered."""
        self._restart_at_ms: int | None = None
        self._end: tuple[JobStatus, BaseException | None] | None = None
        self._results_closed = False
        self.abandoned: list[SlotId] = []
        """Slots whose tasks did not close in time: their workers are killed with the query."""
        self.finished = False
        self.attempt = self._new_attempt()

    # What hosts call.

    def start(self) -> list[JobEffect]:
        """Begin the first attempt. Raises SourceError or CheckpointError if it can't begin."""
        self._begin(self.attempt)
        return self._take_effects()

    def handle(self, event: JobEvent, now_ms: int) -> list[JobEffect]:
        """Something happened. Returns what is to be done, in order."""
        # A wall clock may be set back; deadlines and delays are counted from times that were taken before.
        self.now_ms = max(self.now_ms, now_ms)
        self.attempt.enumerators.now_ms = self.now_ms
        if not self.finished:
            if _is_noted(event):
                self.journal.note(self.now_ms, event)
            _HANDLERS[type(event)](self, event)
            self._go_on()
        elif isinstance(event, SavepointRequested):
            # Each request is answered once, or the user who made it waits forever.
            self._emit(Reply(event.request, error=JobError("the job has ended")))
        return self._take_effects()

    def wake_at_ms(self, checkpoints: bool = True) -> int | None:
        """When a Tick has something to do though nothing else happens. `checkpoints`: periodic ones included."""
        if self.finished:
            return None
        if self._restart_at_ms is not None:
            # Until the storage is idle no time helps: its answer is an event of its own.
            return self._restart_at_ms if self.coordinator.storage_is_idle else None
        attempt = self.attempt
        times = [self._supervision.wake_at_ms(attempt)]
        if attempt.status is JobStatus.RUNNING:
            times.append(attempt.enumerators.wake_at_ms())
            times.append(self.coordinator.wake_at_ms(checkpoints and attempt.takes_checkpoints))
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    @property
    def status(self) -> JobStatus:
        """Where the job is."""
        if self._restart_at_ms is not None:
            return JobStatus.RESTARTING
        status = self._end[0] if self._end is not None else self.attempt.status
        # Not terminal before its results are closed: the last commit may still fail the job.
        return status if self.finished else _BEFORE_THE_END.get(status, status)

    @property
    def error(self) -> BaseException | None:
        """Why the job ended, if it did not succeed."""
        return self._end[1] if self._end is not None else None

    # Attempts.

    def _new_attempt(self) -> Attempt:
        self._attempts += 1
        return Attempt(self._attempts - 1, self.graph, self._emit, self.now_ms)

    def _begin(self, attempt: Attempt) -> None:
        states = self._recovery.enumerator_states(attempt.sources)
        attempt.restored = self._recovery.restore(attempt.vertices)
        attempt.enumerators.start(states)
        attempt.deploy_if_started(self.now_ms)

    def _restart(self) -> None:
        self._restart_at_ms = None
        self._supervision.attempt_begins()
        self._stops = self._is_gone = False
        self.abandoned = []
        # First: errors of what is emitted after it, repeated commits included, are those of the new attempt.
        self._emit(RestartResults(self._attempts))
        self.attempt = self._new_attempt()
        # What fails here, a split enumerator or the assignment of state, fails the attempt before it is deployed.
        self.guarded(lambda: self._begin(self.attempt))

    def fail(self, error: BaseException, slot: SlotId | None = None) -> None:
        """The attempt fails; `slot`: the one that failed. Its tasks have a grace period to close in."""
        self._supervision.failed(self.now_ms)
        self.attempt.failed(error, slot)

    # Events.

    def _reported(self, event: Reported) -> None:
        # A report that arrives between two attempts counts for neither: the next one does the same work again.
        if self._lets_in(event.message.attempt) and not self._is_gone:
            self._reports.take(event.message)

    def _lets_in(self, attempt: int) -> bool:
        """The door: what belongs to an earlier attempt is dropped."""
        return attempt == self.attempt.number

    def _attempt_runs(self) -> None:
        self._restarts.attempt_runs()
        attempt = self.attempt
        self.coordinator.attempt_began(attempt.number, attempt.vertices, self._enumerator_states, self.now_ms)

    def _call_ended(self, event: CallEnded) -> None:
        # An answer after the end must not reach an enumerator that is closed.
        if self._lets_in(event.attempt) and self.attempt.status in (JobStatus.CREATED, JobStatus.RUNNING):
            self.guarded(lambda: self.attempt.enumerators.call_ended(event.number, event.value, event.error))
            self.attempt.deploy_if_started(self.now_ms)

    def _storage_ended(self, event: StorageEnded) -> None:
        before = self.coordinator.committed_id
        self.coordinator.storage_ended(event.operation, event.error, self.now_ms, event.fenced)
        if event.fenced:
            self.fail(FencedError(event.error))
        # Compared by number: the next checkpoint, begun in this call, may have failed the attempt; results count
        # nevertheless.
        if self.coordinator.committed_id != before:
            self._checkpoint_completed()

    def _checkpoint_completed(self) -> None:
        released = self.attempt.results.release(self.coordinator.committed_id)
        if released:
            self._delivered_with.add(self.coordinator.committed_id)
        for result in released:
            self._emit(Deliver(self.attempt.number, result.sink, result.subtask, result.values))

    def _commit_ended(self, event: CommitEnded) -> None:
        if event.error is None:
            self.coordinator.committed(event.operation)
        elif self.coordinator.commit_counts(event.operation):
            # One from before the last restart is not open: what the checkpoint names was handed out again.
            self.fail(event.error)

    def _delivery_failed(self, event: DeliveryFailed) -> None:
        if self._lets_in(event.attempt):
            self.fail(event.error)

    def _cancel_requested(self, event: CancelRequested) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            self._supervision.cancelled(self.now_ms)
            self.attempt.cancel()

    def _savepoint_requested(self, event: SavepointRequested) -> None:
        self._ending.requested(event)

    def _checkpoint_requested(self, event: CheckpointRequested) -> None:
        if self.attempt.takes_checkpoints and not self.coordinator.request_waits:
            request = CheckpointRequest(options=CheckpointOptions(full=event.full))
            self.guarded(lambda: self.coordinator.trigger(self.now_ms, request))

    def _query_failed(self, event: QueryFailed) -> None:
        # Queries that end after StopAttempt end because of it.
        if self._lets_in(event.attempt) and not self._stops:
            self.fail(self.attempt.explained(event.error))
            self.attempt.abandon()

    def _attempt_stopped(self, event: AttemptStopped) -> None:
        if self._lets_in(event.attempt):
            self._is_gone = True

    def _host_failed(self, event: HostFailed) -> None:
        # The lease shows it before anything is published.
        self.coordinator.fenced = self.coordinator.fenced or isinstance(event.error, FencedError)
        self.fail(event.error)

    def _results_were_closed(self, event: ResultsClosed) -> None:
        self._results_closed = True
        assert self._end is not None
        if event.error is not None and self._end[0] is JobStatus.FINISHED:
            self._end = (JobStatus.FAILED, event.error)
        retained = self._end[0] in _RETAINED[self.settings.checkpoint_retention]
        if not retained:
            self.coordinator.end(self._end[0].name)

    # After each event: what follows from where the job is now.

    def _go_on(self) -> None:
        self._watch()
        if self.attempt.is_over and not self._stops:
            self._stops = True
            self._emit(StopAttempt(self.attempt.number))
        # Once per attempt: to fall back a second time would delete a good checkpoint.
        is_decided = self._restart_at_ms is not None or self._end is not None
        if self._is_gone and not is_decided and self.coordinator.storage_is_idle:
            self._attempt_is_gone()
        if self._restart_at_ms is not None:
            if self._is_cancelled:
                self._restart_at_ms = None
                self._end_with(JobStatus.CANCELED, None)
            elif self.coordinator.fenced:
                self._restart_at_ms = None
                self._end_with(JobStatus.FAILED, FencedError("another run has taken the job over"))
            elif self.now_ms >= self._restart_at_ms and self.coordinator.storage_is_idle:
                self._restart()
                self._go_on()
        if self._results_closed and self.coordinator.storage_is_idle and not self.finished:
            self.finished = True
            assert self._end is not None
            self._emit(Finish(*self._end))

    def _watch(self) -> None:
        """Time may have passed: do what is due, and look whether a deadline has passed."""
        attempt = self.attempt
        if attempt.status is JobStatus.RUNNING:
            self.guarded(attempt.enumerators.discover_due)
            self.guarded(lambda: self.coordinator.tick(self.now_ms, attempt.takes_checkpoints))
        # The coordinator notes it only: it was in the middle of an abort, and the attempt ends by this path alone.
        error, self.coordinator.error = self.coordinator.error, None
        if error is not None:
            self.fail(error)
        fault = self._supervision.fault(attempt, self.now_ms)
        if fault is not None:
            self.fail(*fault)
        if self._supervision.abandons(attempt, self.now_ms):
            self.abandoned = attempt.unfinished
            attempt.abandon()

    def _attempt_is_gone(self) -> None:
        """Its tasks are gone, and the storage has answered: the job ends, or is restarted after a while."""
        attempt = self.attempt
        attempt.enumerators.close()
        self._ending.attempt_ended()
        # Before `attempt_ended`, which deletes all that is not retained: the damaged checkpoint, too.
        repeated = self._fall_back(attempt) if self._restarts.falls_back(attempt) else None
        self.coordinator.attempt_ended(self.now_ms)
        if attempt.status is JobStatus.FAILED and self.coordinator.stopped:
            # What the savepoint names with which the job stops is committed: a restart would write it a second time.
            _log.warning("job '%s' stopped with a savepoint, but its end failed: %s", self.graph.name, attempt.error)
            self._end_with(JobStatus.FINISHED, None)
            return
        if attempt.status is JobStatus.FAILED and self._is_cancelled:
            # As in Flink: a job that is cancelled while it fails is cancelled.
            self._end_with(JobStatus.CANCELED, None)
            return
        if repeated is not None:
            self._end_with(JobStatus.FAILED, repeated)
            return
        delay_ms = self._restarts.delay_ms(attempt, self.now_ms) if attempt.status is JobStatus.FAILED else None
        if delay_ms is None:
            self._end_with(attempt.status, attempt.error)
            return
        _log.warning("%s", self._restarts.notice(attempt, delay_ms, self.now_ms))
        self._restart_at_ms = self.now_ms + delay_ms

    def _fall_back(self, attempt: Attempt) -> DamagedCheckpointError | None:
        """The newest checkpoint is damaged: the one before takes its place, unless output would then come twice."""
        latest, before = self.coordinator.retention.latest, self.coordinator.retention.completed[-2:-1]
        if latest is None or not before:
            return None
        repeated = self.coordinator.committed_with_latest
        if latest.checkpoint_id in self._delivered_with:
            repeated.append("collected results")
        if repeated and not self.settings.allow_duplicates:
            return output_twice(str(attempt.error), f"chk-{before[0].checkpoint_id}", repeated)
        self.coordinator.fall_back()
        self._restarts.fell_back()
        _log.warning("job '%s' falls back to the previous checkpoint: %s", self.graph.name, attempt.error)
        return None

    def _end_with(self, status: JobStatus, error: BaseException | None) -> None:
        if status is JobStatus.CANCELED:
            killed = ", ".join(f"level {level} slot {slot}" for level, slot in self.abandoned)
            reason = f": workers that did not stop in time were killed ({killed})" if killed else ""
            error = JobCancelledError(f"the job '{self.graph.name}' was cancelled{reason}")
        elif status is JobStatus.FAILED:
            error = error or JobError("the job failed")
        self._end = (status, error)
        self._emit(CloseResults(error))

    # Effects.

    def _enumerator_states(self) -> dict[str, str] | None:
        states: dict[str, str] = {}
        sources = self.attempt.sources

        def take() -> None:
            of_vertices = self.attempt.enumerators.states()
            states.update((sources[vertex], packed(state)) for vertex, state in of_vertices.items())

        return states if self.guarded(take) else None

    def guarded(self, do: Callable[[], object]) -> bool:
        """Call what may run users' code: an error there fails the attempt, not the job master. True: there was none."""
        try:
            do()
        except AssertionError:
            # A broken invariant is a fault of ours: it goes to the host, and the message gets the journal.
            raise
        except SystemExit as error:
            # It would end the host's thread, and with it the job master.
            self.fail(JobError(f"a split enumerator called sys.exit: {error}"))
            return False
        except Exception as error:
            self.fail(error)
            return False
        return True

    def _of_coordinator(self, effect: CheckpointEffect) -> None:
        if isinstance(effect, SendToTask):
            self.attempt.send(effect.vertex, effect.subtask, effect.event)
        else:
            self._emit(effect)

    def _emit(self, effect: JobEffect) -> None:
        self._effects.append(effect)

    def _take_effects(self) -> list[JobEffect]:
        effects, self._effects = self._effects, []
        return effects


def _is_noted(event: JobEvent) -> bool:
    """Whether an event belongs in the journal: heartbeats and results would displace all others."""
    if isinstance(event, Reported):
        return not isinstance(event.message.report, Heartbeat | Result)
    return not isinstance(event, Tick)


_HANDLERS: dict[type[JobEvent], Callable[[JobMaster, Any], None]] = {
    Reported: JobMaster._reported,
    Tick: lambda master, event: None,
    QueryFailed: JobMaster._query_failed,
    AttemptStopped: JobMaster._attempt_stopped,
    CallEnded: JobMaster._call_ended,
    StorageEnded: JobMaster._storage_ended,
    CommitEnded: JobMaster._commit_ended,
    DeliveryFailed: JobMaster._delivery_failed,
    ResultsClosed: JobMaster._results_were_closed,
    CancelRequested: JobMaster._cancel_requested,
    SavepointRequested: JobMaster._savepoint_requested,
    CheckpointRequested: JobMaster._checkpoint_requested,
    HostFailed: JobMaster._host_failed,
}
