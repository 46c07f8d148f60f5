"""The checkpoint coordinator: when a checkpoint begins, who has acknowledged, and when it completes or is aborted.

    trigger        all sources receive TriggerCheckpoint, and the state of the enumerators is taken at the same time:
                   what they assign from here on comes behind the barrier
    acknowledged   by all tasks: the manifest is stored
    stored         sinks commit, older checkpoints are subsumed, files that nothing refers to are deleted
    aborted        declined, expired, not storable or subsumed: the job goes on, and what sinks prepared is committed
                   with the next checkpoint that completes

Savepoints take the same way, one at a time with no checkpoint beside them (requests.py); savepoints.py has what is
different about them.

A state machine without I/O: time is handed in, everything asked of the world is an effect (effects.py). Manifests are
stored one after the other. A checkpoint whose manifest is on its way is neither complete nor can it be aborted: only
the storage's answer shows which one it is, and a job that went on without it could commit the same output twice.

Source: Flink docs, "Checkpointing"; State Management paper, 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.commits import CommitLedger, Committables, Numbered, in_order
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.effects import (
    CheckpointEffect,
    SendToTask,
    StoreManifest,
)
from penstock.engine.checkpoint.failure import OF_DECLINE, CheckpointFailureReason, FailureTolerance
from penstock.engine.checkpoint.history import CheckpointHistory
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.pending import JobIdentity, PendingCheckpoint
from penstock.engine.checkpoint.plan import CheckpointPlan, CheckpointVertex
from penstock.engine.checkpoint.recorded_end import RecordedEnd
from penstock.engine.checkpoint.requests import CheckpointRequest, CheckpointRequests
from penstock.engine.checkpoint.savepoints import Savepoints
from penstock.engine.checkpoint.schedule import CheckpointSchedule, CheckpointSettings
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.checkpoint_options import Commits, DeclineReason
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import AbortCheckpoint, CheckpointComplete, ControlEvent, TriggerCheckpoint
from penstock.engine.state.handles import SubtaskState, files_of

EnumeratorStates = Callable[[], dict[str, str] | None]
"""Takes the states of the split enumerators, packed, by state id. None: one has failed, and the attempt with it."""


class CheckpointCoordinator:
    """Of one job, through all its attempts. `emit` takes its effects, in order."""

    def __init__(
        self,
        job: JobIdentity,
        settings: CheckpointSettings,
        storage: StorageRequests,
        completed: CompletedCheckpoints,
        end: RecordedEnd,
        emit: Callable[[CheckpointEffect], None],
    ) -> None:
        self.history = CheckpointHistory()
        self.committed_id = 0
        """The newest checkpoint whose output has been handed out to be committed."""
        self.error: CheckpointError | None = None
        """Set when more checkpoints in a row have failed than are tolerated."""
        self.timeout_ms = settings.timeout_ms
        """How long a checkpoint may take. May change while the job runs."""
        self._schedule = CheckpointSchedule(settings)
        self._storage = storage
        self._completed = completed
        self._end = end
        self._savepoints = Savepoints(storage, completed, end, settings.interval_ms is not None)
        self._job = job
        self._plan = CheckpointPlan()
        self._emit = emit
        self._ledger = CommitLedger(emit, storage.number)
        self._tolerance = FailureTolerance(settings.failures_tolerated)
        self._pending: dict[int, PendingCheckpoint] = {}
        self._requests = CheckpointRequests()
        self._last_id = 0
        self._unsure_id = 0
        """The newest checkpoint whose manifest could not be stored, as its storage said. It may be on record all the
        same, and what is started from there commits what it names."""
        self._kept: list[Committables] = []
        """What is aborted once a later one is stored, therefore."""
        self._running = False
        self._enumerator_states: EnumeratorStates = dict

    # The life of tasks.

    def start_from(self, manifest: Manifest, older: Sequence[Manifest] = ()) -> None:
        """The job starts from this checkpoint. It is retained as the job's own only if this job has taken it.

        `older`: those before it that are retained, oldest first.
        """
        # Numbers continue: files are named by them, and must not meet those of the checkpoint.
        self._last_id = max(self._last_id, manifest.checkpoint_id)
        if manifest.job_id == self._job.job_id and (not manifest.savepoint or self._job.epoch > 1):
            self._completed.start_from(manifest, older)

    def tasks_began(
        self, attempt: int, vertices: Sequence[CheckpointVertex], enumerator_states: EnumeratorStates, now_ms: int
    ) -> None:
        """All tasks of the job are running: those of `vertices`. `attempt`: the highest number of theirs."""
        self._plan = CheckpointPlan.of(attempt, vertices)
        self._enumerator_states = enumerator_states
        self._running = True
        self._tolerance.reset()
        self._schedule.tasks_began(now_ms)

    def tasks_ended(self, vertices: Sequence[CheckpointVertex], now_ms: int) -> None:
        """The tasks of `vertices` are gone. No checkpoint begins until all tasks run again.

        Pending ones are aborted, also at the tasks that still run. What the sinks of these vertices prepared since the
        last one is discarded; what other sinks prepared is carried to the next checkpoint. Must not be called while a
        manifest is being stored: see `is_storing`.
        """
        assert not self.is_storing
        self._running = False
        self._schedule.tasks_ended()
        self._plan = self._plan.without(vertices)
        # Carried first: the ledger drops what belongs to the ended tasks, and keeps the rest for the next checkpoint.
        for pending in self._pending.values():
            self._ledger.carry(pending.take_prepared())
        dropped = self._ledger.drop_carried({sink for vertex in vertices for sink in vertex.sinks})
        requests = [*(pending.request for pending in self._pending.values()), *self._requests.take_all()]
        for pending in self._pending.values():
            self._discard(pending, CheckpointFailureReason.ATTEMPT_ENDED, "", now_ms)
        self._pending.clear()
        self._ledger.tasks_ended()
        for request in requests:
            request.then(CheckpointFailureReason.ATTEMPT_ENDED.error())
        for number, committables in dropped:
            # A savepoint that was handed to the user goes on naming what had been prepared by then.
            if number <= self._savepoints.newest_id or self._storage.is_fenced:
                continue
            if number <= self._unsure_id:
                self._kept.append(committables)
            else:
                self._ledger.abort(committables)
        if not self._plan.tasks:
            self._savepoints.no_task_left()
        self._completed.tasks_ended([vertex.id for vertex in vertices], any_left=bool(self._plan.tasks))

    def abort_kept(self) -> None:
        """A later checkpoint is stored, or the job ends and leaves none: nothing starts from one that was unsure."""
        self._unsure_id = 0
        while self._kept:
            self._ledger.abort(self._kept.pop(0))

    def commit_again(self, manifest: Manifest, vertices: Sequence[CheckpointVertex]) -> None:
        """`vertices` are restored from this checkpoint: perhaps not all its commits were done."""
        sinks = {state_id: sink for vertex in vertices for sink, state_id in vertex.sinks.items()}
        self._ledger.restored(manifest, sinks)

    @property
    def stopped(self) -> bool:
        """Whether a savepoint with which the job stops is stored."""
        return self._end.stopped

    # What makes checkpoints begin.

    @property
    def pending(self) -> list[PendingCheckpoint]:
        """Those that are being collected, oldest first."""
        return list(self._pending.values())

    @property
    def under_way(self) -> list[int]:
        """Their numbers."""
        return list(self._pending)

    @property
    def _is_open(self) -> bool:
        """Whether checkpoints may begin and be stored.

        None may after the savepoint with which the job stops: a job that is restored from it would do again what has
        been committed with the savepoint. None may in a run that was taken over: its storage is asked nothing any more.
        """
        return self._running and not self.stopped and not self._storage.is_fenced

    def take_error(self) -> CheckpointError | None:
        """Return `error`, once."""
        error, self.error = self.error, None
        return error

    @property
    def is_storing(self) -> bool:
        """Whether a manifest is on its way to the storage."""
        return any(pending.is_being_stored for pending in self._pending.values())

    @property
    def request_waits(self) -> bool:
        """Whether a request waits, or a savepoint is under way: no periodic checkpoint begins before it is done."""
        return bool(self._requests) or any(pending.savepoint for pending in self._pending.values())

    def tick(self, now_ms: int, may_begin: bool = True) -> None:
        """Time has passed. `may_begin`: whether a periodic checkpoint may begin; the job may be about to end."""
        for pending in list(self._pending.values()):
            if not pending.is_being_stored and now_ms - pending.triggered_ms >= self.timeout_ms:
                self._abort(pending, CheckpointFailureReason.EXPIRED, f"{self.timeout_ms} ms", now_ms)
        if not may_begin or not self._is_open:
            return
        if self._schedule.take(now_ms, len(self._pending), self.request_waits):
            self.trigger(now_ms)

    def wake_at_ms(self, may_begin: bool) -> int | None:
        """When `tick` has something to do if nothing else happens."""
        times = [p.triggered_ms + self.timeout_ms for p in self._pending.values() if not p.is_being_stored]
        begins_ms = self._schedule.begins_ms(len(self._pending), self.request_waits)
        if may_begin and self._is_open and begins_ms is not None:
            times.append(begins_ms)
        return min(times, default=None)

    def request(self, request: CheckpointRequest, now_ms: int) -> None:
        """Take this checkpoint as soon as no other one is under way."""
        self._requests.add(request)
        self._begin_requested(now_ms)

    def trigger(self, now_ms: int, request: CheckpointRequest | None = None) -> int | None:
        """Begin a checkpoint now. Returns its number, or None if the state of an enumerator can't be taken."""
        assert self._running, "no attempt is running"
        request = request or CheckpointRequest()
        states = self._enumerator_states()
        if states is None:
            request.then(CheckpointFailureReason.TRIGGER_FAILED.error())
            return None
        self._last_id += 1
        checkpoint_id = self._last_id
        self._pending[checkpoint_id] = PendingCheckpoint(checkpoint_id, now_ms, states, self._plan, request)
        self._savepoints.triggered(checkpoint_id, request.options)
        trigger = TriggerCheckpoint(checkpoint_id, now_ms, request.options)
        for vertex, subtask in self._plan.sources:
            self._emit(SendToTask(vertex, subtask, trigger))
        return checkpoint_id

    def _begin_requested(self, now_ms: int) -> None:
        if self._requests and self._is_open and not self._pending:
            self.trigger(now_ms, self._requests.take_next())
        if not self._requests and not self._pending:
            self._requests.settled()

    # What tasks report.

    def acknowledged(
        self, task: SubtaskId, checkpoint_id: int, state: SubtaskState, commits: Commits, now_ms: int
    ) -> None:
        """A task has taken its part. `commits`: by sink, what the next completed checkpoint commits."""
        prepared = [Committables(sink, task[1], values) for sink, values in commits]
        if task not in self._plan.tasks:
            # Its attempt has ended: the next one writes the same output again.
            for committables in prepared:
                self._ledger.abort(committables)
            return
        # Also for a checkpoint that was aborted: the next increment of the task builds on these files.
        if not self._savepoints.includes(checkpoint_id):
            self._completed.acknowledged(task, files_of(state.operators.values()))
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            # Aborted in the meantime. What was prepared is committed with the next checkpoint that completes.
            self._ledger.carry([(checkpoint_id, committables) for committables in prepared])
            return
        pending.acknowledge(task, state, prepared)
        self._store_next(now_ms)

    def declined(self, task: SubtaskId, checkpoint_id: int, reason: DeclineReason, detail: str, now_ms: int) -> None:
        """A task cannot take part."""
        detail = f"{self._plan.name_of(task)} declined: {detail or 'a newer checkpoint reached it first'}"
        pending = self._pending.get(checkpoint_id)
        if pending is not None and not pending.is_being_stored:
            self._abort(pending, OF_DECLINE[reason], detail, now_ms)

    # What the host reports.

    def storage_ended(self, operation: int, error: str, now_ms: int, fenced: bool = False) -> None:
        """A storage operation has ended; `error` is empty if it succeeded. `fenced`: another run holds the job."""
        if self._storage.ended(operation, error, now_ms, fenced):
            self._store_next(now_ms)

    def committed(self, operation: int) -> None:
        """A commit is done. One that was handed out before the last restore changes nothing."""
        self._ledger.done(operation)

    def sink_of_open(self, operation: int) -> int | None:
        """The sink of a commit that is not done. None: it does not count any more, its sink was restored since."""
        return self._ledger.sink_of_open(operation)

    @property
    def has_open_commits(self) -> bool:
        """Whether the host has not done all that it was asked to commit."""
        return self._ledger.has_open

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call it when no commit is open. If a commit fails its attempt fails with it, and it is not called."""
        self._ledger.when_all_done(call)

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call it when no checkpoint is pending or requested. If tasks end before, it is not called."""
        if self._pending or self._requests:
            self._requests.when_settled(call)
        else:
            call()

    def take_carried(self) -> list[Committables]:
        """Remove and return what sinks prepared for checkpoints that were aborted. No further one will commit it."""
        return [committables for _, committables in in_order(self._ledger.take_carried(self._last_id))]

    # How checkpoints end.

    def _store_next(self, now_ms: int) -> None:
        """Store the oldest checkpoint that all have acknowledged. One at a time: the next names what is open then."""
        if self.is_storing or not self._is_open:
            return
        pending = next((pending for pending in self._pending.values() if pending.is_acknowledged), None)
        if pending is None:
            return
        named = self._take_prepared(pending)
        commits = [*self._ledger.open, *(committables for _, committables in named)]
        job = self._job._replace(attempt=self._plan.attempt)
        manifest = pending.manifest(job, self._plan.vertices, commits, now_ms)
        pending.named = named

        def stored(error: str, now_ms: int) -> None:
            if error:
                # It is committed with the next checkpoint that completes.
                self._unsure_id = pending.checkpoint_id
                self._ledger.carry(named)
                pending.named = None
                self._abort(pending, CheckpointFailureReason.MANIFEST_NOT_STORED, error, now_ms)
            elif pending.savepoint:
                self._savepoint_stored(pending, manifest, now_ms)
            else:
                self._checkpoint_stored(pending, manifest, now_ms)

        options = pending.request.options
        effect = StoreManifest(self._storage.number(), manifest, options, self._savepoints.commits(options))
        self._storage.ask(effect, stored)

    def _take_prepared(self, pending: PendingCheckpoint) -> list[Numbered]:
        """What sinks have prepared until this checkpoint, in order, also for earlier ones that never completed."""
        prepared = self._ledger.take_carried(pending.checkpoint_id)
        # Older ones that are still pending included: their barriers are before this one, which subsumes them.
        for other in self._pending.values():
            if other.checkpoint_id <= pending.checkpoint_id:
                prepared += other.take_prepared()
        return in_order(prepared)

    def _savepoint_stored(self, pending: PendingCheckpoint, manifest: Manifest, now_ms: int) -> None:
        del self._pending[pending.checkpoint_id]
        self.history.completed(pending, manifest)
        # As in Flink: the pause is to leave the job some time for its records.
        self._schedule.completed(now_ms)
        assert pending.named is not None
        if self._savepoints.stored(pending, manifest):
            self._commit(pending)
        else:
            self._ledger.carry(pending.named)
        pending.request.then(manifest)
        self._begin_requested(now_ms)

    def _checkpoint_stored(self, pending: PendingCheckpoint, manifest: Manifest, now_ms: int) -> None:
        for older in [other for other in self._pending.values() if other.checkpoint_id < pending.checkpoint_id]:
            self._abort(older, CheckpointFailureReason.SUBSUMED, str(pending.checkpoint_id), now_ms)
        del self._pending[pending.checkpoint_id]
        self.abort_kept()
        self._tolerance.reset()
        self._completed.add(manifest)
        self.history.completed(pending, manifest)
        self._schedule.completed(now_ms)
        self._commit(pending)
        # After the commits were handed out: the storage may take its time over many files.
        self._completed.delete_subsumed(other.files() for other in self._pending.values())
        pending.request.then(manifest)
        self._begin_requested(now_ms)

    def _commit(self, pending: PendingCheckpoint) -> None:
        assert pending.named is not None
        self.committed_id = pending.checkpoint_id
        for _, committables in pending.named:
            self._ledger.hand_out(committables)
        self._send_to_all(CheckpointComplete(pending.checkpoint_id))

    def _abort(self, pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: str, now_ms: int) -> None:
        del self._pending[pending.checkpoint_id]
        self._ledger.carry(pending.take_prepared())
        self._discard(pending, reason, detail, now_ms)
        if not pending.savepoint:
            self.error = self.error or self._tolerance.failed(pending.checkpoint_id, reason, detail)
        pending.request.then(reason.error(detail))
        self._begin_requested(now_ms)

    def _discard(self, pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: str, now_ms: int) -> None:
        self._send_to_all(AbortCheckpoint(pending.checkpoint_id))
        if pending.savepoint:
            self._savepoints.aborted(pending)
        self.history.failed(pending, reason, detail, now_ms)

    def _send_to_all(self, event: ControlEvent) -> None:
        for vertex, subtask in self._plan.tasks:
            self._emit(SendToTask(vertex, subtask, event))
