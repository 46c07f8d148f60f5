"""The checkpoint coordinator: triggers checkpoints, collects acknowledgements, and completes or aborts checkpoints.

    trigger        all sources receive TriggerCheckpoint, and the coordinator snapshots the enumerators at the same
                   time: splits that they assign from here on come after the barrier
    acknowledged   all tasks have acknowledged: the coordinator stores the manifest
    stored         sinks commit, older checkpoints are subsumed, files that nothing refers to are deleted
    aborted        declined, expired, not stored or subsumed: the job continues, and the next checkpoint that
                   completes commits what sinks prepared for this one

Savepoints follow the same steps, one at a time and never at the same time as a checkpoint (schedule.py). savepoints.py
holds the differences.

The coordinator is a state machine without I/O: callers pass the time, and it emits effects (effects.py). It stores
manifests one after the other. A checkpoint whose manifest is being stored is not complete and cannot be aborted: the
storage's answer decides, and a job that did not wait for it could commit the same output twice.

Source: Flink docs, "Checkpointing"; State Management paper, 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.commits import CommitLedger, Committables, NumberedCommittables, in_checkpoint_order
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints, RecordedEnd
from penstock.engine.checkpoint.effects import (
    CheckpointEffect,
    SendToTask,
    StoreManifest,
)
from penstock.engine.checkpoint.failure import REASONS_OF_DECLINE, CheckpointFailureReason, FailureTolerance
from penstock.engine.checkpoint.history import CheckpointHistory
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.pending import JobIdentity, PendingCheckpoint
from penstock.engine.checkpoint.plan import CheckpointPlan, CheckpointVertex
from penstock.engine.checkpoint.savepoints import Savepoints
from penstock.engine.checkpoint.schedule import (
    CheckpointRequest,
    CheckpointRequests,
    CheckpointSchedule,
    CheckpointSettings,
)
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.checkpoint_options import Commits, DeclineReason
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import AbortCheckpoint, CheckpointComplete, ControlEvent, TriggerCheckpoint
from penstock.engine.state.handles import SubtaskState, files_of

EnumeratorStates = Callable[[], dict[str, str] | None]
"""Snapshots the split enumerators: packed states by state id. None: an enumerator failed, and its attempt with it."""


class CheckpointCoordinator:
    """Coordinate the checkpoints of one job through all its attempts. `emit` receives the effects in order."""

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
        """The newest checkpoint whose committables the host has received."""
        self.error: CheckpointError | None = None
        """Set when more checkpoints in a row failed than `failures_tolerated`."""
        self.timeout_ms = settings.timeout_ms
        """Time after which a pending checkpoint is aborted. May change while the job runs."""
        self._schedule = CheckpointSchedule(settings)
        self._storage = storage
        self._completed = completed
        self._end = end
        self._savepoints = Savepoints(storage, completed, end, settings.interval_ms is not None)
        self._job = job
        self._plan = CheckpointPlan()
        self._emit = emit
        self._ledger = CommitLedger(emit, storage.next_number)
        self._tolerance = FailureTolerance(settings.failures_tolerated)
        self._pending: dict[int, PendingCheckpoint] = {}
        self._requests = CheckpointRequests()
        self._last_id = 0
        self._uncertain_id = 0
        """The newest checkpoint whose manifest the storage reported as not stored. It may be on record nevertheless,
        and a job that starts from it commits what it names."""
        self._uncertain: list[Committables] = []
        """Committables of such checkpoints: aborted once a later checkpoint is stored."""
        self._running = False
        self._enumerator_states: EnumeratorStates = dict

    # Tasks start and end.

    def start_from(self, manifest: Manifest, older: Sequence[Manifest] = ()) -> None:
        """Start the job from this checkpoint. It is retained as the job's own only if this job took it.

        `older`: the retained checkpoints before it, oldest first.
        """
        # Numbers continue: they are part of file names, which must differ from those of the checkpoint.
        self._last_id = max(self._last_id, manifest.checkpoint_id)
        if manifest.job_id == self._job.job_id and (not manifest.savepoint or self._job.epoch > 1):
            self._completed.start_from(manifest, older)

    def plan_changed(self, compiled_plan: str) -> None:
        """Let later checkpoints contain this plan of SQL statements: the job has been updated."""
        self._job = self._job._replace(compiled_plan=compiled_plan)

    def tasks_began(
        self, attempt: int, vertices: Sequence[CheckpointVertex], enumerator_states: EnumeratorStates, now_ms: int
    ) -> None:
        """Begin to trigger checkpoints: all tasks of `vertices` run. `attempt`: their highest attempt number."""
        self._plan = CheckpointPlan.of(attempt, vertices)
        self._enumerator_states = enumerator_states
        self._running = True
        self._tolerance.reset()
        self._schedule.tasks_began(now_ms)

    def tasks_ended(self, vertices: Sequence[CheckpointVertex], now_ms: int) -> None:
        """Handle the end of the tasks of `vertices`. No checkpoint begins until all tasks run again.

        Aborts pending checkpoints, also at the tasks that still run. Discards what the sinks of these vertices prepared
        since the last checkpoint, and carries what other sinks prepared to the next one. Must not be called while a
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
            # A savepoint that the user received still names what was prepared until then.
            if number <= self._savepoints.newest_id or self._storage.is_fenced:
                continue
            if number <= self._uncertain_id:
                self._uncertain.append(committables)
            else:
                self._ledger.abort(committables)
        if not self._plan.tasks:
            self._savepoints.no_task_left()
        self._completed.tasks_ended([vertex.id for vertex in vertices], any_left=bool(self._plan.tasks))

    def abort_uncertain(self) -> None:
        """Abort the committables of uncertain checkpoints: no run will start from these checkpoints.

        Called when a later checkpoint is stored, or when the job ends without retaining checkpoints.
        """
        self._uncertain_id = 0
        while self._uncertain:
            self._ledger.abort(self._uncertain.pop(0))

    def commit_again(self, manifest: Manifest, vertices: Sequence[CheckpointVertex]) -> None:
        """Commit again what this checkpoint names: `vertices` are restored from it, and some commits may be missing."""
        sinks = {state_id: sink for vertex in vertices for sink, state_id in vertex.sinks.items()}
        self._ledger.restored(manifest, sinks)

    @property
    def stopped(self) -> bool:
        """Whether a savepoint with which the job stops is stored."""
        return self._end.stopped

    # Checkpoints begin.

    @property
    def pending(self) -> list[PendingCheckpoint]:
        """The pending checkpoints, oldest first."""
        return list(self._pending.values())

    @property
    def under_way(self) -> list[int]:
        """The numbers of the pending checkpoints."""
        return list(self._pending)

    @property
    def _is_open(self) -> bool:
        """Whether checkpoints may begin and be stored.

        They may not after the savepoint with which the job stops: a job that is restored from a later checkpoint would
        repeat what was committed with the savepoint. They may not in a run that was taken over: it must not use the
        storage.
        """
        return self._running and not self.stopped and not self._storage.is_fenced

    def take_error(self) -> CheckpointError | None:
        """Return `error` and clear it."""
        error, self.error = self.error, None
        return error

    @property
    def is_storing(self) -> bool:
        """Whether a manifest is being stored."""
        return any(pending.is_being_stored for pending in self._pending.values())

    @property
    def request_waits(self) -> bool:
        """Whether a request waits or a savepoint is pending: periodic checkpoints wait until it is done."""
        return bool(self._requests) or any(pending.savepoint for pending in self._pending.values())

    def tick(self, now_ms: int, may_begin: bool = True) -> None:
        """Abort expired checkpoints and trigger a periodic one if it is due.

        `may_begin`: whether a periodic checkpoint may begin; False when the job is about to end.
        """
        for pending in list(self._pending.values()):
            if not pending.is_being_stored and now_ms - pending.triggered_ms >= self.timeout_ms:
                self._abort(pending, CheckpointFailureReason.EXPIRED, f"{self.timeout_ms} ms", now_ms)
        if not may_begin or not self._is_open:
            return
        if self._schedule.start_if_due(now_ms, len(self._pending), self.request_waits):
            self.trigger(now_ms)

    def wake_at_ms(self, may_begin: bool) -> int | None:
        """Return when `tick` is to be called next (ms) if nothing else happens, or None."""
        times = [p.triggered_ms + self.timeout_ms for p in self._pending.values() if not p.is_being_stored]
        starts_ms = self._schedule.starts_ms(len(self._pending), self.request_waits)
        if may_begin and self._is_open and starts_ms is not None:
            times.append(starts_ms)
        return min(times, default=None)

    def request(self, request: CheckpointRequest, now_ms: int) -> None:
        """Trigger this checkpoint as soon as no other one is pending."""
        self._requests.add(request)
        self._begin_requested(now_ms)

    def trigger(self, now_ms: int, request: CheckpointRequest | None = None) -> int | None:
        """Trigger a checkpoint now. Returns its number, or None if the snapshot of an enumerator fails."""
        assert self._running, "no attempt is running"
        request = request or CheckpointRequest()
        states = self._enumerator_states()
        if states is None:
            request.then(CheckpointFailureReason.TRIGGER_FAILED.error())
            return None
        self._last_id += 1
        checkpoint_id = self._last_id
        self._pending[checkpoint_id] = PendingCheckpoint(
            checkpoint_id, now_ms, enumerators=states, plan=self._plan, request=request
        )
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

    # Reports of tasks.

    def acknowledged(
        self, task: SubtaskId, checkpoint_id: int, state: SubtaskState, commits: Commits, now_ms: int
    ) -> None:
        """Handle the acknowledgement of a task. `commits`: what the next completed checkpoint commits, by sink."""
        prepared = [Committables(sink, task[1], values) for sink, values in commits]
        if task not in self._plan.tasks:
            # The attempt has ended: the next one writes the same output again.
            for committables in prepared:
                self._ledger.abort(committables)
            return
        # Also if the checkpoint was aborted: the task's next increment builds on these files.
        if not self._savepoints.includes(checkpoint_id):
            self._completed.acknowledged(task, files_of(state.operators.values()))
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            # Aborted in the meantime: the next checkpoint that completes commits what was prepared.
            self._ledger.carry([(checkpoint_id, committables) for committables in prepared])
            return
        pending.acknowledge(task, state, prepared)
        self._store_next(now_ms)

    def declined(self, task: SubtaskId, checkpoint_id: int, reason: DeclineReason, detail: str, now_ms: int) -> None:
        """Handle a decline: abort the checkpoint, unless its manifest is being stored."""
        detail = f"{self._plan.name_of(task)} declined: {detail or 'a newer checkpoint reached it first'}"
        pending = self._pending.get(checkpoint_id)
        if pending is not None and not pending.is_being_stored:
            self._abort(pending, REASONS_OF_DECLINE[reason], detail, now_ms)

    # Reports of the host.

    def storage_ended(self, operation: int, error: str, now_ms: int, fenced: bool = False) -> None:
        """Handle the end of a storage operation. `error`: empty on success. `fenced`: another run holds the job."""
        if self._storage.ended(operation, error, now_ms, fenced):
            self._store_next(now_ms)

    def committed(self, operation: int) -> None:
        """Handle the end of a commit. A commit that was requested before the last restore changes nothing."""
        self._ledger.done(operation)

    def sink_of_open_commit(self, operation: int) -> int | None:
        """Return the sink of an open commit. None: the commit is done, or its sink was restored since."""
        return self._ledger.sink_of_open_commit(operation)

    @property
    def has_open_commits(self) -> bool:
        """Whether the host still has commits to do."""
        return self._ledger.has_open

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call `call` when no commit is open. If a commit fails, its attempt fails with it, and `call` is dropped."""
        self._ledger.when_all_done(call)

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call `call` when no checkpoint is pending or requested. If tasks end before, `call` is dropped."""
        if self._pending or self._requests:
            self._requests.when_settled(call)
        else:
            call()

    def take_carried(self) -> list[Committables]:
        """Remove and return what sinks prepared for aborted checkpoints; no later checkpoint commits it."""
        return [committables for _, committables in in_checkpoint_order(self._ledger.take_carried(self._last_id))]

    # Checkpoints end.

    def _store_next(self, now_ms: int) -> None:
        """Store the oldest checkpoint that all tasks acknowledged.

        One at a time: the next manifest names the commits that are open when it is written.
        """
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
                # The next checkpoint that completes commits it.
                self._uncertain_id = pending.checkpoint_id
                self._ledger.carry(named)
                pending.named = None
                self._abort(pending, CheckpointFailureReason.MANIFEST_NOT_STORED, error, now_ms)
            elif pending.savepoint:
                self._savepoint_stored(pending, manifest, now_ms)
            else:
                self._checkpoint_stored(pending, manifest, now_ms)

        options = pending.request.options
        effect = StoreManifest(self._storage.next_number(), manifest, options, self._savepoints.commits(options))
        self._storage.request(effect, stored)

    def _take_prepared(self, pending: PendingCheckpoint) -> list[NumberedCommittables]:
        """Remove and return what sinks prepared up to this checkpoint, in order, aborted checkpoints included."""
        prepared = self._ledger.take_carried(pending.checkpoint_id)
        # Includes older checkpoints that are still pending: this one subsumes them, since their barriers came before.
        for other in self._pending.values():
            if other.checkpoint_id <= pending.checkpoint_id:
                prepared += other.take_prepared()
        return in_checkpoint_order(prepared)

    def _savepoint_stored(self, pending: PendingCheckpoint, manifest: Manifest, now_ms: int) -> None:
        del self._pending[pending.checkpoint_id]
        self.history.completed(pending, manifest)
        # As in Flink: the pause leaves the job some time for its records.
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
        self.abort_uncertain()
        self._tolerance.reset()
        self._completed.add(manifest)
        self.history.completed(pending, manifest)
        self._schedule.completed(now_ms)
        self._commit(pending)
        # After the commits were requested: deleting many files may take the storage long.
        self._completed.delete_subsumed(other.files() for other in self._pending.values())
        pending.request.then(manifest)
        self._begin_requested(now_ms)

    def _commit(self, pending: PendingCheckpoint) -> None:
        assert pending.named is not None
        self.committed_id = pending.checkpoint_id
        for _, committables in pending.named:
            self._ledger.request_commit(committables)
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
