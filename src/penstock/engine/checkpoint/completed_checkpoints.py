"""The completed checkpoints of a job: which are retained, which files are deleted, and what is recorded at its end.

Nothing is deleted while something may still refer to it:

    manifests before files     a manifest that exists must never name a file that is deleted
    files outside chains       a file stays while a retained checkpoint, a pending one, or the latest acknowledged chain
                               of a subtask names it: an incremental checkpoint builds on the files of earlier
                               checkpoints, also of aborted ones
    sweeps without tasks       a sweep deletes files of killed workers, which were never reported, so no task may write

When the job ends:

    stopped with a savepoint     the end is recorded with the savepoint itself. Checkpoints are deleted immediately,
                                 since nothing may be restored from them; the record, which names the savepoint, last
    ended, nothing is retained   the end is recorded, then everything is deleted

The end of a job that no other run can continue is not recorded: it has no checkpoint and committed no savepoint.

Source: Flink's CompletedCheckpointStore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple

from penstock.engine.checkpoint.effects import (
    DeleteFiles,
    DeleteJob,
    DiscardCheckpoint,
    RecordEnd,
    RetainOnly,
    StoreManifest,
)
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.ids import SubtaskId


class FallBack(NamedTuple):
    """A possible fallback from the newest checkpoint to the one before it."""

    latest: int
    """The number of the newest checkpoint."""
    before: int
    """The number of the checkpoint before it, which the job would restore."""
    committed: list[str]
    """State ids of the sinks whose output would be written twice, because it was committed with the newest."""


class Retention:
    """Decides which completed checkpoints are retained, and which state files are unreferenced.

    References are counted, so the cost of a checkpoint depends on the files that it names and replaces, not on the
    number of retained checkpoints.
    """

    def __init__(self, retained_max: int) -> None:
        self.completed: list[Manifest] = []
        self.savepoint: Manifest | None = None
        """The newest savepoint with which output was committed while the job continued, with absolute paths. The user
        owns it and its files: they are never deleted here."""
        self._retained_max = retained_max
        self._numbers: frozenset[int] | None = None
        self._chains: dict[SubtaskId, set[str]] = {}
        self._named: Counter[str] = Counter()
        """How many retained checkpoints and chains name each file."""
        self._known: set[str] = set()
        """Files that tasks have reported, and files of checkpoints from which the job started."""
        self._unnamed: set[str] = set()
        """Known files that no checkpoint or chain names."""

    @property
    def latest(self) -> Manifest | None:
        """The newest completed checkpoint."""
        return self.completed[-1] if self.completed else None

    @property
    def newest(self) -> Manifest | None:
        """The snapshot that a failed job restores: later output is not committed."""
        return max((m for m in (self.latest, self.savepoint) if m is not None), key=_number, default=None)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the retained checkpoints."""
        # Cached: it changes once per checkpoint and is read with each change of a task.
        if self._numbers is None:
            self._numbers = frozenset(map(_number, self.completed))
        return self._numbers

    def adopt(self, manifest: Manifest) -> None:
        """Add a checkpoint of this job from which it starts."""
        self._known |= manifest.files()
        self._retain(manifest)

    def acknowledged(self, task: SubtaskId, files: set[str]) -> None:
        """Keep these files: the next incremental snapshot of this task builds on them."""
        before = self._chains.get(task, set())
        self._chains[task] = files
        self._known |= files
        self._name(files - before)
        self._drop(before - files)

    def add(self, manifest: Manifest) -> list[Manifest]:
        """Retain a completed checkpoint. Returns the checkpoints that it subsumes, which are no longer retained."""
        self._retain(manifest)
        count = max(len(self.completed) - self._retained_max, 0)
        subsumed = self.completed[:count]
        del self.completed[:count]
        self._release(subsumed)
        return subsumed

    def garbage(self, pending_files: Iterable[set[str]]) -> list[str]:
        """Remove and return the known files that no checkpoint refers to or will refer to."""
        garbage = self._unnamed.difference(*pending_files)
        self._unnamed -= garbage
        self._known -= garbage
        return sorted(garbage)

    @property
    def fall_back(self) -> FallBack | None:
        """The fallback to the checkpoint before the newest one. None: there is no such checkpoint."""
        # The only checkpoint stays: without it the job would start from the beginning although its output is
        # committed. The same holds for a savepoint.
        if len(self.completed) < 2 or self.newest is not self.completed[-1]:
            return None
        before, latest = self.completed[-2:]
        committed = sorted(sink for sink, of_sink in latest.commits.items() if of_sink)
        return FallBack(latest.checkpoint_id, before.checkpoint_id, committed)

    def drop_latest(self) -> Manifest:
        """Drop the newest checkpoint, which is damaged. Returns the one before, which replaces it."""
        assert self.fall_back is not None
        self._release([self.completed.pop()])
        return self.completed[-1]

    def drop_all(self) -> None:
        """Retain no checkpoint."""
        released, self.completed = self.completed, []
        self._release(released)

    def tasks_ended(self, vertices: Set[int]) -> None:
        """Drop the chains of the tasks of these vertices; a new attempt reports its files again."""
        for task in [task for task in self._chains if task.vertex in vertices]:
            self._drop(self._chains.pop(task))

    def swept(self) -> None:
        """Forget all unreferenced files: a sweep deletes them, known or not, while no task runs."""
        self._known = set().union(*(manifest.files() for manifest in self.completed))
        self._unnamed.clear()

    def _retain(self, manifest: Manifest) -> None:
        self.completed.append(manifest)
        self._numbers = None
        self._name(manifest.files())

    def _release(self, manifests: Iterable[Manifest]) -> None:
        self._numbers = None
        for manifest in manifests:
            self._drop(manifest.files())

    def _name(self, files: Set[str]) -> None:
        """Count references of a checkpoint or a chain to these files."""
        self._named.update(files)
        self._unnamed -= files

    def _drop(self, files: Set[str]) -> None:
        """Remove references of a checkpoint or a chain to these files."""
        named = self._named
        for file in files:
            named[file] -= 1
            if not named[file]:
                del named[file]
                if file in self._known:
                    self._unnamed.add(file)


def _number(manifest: Manifest) -> int:
    return manifest.checkpoint_id


class CompletedCheckpoints:
    """The completed checkpoints of one job through all its attempts."""

    def __init__(self, storage: StorageRequests, retained_max: int) -> None:
        self._storage = storage
        self._retained_max = retained_max
        self._retention = Retention(retained_max)
        self._subsumed: list[Manifest] = []
        """Subsumed checkpoints that are not deleted yet."""
        self._has_own = False
        """Whether this run of the job has completed a checkpoint."""

    @property
    def retained(self) -> list[Manifest]:
        """The retained checkpoints, oldest first."""
        return list(self._retention.completed)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the retained checkpoints."""
        return self._retention.numbers

    @property
    def newest(self) -> Manifest | None:
        """The snapshot that a failed job restores: its newest checkpoint, or newer savepoint with committed output."""
        return self._retention.newest

    @property
    def are_of_earlier_run(self) -> bool:
        """Whether the newest snapshot is one of an earlier run of the job."""
        return self.newest is not None and not self._has_own

    def start_from(self, manifest: Manifest, older: Sequence[Manifest]) -> None:
        """Continue the job from a checkpoint or savepoint of its own. `older`: the checkpoints before it."""
        # A savepoint with committed output replaces all checkpoints before it.
        retained = [] if manifest.savepoint else [*older, manifest][-self._retained_max :]
        for one in retained:
            self._retention.adopt(one)
        self._storage.request(RetainOnly(self._storage.next_number(), retained, former_only=True))

    def acknowledged(self, task: SubtaskId, files: set[str]) -> None:
        """Keep these files: the next incremental snapshot of this task builds on them."""
        self._retention.acknowledged(task, files)

    def add(self, manifest: Manifest) -> None:
        """Add a checkpoint whose manifest is stored."""
        self._has_own = True
        self._subsumed += self._retention.add(manifest)

    def add_savepoint(self, manifest: Manifest) -> None:
        """Add a savepoint with committed output and absolute paths. It replaces the checkpoints before it."""
        self._has_own = True
        self._retention.savepoint = manifest

    def delete_subsumed(self, pending_files: Iterable[set[str]]) -> None:
        """Delete subsumed checkpoints, except files that pending checkpoints refer to."""
        subsumed, self._subsumed = self._subsumed, []
        for manifest in subsumed:
            self._storage.request(DiscardCheckpoint(self._storage.next_number(), manifest))
        garbage = self._retention.garbage(pending_files)
        if garbage:
            self._storage.request(DeleteFiles(self._storage.next_number(), garbage))

    def tasks_ended(self, vertices: Iterable[int], any_left: bool) -> None:
        """Handle the end of the tasks of these vertices. `any_left`: whether other tasks of the job still write."""
        self._retention.tasks_ended(set(vertices))
        if not any_left:
            self._retention.swept()
            self._storage.request(RetainOnly(self._storage.next_number(), self.retained))

    @property
    def possible_fall_back(self) -> FallBack | None:
        """The fallback to the checkpoint before the newest one. None: there is no such checkpoint."""
        return self._retention.fall_back

    def fall_back(self) -> None:
        """Replace the newest, damaged checkpoint by the one before it. Requires a `possible_fall_back`."""
        # Published again: a run that takes the job over must start from the same checkpoint.
        self._storage.request(StoreManifest(self._storage.next_number(), self._retention.drop_latest()))

    def drop_all(self) -> None:
        """Retain no checkpoint: the job has ended, or stops with a savepoint. The caller deletes them."""
        self._retention.drop_all()


class RecordedEnd:
    """The recorded end of one job. `epoch`: the epoch of this run."""

    def __init__(self, storage: StorageRequests, completed: CompletedCheckpoints, epoch: int) -> None:
        self.stopped = False
        """Whether a savepoint with which the job stops is stored. Its output is committed, so the job must not be
        restored from an earlier checkpoint."""
        self._storage = storage
        self._completed = completed
        self._epoch = epoch

    @property
    def _is_known(self) -> bool:
        """Whether another run could continue this job, because the job has something on record."""
        return self._epoch > 1 or self._completed.newest is not None

    def stops(self) -> None:
        """Delete the checkpoints: the savepoint with which the job stops is stored and recorded as its end."""
        self.stopped = True
        self._completed.drop_all()
        self._storage.request(RetainOnly(self._storage.next_number(), []))

    def end(self, status: str) -> None:
        """Record that the job has ended with this status, and delete its checkpoints."""

        def recorded(error: str, now_ms: int) -> None:
            # Recorded before the deletion: a job that is started again after a partial deletion must not repeat its
            # work. If recording fails, all checkpoints stay: a job that restores the last one ends immediately.
            if not error:
                self._delete()

        if self.stopped or not self._is_known:
            self._delete()
        else:
            self._storage.request(RecordEnd(self._storage.next_number(), status), recorded)

    def _delete(self) -> None:
        self._completed.drop_all()
        self._storage.request(DeleteJob(self._storage.next_number()))
