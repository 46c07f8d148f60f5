"""The checkpoint coordinator: when a checkpoint begins, who has acknowledged, and when it completes or is aborted.

    trigger        all sources receive TriggerCheckpoint, and the state of the enumerators is taken at the same time:
                   what they assign from here on comes behind the barrier
    acknowledged   by all tasks: the manifest is stored
    stored         sinks commit, older checkpoints are subsumed, files that nothing refers to are deleted
    aborted        declined, expired, not storable or subsumed: the job goes on, and what sinks prepared is committed
                   with the next checkpoint that completes

Savepoints take the same way, one at a time with no checkpoint beside them. With a checkpoint interval the job is not
restored from one, so nothing is committed with it unless the job stops there; without one both are done.

A state machine without I/O: time is handed in, everything asked of the world is an effect (effects.py). Manifests are
stored one after the other. A checkpoint whose manifest is on its way is neither complete nor can it be aborted: only
the storage's answer shows which one it is, and a job that went on without it could commit the same output twice.

Source: Flink docs, "Checkpointing"; State Management paper, 3.2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.checkpoint.commits import CommitLedger, Committables, Numbered, in_order
from penstock.checkpoint.effects import (
    AbortCommittables,
    CheckpointEffect,
    Commit,
    DeleteFiles,
    DeleteSavepoint,
    DiscardCheckpoint,
    RetainOnly,
    SendToTask,
    StoreManifest,
)
from penstock.checkpoint.failure import OF_DECLINE, CheckpointFailureReason, FailureTolerance
from penstock.checkpoint.history import CheckpointHistory
from penstock.checkpoint.manifest import Manifest, located, unpacked
from penstock.checkpoint.pending import CheckpointRequest, JobIdentity, PendingCheckpoint
from penstock.checkpoint.recorded_end import RecordedEnd
from penstock.checkpoint.retention import Retention
from penstock.checkpoint.schedule import CheckpointSchedule, CheckpointSettings
from penstock.checkpoint.storage_requests import StorageRequests
from penstock.checkpoint.vertex import CheckpointVertex
from penstock.common.errors import CheckpointError
from penstock.runtime.decline_reason import DeclineReason
from penstock.runtime.ids import SubtaskId
from penstock.runtime.task.events import AbortCheckpoint, CheckpointComplete, ControlEvent, TriggerCheckpoint
from penstock.state.handles import SubtaskState, files_of

EnumeratorStates = Callable[[], dict[str, str] | None]
"""Takes the states of the split enumerators, packed, by state id. None: one has failed, and the attempt with it."""


class CheckpointCoordinator:
    """Of one job, through all its attempts. `emit` takes its effects, in order."""

    def __init__(
        self,
        job_id: str,
        job_name: str,
        settings: CheckpointSettings,
        emit: Callable[[CheckpointEffect], None],
        epoch: int = 1,
    ) -> None:
        self.settings = settings
        self.schedule = CheckpointSchedule(settings)
        self.retention = Retention(settings.retained)
        self.history = CheckpointHistory()
        self.committed_id = 0
        """The newest checkpoint whose output has been handed out to be committed."""
        self.error: CheckpointError | None = None
        """Set when more checkpoints in a row have failed than are tolerated."""
        self.store = StorageRequests(emit)
        self.ending = RecordedEnd(self.store, self.retention, epoch)
        self.job_id = job_id
        self._job_name = job_name
        self._epoch = epoch
        self._vertices: Sequence[CheckpointVertex] = ()
        """Of the present attempts; the next ones may have others."""
        self._tasks: set[SubtaskId] = set()
        """Those that take part in checkpoints. While a region restarts these are the tasks of the others."""
        self._sources: list[SubtaskId] = []
        self._emit = emit
        self._ledger = CommitLedger()
        self._tolerance = FailureTolerance(settings.failures_tolerated)
        self._pending: dict[int, PendingCheckpoint] = {}
        self._requests: deque[CheckpointRequest] = deque()
        self._settled: list[Callable[[], None]] = []
        """What waits until nothing is pending or requested."""
        self._savepoint_ids: set[int] = set()
        """Savepoints that some task may still acknowledge: their files are no part of a task's incremental chain."""
        self._saved_id = 0
        """The newest savepoint that is stored."""
        self._last_id = 0
        self._attempt = 0
        self._running = False
        self._enumerator_states: EnumeratorStates = dict

    # The life of tasks.

    def start_from(self, manifest: Manifest, older: Sequence[Manifest] = ()) -> None:
        """The job starts from this checkpoint. It is retained as the job's own only if this job has taken it.

        `older`: those before it that are retained, oldest first.
        """
        # Numbers continue: files are named by them, and must not meet those of the checkpoint.
        self._last_id = max(self._last_id, manifest.checkpoint_id)
        if manifest.job_id == self.job_id and (not manifest.savepoint or self._epoch > 1):
            # A savepoint that the job has committed takes the place of all checkpoints before it.
            retained = [] if manifest.savepoint else [*older, manifest][-self.settings.retained :]
            for one in retained:
                self.retention.adopt(one)
            self.store.ask(RetainOnly(self.store.number(), retained, former_only=True))

    def tasks_began(
        self, attempt: int, vertices: Sequence[CheckpointVertex], enumerator_states: EnumeratorStates, now_ms: int
    ) -> None:
        """All tasks of the job are running: those of `vertices`. `attempt`: the highest number of theirs."""
        self._attempt = attempt
        self._vertices = vertices
        self._tasks = {SubtaskId(v.id, subtask) for v in vertices for subtask in range(v.parallelism)}
        self._sources = [SubtaskId(v.id, subtask) for v in vertices if v.is_source for subtask in range(v.parallelism)]
        self._enumerator_states = enumerator_states
        self._running = True
        self._tolerance.reset()
        self.schedule.tasks_began(now_ms)

    def tasks_ended(self, vertices: Sequence[CheckpointVertex], now_ms: int) -> None:
        """The tasks of `vertices` are gone. No checkpoint begins until all tasks run again.

        Pending ones are aborted, also at the tasks that still run. What the sinks of these vertices prepared since the
        last one is discarded; what other sinks prepared is carried to the next checkpoint. Must not be called while a
        manifest is being stored: see `is_storing`.
        """
        assert not self.is_storing
        self._running = False
        self.schedule.tasks_ended()
        gone = {vertex.id for vertex in vertices}
        self._tasks = {task for task in self._tasks if task.vertex not in gone}
        for pending in self._pending.values():
            self._ledger.carry(pending.take_prepared())
        prepared = self._ledger.drop_carried({sink for vertex in vertices for sink in vertex.sinks})
        waiting = [*(pending.request for pending in self._pending.values()), *self._requests]
        for pending in self._pending.values():
            self._send_to_all(AbortCheckpoint(pending.checkpoint_id))
            if pending.savepoint:
                self.store.ask(DeleteSavepoint(self.store.number(), pending.savepoint))
            self.history.failed(pending, CheckpointFailureReason.ATTEMPT_ENDED, "", now_ms)
        self._pending.clear()
        self._requests.clear()
        self._ledger.tasks_ended()
        self._settled.clear()
        for request in waiting:
            request.then(CheckpointFailureReason.ATTEMPT_ENDED.error())
        for number, committables in prepared:
            # A savepoint that was handed to the user goes on naming what had been prepared by then.
            if number > self._saved_id and not self.store.fenced:
                self._emit(AbortCommittables(*committables))
        self.retention.tasks_ended(gone)
        if not self._tasks:
            self._savepoint_ids.clear()
            self.retention.swept()
            # Only while no task of the job writes.
            self.store.ask(RetainOnly(self.store.number(), list(self.retention.completed)))

    def commit_again(self, manifest: Manifest, vertices: Sequence[CheckpointVertex]) -> None:
        """`vertices` are restored from this checkpoint: perhaps not all its commits were done. They are idempotent.

        Commits of other vertices' sinks stay as they are.
        """
        sinks = {state_id: sink for vertex in vertices for sink, state_id in vertex.sinks.items()}
        self._ledger.forget_open(set(sinks.values()))
        for state_id, packed_commits in manifest.commits.items():
            if state_id in sinks:
                for packed_commit in packed_commits:
                    self._hand_out(Committables(sinks[state_id], *unpacked(packed_commit)), again=True)

    def fall_back(self) -> bool:
        """The newest checkpoint is damaged: the one before takes its place. False if there is none."""
        if not self.retention.drop_latest():
            return False
        assert self.retention.latest is not None
        # Published once more: a run that takes the job over must start from here, too.
        self.store.ask(StoreManifest(self.store.number(), self.retention.latest))
        return True

    @property
    def stopped(self) -> bool:
        """Whether a savepoint with which the job stops is stored."""
        return self.ending.stopped

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
        return self._running and not self.stopped and not self.store.fenced

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
            if not pending.is_being_stored and now_ms - pending.triggered_ms >= self.settings.timeout_ms:
                self._abort(pending, CheckpointFailureReason.EXPIRED, f"{self.settings.timeout_ms} ms", now_ms)
        if not may_begin or not self._is_open:
            return
        if self.schedule.take(now_ms, len(self._pending), self.request_waits):
            self.trigger(now_ms)

    def wake_at_ms(self, may_begin: bool) -> int | None:
        """When `tick` has something to do if nothing else happens."""
        times = [p.triggered_ms + self.settings.timeout_ms for p in self._pending.values() if not p.is_being_stored]
        begins_ms = self.schedule.begins_ms(len(self._pending), self.request_waits)
        if may_begin and self._is_open and begins_ms is not None:
            times.append(begins_ms)
        return min(times, default=None)

    def request(self, request: CheckpointRequest, now_ms: int) -> None:
        """Take this checkpoint as soon as no other one is under way."""
        self._requests.append(request)
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
        self._pending[checkpoint_id] = PendingCheckpoint(checkpoint_id, now_ms, states, self._tasks, request)
        if request.options.savepoint:
            self._savepoint_ids.add(checkpoint_id)
        trigger = TriggerCheckpoint(checkpoint_id, now_ms, request.options)
        for vertex, subtask in self._sources:
            self._emit(SendToTask(vertex, subtask, trigger))
        return checkpoint_id

    def _begin_requested(self, now_ms: int) -> None:
        # Alone: the barriers of a savepoint and of a checkpoint would overtake each other.
        if self._requests and self._is_open and not self._pending:
            self.trigger(now_ms, self._requests.popleft())
        if not self._requests and not self._pending:
            calls, self._settled = self._settled, []
            for call in calls:
                call()

    # What tasks report.

    def acknowledged(
        self,
        task: SubtaskId,
        checkpoint_id: int,
        state: SubtaskState,
        commits: list[tuple[int, list[Any]]],
        now_ms: int,
    ) -> None:
        """A task has taken its part. `commits`: by sink, what the next completed checkpoint commits."""
        prepared = [Committables(sink, task[1], values) for sink, values in commits]
        if task not in self._tasks:
            # Its attempt has ended: the next one writes the same output again.
            for committables in prepared:
                self._emit(AbortCommittables(*committables))
            return
        # Also for a checkpoint that was aborted: the next increment of the task builds on these files.
        if checkpoint_id not in self._savepoint_ids:
            self.retention.acknowledged(task, files_of(state.operators.values()))
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            # Aborted in the meantime. What was prepared is committed with the next checkpoint that completes.
            self._ledger.carry([(checkpoint_id, committables) for committables in prepared])
            return
        pending.acknowledge(task, state, prepared)
        self._store_next(now_ms)

    def declined(self, task: SubtaskId, checkpoint_id: int, reason: DeclineReason, detail: str, now_ms: int) -> None:
        """A task cannot take part."""
        name = next(vertex.name for vertex in self._vertices if vertex.id == task[0])
        detail = f"{name} ({task[1] + 1}) declined: {detail or 'a newer checkpoint reached it first'}"
        self.abort(checkpoint_id, OF_DECLINE[reason], detail, now_ms)

    def abort(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: str, now_ms: int) -> None:
        """Abort a checkpoint, if it is under way and its manifest is not being stored yet."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None and not pending.is_being_stored:
            self._abort(pending, reason, detail, now_ms)

    # What the host reports.

    def storage_ended(self, operation: int, error: str, now_ms: int, fenced: bool = False) -> None:
        """A storage operation has ended; `error` is empty if it succeeded. `fenced`: another run holds the job."""
        if self.store.ended(operation, error, now_ms, fenced):
            self._store_next(now_ms)

    def committed(self, operation: int) -> None:
        """A commit is done. One that was handed out before the last restore changes nothing."""
        self._ledger.done(operation)

    def sink_of_open(self, operation: int) -> int | None:
        """The sink of a commit that is not done. None: it does not count any more, its sink was restored since."""
        return self._ledger.sink_of_open(operation)

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call it when no commit is open. If a commit fails its attempt fails with it, and it is not called."""
        self._ledger.when_all_done(call)

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call it when no checkpoint is pending or requested. If tasks end before, it is not called."""
        if self._pending or self._requests:
            self._settled.append(call)
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
        job = JobIdentity(self.job_id, self._job_name, self._attempt, self._epoch)
        manifest = pending.manifest(job, self._vertices, commits, now_ms)
        pending.named = named

        def stored(error: str, now_ms: int) -> None:
            if error:
                # No manifest names it now: it is committed with the next checkpoint that completes.
                self._ledger.carry(named)
                pending.named = None
                self._abort(pending, CheckpointFailureReason.MANIFEST_NOT_STORED, error, now_ms)
            elif pending.savepoint:
                self._savepoint_stored(pending, manifest, now_ms)
            else:
                self._checkpoint_stored(pending, manifest, now_ms)

        stops = pending.request.options.stop
        saves = bool(pending.savepoint) and self.settings.interval_ms is None
        self.store.ask(StoreManifest(self.store.number(), manifest, pending.savepoint, stops, saves), stored)

    def _take_prepared(self, pending: PendingCheckpoint) -> list[Numbered]:
        """What sinks have prepared until this checkpoint, in order, also for earlier ones that never completed."""
        prepared = self._ledger.take_carried(pending.checkpoint_id)
        for other in self._pending.values():
            if other.checkpoint_id <= pending.checkpoint_id:
                prepared += other.take_prepared()
        return in_order(prepared)

    def _savepoint_stored(self, pending: PendingCheckpoint, manifest: Manifest, now_ms: int) -> None:
        del self._pending[pending.checkpoint_id]
        self._saved_id = pending.checkpoint_id
        self.history.completed(pending, manifest)
        assert pending.named is not None
        if pending.request.options.stop:
            # That is recorded: if the driver dies over the commits, no job can be restored from a checkpoint before
            # them and do them a second time.
            self.ending.stops()
            self._commit(pending)
        elif self.settings.interval_ms is None:
            # On record: the job is never restored from anything before, or it would write the same output again.
            self.retention.saved = located(manifest, pending.savepoint)
            self._commit(pending)
        else:
            self._ledger.carry(pending.named)
        pending.request.then(manifest)
        self._begin_requested(now_ms)

    def _checkpoint_stored(self, pending: PendingCheckpoint, manifest: Manifest, now_ms: int) -> None:
        for older in [other for other in self._pending.values() if other.checkpoint_id < pending.checkpoint_id]:
            self._abort(older, CheckpointFailureReason.SUBSUMED, str(pending.checkpoint_id), now_ms)
        del self._pending[pending.checkpoint_id]
        self._tolerance.reset()
        subsumed = self.retention.add(manifest)
        self.history.completed(pending, manifest)
        self.schedule.completed(now_ms)
        self._commit(pending)
        # Manifests before files: one that exists must never name a file that is deleted.
        for older_manifest in subsumed:
            self.store.ask(DiscardCheckpoint(self.store.number(), older_manifest))
        garbage = self.retention.garbage(other.files() for other in self._pending.values())
        if garbage:
            self.store.ask(DeleteFiles(self.store.number(), garbage))
        pending.request.then(manifest)
        self._begin_requested(now_ms)

    def _commit(self, pending: PendingCheckpoint) -> None:
        assert pending.named is not None
        self.committed_id = pending.checkpoint_id
        for _, committables in pending.named:
            self._hand_out(committables)
        self._send_to_all(CheckpointComplete(pending.checkpoint_id))

    def _hand_out(self, committables: Committables, again: bool = False) -> None:
        operation = self.store.number()
        self._ledger.hand_out(operation, committables)
        self._emit(Commit(operation, *committables, again))

    def _abort(self, pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: str, now_ms: int) -> None:
        del self._pending[pending.checkpoint_id]
        self._ledger.carry(pending.take_prepared())
        self._send_to_all(AbortCheckpoint(pending.checkpoint_id))
        if pending.savepoint:
            self.store.ask(DeleteSavepoint(self.store.number(), pending.savepoint))
        else:
            self.error = self.error or self._tolerance.failed(pending.checkpoint_id, reason, detail)
        self.history.failed(pending, reason, detail, now_ms)
        pending.request.then(reason.error(detail))
        self._begin_requested(now_ms)

    # Effects.

    def _send_to_all(self, event: ControlEvent) -> None:
        for vertex, subtask in sorted(self._tasks):
            self._emit(SendToTask(vertex, subtask, event))
