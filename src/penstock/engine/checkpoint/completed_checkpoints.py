"""The completed checkpoints of a job: which are retained, what it is restored from, and what is deleted of the others.

Nothing is deleted while something may still refer to it:

    manifests before files     a manifest that exists must never name a file that is deleted
    files only of no chain     an incremental checkpoint builds on files of those before it (retention.py)
    sweeps without any task    what workers that were killed have written is known to none

Source: Flink's CompletedCheckpointStore.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.engine.checkpoint.effects import DeleteFiles, DiscardCheckpoint, RetainOnly, StoreManifest
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.retention import FallBack, Retention
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.ids import SubtaskId


class CompletedCheckpoints:
    """Of one job, through all its attempts."""

    def __init__(self, storage: StorageRequests, retained_max: int) -> None:
        self._storage = storage
        self._retained_max = retained_max
        self._retention = Retention(retained_max)
        self._subsumed: list[Manifest] = []
        """Retained no more, and not deleted yet."""
        self._has_own = False
        """Whether this run of the job has made one."""

    @property
    def retained(self) -> list[Manifest]:
        """Those that are retained, oldest first."""
        return list(self._retention.completed)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of those that are retained."""
        return self._retention.numbers

    @property
    def newest(self) -> Manifest | None:
        """What the job goes on from after a failure: the newest checkpoint, or savepoint that it has committed."""
        return self._retention.newest

    @property
    def are_former(self) -> bool:
        """Whether another run of the job has left them, and this one has not gone beyond them."""
        return self.newest is not None and not self._has_own

    def start_from(self, manifest: Manifest, older: Sequence[Manifest]) -> None:
        """The job goes on from a checkpoint, or savepoint, of its own. `older`: the checkpoints before it."""
        # A savepoint that the job has committed takes the place of all checkpoints before it.
        retained = [] if manifest.savepoint else [*older, manifest][-self._retained_max :]
        for one in retained:
            self._retention.adopt(one)
        self._storage.ask(RetainOnly(self._storage.number(), retained, former_only=True))

    def acknowledged(self, task: SubtaskId, files: set[str]) -> None:
        """A task's next incremental snapshot builds on these files."""
        self._retention.acknowledged(task, files)

    def add(self, manifest: Manifest) -> None:
        """A checkpoint is complete: its manifest is stored."""
        self._has_own = True
        self._subsumed += self._retention.add(manifest)

    def saved(self, manifest: Manifest) -> None:
        """Output is committed with this savepoint, whose paths are whole: it takes the place of those before it."""
        self._has_own = True
        self._retention.saved = manifest

    def delete_subsumed(self, pending_files: Iterable[set[str]]) -> None:
        """Delete what is retained no more, but for files that pending checkpoints refer to."""
        subsumed, self._subsumed = self._subsumed, []
        for manifest in subsumed:
            self._storage.ask(DiscardCheckpoint(self._storage.number(), manifest))
        garbage = self._retention.garbage(pending_files)
        if garbage:
            self._storage.ask(DeleteFiles(self._storage.number(), garbage))

    def tasks_ended(self, vertices: Iterable[int], any_left: bool) -> None:
        """The tasks of these vertices are gone. `any_left`: whether other tasks of the job still write."""
        self._retention.tasks_ended(set(vertices))
        if not any_left:
            self._retention.swept()
            self._storage.ask(RetainOnly(self._storage.number(), self.retained))

    @property
    def possible_fall_back(self) -> FallBack | None:
        """What it means to go on from the checkpoint before the newest one. None: there is none."""
        return self._retention.fall_back

    def fall_back(self) -> None:
        """The newest checkpoint is damaged: the one before takes its place, where `possible_fall_back` is one."""
        # Published once more: a run that takes the job over must start from here, too.
        self._storage.ask(StoreManifest(self._storage.number(), self._retention.drop_latest()))

    def drop_all(self) -> None:
        """None is retained: the job has ended, or stops with a savepoint. The caller deletes them."""
        self._retention.drop_all()
