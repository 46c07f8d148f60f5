"""The checkpoint coordinator: when a checkpoint begins, who has taken part, and when it is complete or given up.

    trigger        sources are told; the enumerators' state is taken in the same moment, so that what they assign from
                   here on comes after the barrier
    acknowledged   by all tasks: the manifest is written, sinks commit, older checkpoints are subsumed
    declined, timed out, superseded by a newer one that is complete: given up, the job goes on

Savepoints go the same way, but wait until no checkpoint is under way, hold the others back, and belong to whoever asked
for them: the job does not go back to one, so nothing is committed with it, unless the job stops there.

What sinks have prepared for a checkpoint that is given up is committed with the next one that completes. A state
machine without I/O: time is handed in, files are the storage's, messages go out by `deliver`. Source: Flink docs,
"Checkpointing"; State Management paper, 3.2.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from penstock.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, SubtaskReport, packed, unpacked
from penstock.common.errors import CheckpointError
from penstock.runtime.task.events import AbortCheckpoint, CheckpointComplete, Event, TriggerCheckpoint
from penstock.state.handles import SubtaskState, files_of

_HISTORY = 100

Subtask = tuple[int, int]
Commit = tuple[int, int, list[Any]]
"""sink, subtask, committables"""
CommitCall = Callable[[int, int, list[Any], Callable[[], None], bool], None]
"""Commits, perhaps some time later: sink, subtask, committables, what is to be called when it is done, and whether the
job has gone back to the checkpoint that names them."""


@dataclasses.dataclass(frozen=True)
class CheckpointSettings:
    """Times in milliseconds. `interval_ms` None: only what is asked for is taken."""

    interval_ms: int | None = None
    timeout_ms: int = 600_000
    pause_ms: int = 0
    concurrent_max: int = 1
    failures_tolerated: int = 0
    retained: int = 1


@dataclasses.dataclass(frozen=True)
class VertexOutline:
    """What the coordinator knows of a vertex. `operators`: (state id, name) in the order of the chain."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    operators: list[tuple[str, str]]
    is_source: bool


class CheckpointStorage(Protocol):
    """Where manifests and files are kept. Methods raise OSError where the store fails."""

    def publish(self, manifest: Manifest) -> str:
        """Write the manifest, in one piece; returns the path by which the checkpoint is known."""

    def discard(self, manifest: Manifest) -> None:
        """Remove a manifest: the checkpoint is no more."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove state files, as far as they are there."""

    def sweep(self, checkpoints: Iterable[Manifest]) -> None:
        """Remove all that these checkpoints do not need: what workers left behind that were killed while writing."""

    def savepoint(self, directory: str) -> SavepointStorage:
        """Where a savepoint is kept."""


class SavepointStorage(Protocol):
    """Where one savepoint is kept. `publish` raises OSError where the store fails."""

    def publish(self, manifest: Manifest) -> str:
        """Write the manifest, in one piece; returns the path by which the savepoint is known."""

    def remove(self) -> None:
        """It was given up."""


Outcome = Manifest | CheckpointError
"""What has become of a checkpoint that was asked for."""


class Wanted(NamedTuple):
    """A checkpoint that was asked for, or a savepoint: `savepoint` is its directory. `stop`: the job stops there."""

    then: Callable[[Outcome], None]
    savepoint: str = ""
    stop: bool = False
    full: bool = False


class CheckpointReport:
    """What people want to know of a completed checkpoint. Times in milliseconds, sizes in bytes."""

    def __init__(self, manifest: Manifest) -> None:
        figures = [report.figures for report in manifest.subtasks]
        self.checkpoint_id = manifest.checkpoint_id
        self.triggered_ms = manifest.triggered_ms
        self.duration_ms = manifest.completed_ms - manifest.triggered_ms
        self.alignment_ms = max(one.alignment_ms for one in figures)
        self.sync_ms = max(one.sync_ms for one in figures)
        self.async_ms = max(one.async_ms for one in figures)
        self.written_bytes = sum(one.written for one in figures)
        self.total_bytes = sum(one.total for one in figures)
        self.subtasks = manifest.subtasks


class Pending:
    """A checkpoint under way."""

    def __init__(
        self, checkpoint_id: int, now_ms: int, enumerators: dict[str, str], missing: set[Subtask], wanted: Wanted
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.wanted = wanted
        self.triggered_ms = now_ms
        self.enumerators = enumerators
        self.missing = missing
        self.states: dict[Subtask, SubtaskState] = {}
        self.commits: list[Commit] = []


class CheckpointCoordinator:
    """Of one job, through all its attempts: `attempt_began` and `attempt_ended` tell which one counts."""

    def __init__(
        self,
        job_id: str,
        job_name: str,
        vertices: list[VertexOutline],
        settings: CheckpointSettings,
        storage: CheckpointStorage,
        now_ms: Callable[[], int],
        commit: CommitCall,
        abort: Callable[[int, int, list[Any]], None],
        sink_ids: dict[int, str],
    ) -> None:
        self.settings = settings
        self.completed: list[Manifest] = []
        self.history: deque[CheckpointReport] = deque(maxlen=_HISTORY)
        """The newest completed checkpoints, oldest first, also those that have been dropped since."""
        self._job_id = job_id
        self._job_name = job_name
        self._vertices = {vertex.id: vertex for vertex in vertices}
        self._storage = storage
        self._now_ms = now_ms
        self._commit = commit
        self._abort = abort
        self._sink_ids = sink_ids
        self._tasks = {(v.id, subtask) for v in vertices for subtask in range(v.parallelism)}
        self._sources = [(v.id, subtask) for v in vertices if v.is_source for subtask in range(v.parallelism)]
        self._pending: dict[int, Pending] = {}
        self._wanted: deque[Wanted] = deque()
        self._savepoints: set[int] = set()
        self._saved_id = 0
        """The newest savepoint that is complete."""
        self._last_id = 0
        self.committed_id = 0
        """The newest checkpoint that counts: what came before it has been committed."""
        self._next_at_ms: int | None = None
        self.stopped = False
        """Whether a savepoint with which the job stops is complete: what it holds is committed, so nobody may go back
        to a checkpoint before it."""
        self._failures = 0
        self._carried: list[tuple[int, Commit]] = []
        """What was prepared for checkpoints that were given up, with their numbers."""
        self._undone: dict[int, Commit] = {}
        """What has been given out to be committed, and has not been yet: until then each manifest has to hold it."""
        self._given_out = 0
        self._when_committed: list[Callable[[], None]] = []
        self._latest: dict[Subtask, set[str]] = {}
        self._known: set[str] = set()
        self._attempt = 0
        self._running = False
        self._deliver: Callable[[int, int, Event], None] = lambda vertex, subtask, event: None
        self._enumerator_states: Callable[[], dict[str, Any]] = dict
        self.error: CheckpointError | None = None
        """Set when more checkpoints have failed, one after the other, than are tolerated."""

    # The life of attempts.

    def start_from(self, manifest: Manifest) -> None:
        """The job goes on from this checkpoint, which is not its own to remove unless it is of this job."""
        self._last_id = max(self._last_id, manifest.checkpoint_id)
        if manifest.job_id == self._job_id and not manifest.savepoint:
            self.completed.append(manifest)
            self._known |= manifest.files()

    def attempt_began(
        self,
        attempt: int,
        deliver: Callable[[int, int, Event], None],
        enumerator_states: Callable[[], dict[str, Any]],
    ) -> None:
        """All tasks of an attempt are running."""
        self._attempt = attempt
        self._deliver = deliver
        self._enumerator_states = enumerator_states
        self._running = True
        self._failures = 0
        if self.settings.interval_ms is not None:
            self._next_at_ms = self._now_ms() + self.settings.interval_ms

    def attempt_ended(self) -> None:
        """Its tasks are gone: what was under way is given up, and what was prepared since is not committed."""
        self._running = False
        self._next_at_ms = None
        prepared = list(self._carried)
        prepared += [(number, commit) for number, pending in self._pending.items() for commit in pending.commits]
        # A savepoint given to the user goes on naming what had been prepared by then.
        lost = [commit for number, commit in prepared if number > self._saved_id]
        waiting = [*(pending.wanted for pending in self._pending.values()), *self._wanted]
        for pending in self._pending.values():
            self._remove_savepoint(pending)
        self._pending.clear()
        self._wanted.clear()
        self._when_committed.clear()
        for wanted in waiting:
            wanted.then(CheckpointError("the job ended, or failed, before the snapshot was complete"))
        for commit in lost:
            self._abort(*commit)
        self._carried.clear()
        self._latest.clear()
        self._known = set().union(*(manifest.files() for manifest in self.completed))
        # What can't be removed now stays: the job has other worries.
        with contextlib.suppress(OSError):
            self._storage.sweep(self.completed)

    def drop_all(self) -> None:
        """The job has ended, and nobody wants its checkpoints."""
        self.completed.clear()
        with contextlib.suppress(OSError):
            self._storage.sweep([])

    def fall_back(self) -> bool:
        """The newest checkpoint can't be read: go back to the one before. False: there is none."""
        if len(self.completed) < 2:
            return False
        self.completed.pop()
        return True

    @property
    def latest(self) -> Manifest | None:
        """The newest completed checkpoint."""
        return self.completed[-1] if self.completed else None

    # What makes checkpoints begin.

    def tick(self, may_begin: bool = True) -> None:
        """Time has passed. `may_begin`: whether a checkpoint may begin by itself; the job may be about to end."""
        now_ms = self._now_ms()
        for pending in list(self._pending.values()):
            if now_ms - pending.triggered_ms >= self.settings.timeout_ms:
                self._give_up(pending, f"it took longer than {self.settings.timeout_ms} ms")
        due = self._next_at_ms is not None and now_ms >= self._next_at_ms
        free = len(self._pending) < self.settings.concurrent_max and not self.savepoint_awaited
        if due and may_begin and self._running and free:
            assert self.settings.interval_ms is not None
            self._next_at_ms = now_ms + self.settings.interval_ms
            self.trigger()

    def ask(self, wanted: Wanted) -> None:
        """Take this one as soon as nothing else is under way."""
        self._wanted.append(wanted)
        self._begin_wanted()

    def trigger(self, wanted: Wanted | None = None) -> int:
        """Begin a checkpoint now. Returns its number."""
        wanted = wanted or Wanted(lambda outcome: None)
        assert self._running, "no attempt is running"
        self._last_id += 1
        checkpoint_id = self._last_id
        states = {state_id: packed(state) for state_id, state in self._enumerator_states().items()}
        pending = Pending(checkpoint_id, self._now_ms(), states, set(self._tasks), wanted)
        self._pending[checkpoint_id] = pending
        if wanted.savepoint:
            self._savepoints.add(checkpoint_id)
        trigger = TriggerCheckpoint(checkpoint_id, pending.triggered_ms, wanted.full, wanted.savepoint, wanted.stop)
        for vertex, subtask in self._sources:
            self._deliver(vertex, subtask, trigger)
        return checkpoint_id

    def _begin_wanted(self) -> None:
        if self._wanted and self._running and not self._pending:
            self.trigger(self._wanted.popleft())

    @property
    def savepoint_awaited(self) -> bool:
        """Whether somebody waits for a savepoint: no checkpoint is to begin before it is complete."""
        return bool(self._wanted) or any(pending.wanted.savepoint for pending in self._pending.values())

    # What tasks tell.

    def acknowledged(
        self, task: Subtask, checkpoint_id: int, state: SubtaskState, commits: list[tuple[int, list[Any]]]
    ) -> None:
        """A task has taken its part."""
        if not self._running:
            # Its attempt has ended: the next one does again what this was for.
            for sink, committables in commits:
                self._abort(sink, task[1], committables)
            return
        if checkpoint_id not in self._savepoints:
            files = files_of(state.operators.values())
            self._known |= files
            self._latest[task] = files
        prepared: list[Commit] = [(sink, task[1], committables) for sink, committables in commits]
        pending = self._pending.get(checkpoint_id)
        if pending is None:
            # Given up in the meantime. What was prepared is committed with the next one that completes.
            self._carried += [(checkpoint_id, commit) for commit in prepared]
            return
        if task not in pending.missing:
            return
        pending.missing.discard(task)
        pending.states[task] = state
        pending.commits += prepared
        if not pending.missing:
            self._complete(pending)

    def declined(self, task: Subtask, checkpoint_id: int, reason: str) -> None:
        """A task cannot take part."""
        self.abort(checkpoint_id, f"{self._vertices[task[0]].name} ({task[1] + 1}) declined: {reason}")

    def abort(self, checkpoint_id: int, reason: str) -> None:
        """Give a checkpoint up, if it is under way."""
        pending = self._pending.get(checkpoint_id)
        if pending is not None:
            self._give_up(pending, reason)

    # How checkpoints end.

    def _complete(self, pending: Pending) -> None:
        commits = self._commits_up_to(pending)
        manifest = self._manifest(pending, [*self._undone.values(), *commits])
        savepoint = pending.wanted.savepoint
        try:
            (self._storage.savepoint(savepoint) if savepoint else self._storage).publish(manifest)
        except (OSError, CheckpointError) as error:
            self._give_up(pending, f"its manifest could not be written: {error}")
            return
        if savepoint:
            self._savepoint_complete(pending, manifest, commits)
        else:
            self._checkpoint_complete(pending, manifest, commits)
        self._begin_wanted()

    def _savepoint_complete(self, pending: Pending, manifest: Manifest, commits: list[Commit]) -> None:
        del self._pending[pending.checkpoint_id]
        self._saved_id = pending.checkpoint_id
        self.stopped = self.stopped or pending.wanted.stop
        if pending.wanted.stop:
            # Before anything is committed: whoever looked for the latest checkpoint would go back behind it.
            self.drop_all()
        if pending.wanted.stop or self.settings.interval_ms is None:
            # The job goes back to nothing that was before.
            self._carried.clear()
            self._commit_all(pending, commits)
        else:
            self._carried += [(pending.checkpoint_id, commit) for commit in pending.commits]
        pending.wanted.then(manifest)

    def _commit_all(self, pending: Pending, commits: list[Commit]) -> None:
        self.committed_id = pending.checkpoint_id
        for commit in commits:
            self._give_out(commit)
        self._tell_all(CheckpointComplete(pending.checkpoint_id))

    def _give_out(self, commit: Commit, again: bool = False) -> None:
        self._given_out += 1
        number = self._given_out
        self._undone[number] = commit
        self._commit(*commit, lambda: self._done(number), again)

    def _done(self, number: int) -> None:
        self._undone.pop(number, None)
        if not self._undone:
            calls, self._when_committed = self._when_committed, []
            for call in calls:
                call()

    def when_committed(self, call: Callable[[], None]) -> None:
        """Call it when all is committed that was to be. If a commit fails the attempt does, and it is not called."""
        if self._undone:
            self._when_committed.append(call)
        else:
            call()

    def commit_again(self, manifest: Manifest) -> None:
        """The job goes back to this checkpoint: perhaps not all of its commits were done. Commits are idempotent."""
        self._undone.clear()
        sinks = {state_id: sink for sink, state_id in self._sink_ids.items()}
        for state_id, packed_commits in manifest.commits.items():
            if state_id in sinks:
                for packed_commit in packed_commits:
                    self._give_out((sinks[state_id], *unpacked(packed_commit)), again=True)

    def _checkpoint_complete(self, pending: Pending, manifest: Manifest, commits: list[Commit]) -> None:
        for older in self._older(pending):
            # Subsumed: this one holds all that it would have held.
            del self._pending[older.checkpoint_id]
            self._tell_all(AbortCheckpoint(older.checkpoint_id))
            older.wanted.then(CheckpointError(f"checkpoint {pending.checkpoint_id} was complete before it"))
        del self._pending[pending.checkpoint_id]
        self._carried = [(number, commit) for number, commit in self._carried if number > pending.checkpoint_id]
        self._failures = 0
        self.completed.append(manifest)
        self.history.append(CheckpointReport(manifest))
        if self._next_at_ms is not None:
            self._next_at_ms = max(self._next_at_ms, self._now_ms() + self.settings.pause_ms)
        self._commit_all(pending, commits)
        while len(self.completed) > self.settings.retained:
            # What can't be removed stays: the checkpoint counts.
            with contextlib.suppress(OSError):
                self._storage.discard(self.completed.pop(0))
        self._collect_garbage()
        pending.wanted.then(manifest)

    def _commits_up_to(self, pending: Pending) -> list[Commit]:
        """What sinks have prepared until this checkpoint, in order, also for earlier ones that never completed."""
        numbered = list(self._carried)
        for other in self._pending.values():
            numbered += [(other.checkpoint_id, commit) for commit in other.commits]
        numbered.sort(key=lambda item: item[0])
        return [commit for number, commit in numbered if number <= pending.checkpoint_id]

    def _older(self, pending: Pending) -> list[Pending]:
        return [other for other in self._pending.values() if other.checkpoint_id < pending.checkpoint_id]

    def _give_up(self, pending: Pending, reason: str) -> None:
        del self._pending[pending.checkpoint_id]
        self._carried += [(pending.checkpoint_id, commit) for commit in pending.commits]
        self._tell_all(AbortCheckpoint(pending.checkpoint_id))
        if pending.wanted.savepoint:
            # Whoever asked for it is told; the job does not depend on it.
            self._remove_savepoint(pending)
        else:
            self._count_failure(pending, reason)
        pending.wanted.then(CheckpointError(reason))
        self._begin_wanted()

    def _remove_savepoint(self, pending: Pending) -> None:
        if pending.wanted.savepoint:
            # Perhaps nothing opens the place where it was to go, and it was given up for that.
            with contextlib.suppress(OSError, CheckpointError):
                self._storage.savepoint(pending.wanted.savepoint).remove()

    def _count_failure(self, pending: Pending, reason: str) -> None:
        self._failures += 1
        if self._failures > self.settings.failures_tolerated and self.error is None:
            self.error = CheckpointError(
                f"checkpoint {pending.checkpoint_id} failed: {reason}. {self._failures} in a row are more than "
                f"execution.checkpointing.tolerable-failed-checkpoints ({self.settings.failures_tolerated}) allows"
            )

    def _tell_all(self, event: Event) -> None:
        for vertex, subtask in sorted(self._tasks):
            self._deliver(vertex, subtask, event)

    def _manifest(self, pending: Pending, commits: list[Commit]) -> Manifest:
        operators = []
        reports = []
        for vertex in self._vertices.values():
            states = [pending.states[vertex.id, subtask] for subtask in range(vertex.parallelism)]
            for subtask, state in enumerate(states):
                reports.append(SubtaskReport(vertex.name, subtask, state.ended, state.figures))
            for state_id, name in vertex.operators:
                parts = [
                    SubtaskPart(subtask, state.operators[state_id])
                    for subtask, state in enumerate(states)
                    if state_id in state.operators
                ]
                if parts:
                    operators.append(OperatorPart(state_id, name, vertex.parallelism, vertex.max_parallelism, parts))
        by_sink: dict[str, list[str]] = {}
        for sink, subtask, committables in commits:
            by_sink.setdefault(self._sink_ids[sink], []).append(packed((subtask, committables)))
        return Manifest(
            self._job_id,
            self._job_name,
            pending.checkpoint_id,
            self._attempt,
            pending.triggered_ms,
            self._now_ms(),
            operators,
            reports,
            pending.enumerators,
            by_sink,
            savepoint=bool(pending.wanted.savepoint),
        )

    def _collect_garbage(self) -> None:
        """Files that no checkpoint refers to, and none can refer to any more."""
        live = set().union(*(manifest.files() for manifest in self.completed), *self._latest.values())
        for pending in self._pending.values():
            live.update(*(files_of(state.operators.values()) for state in pending.states.values()))
        garbage = self._known - live
        if garbage:
            self._storage.remove(sorted(garbage))
            self._known &= live
