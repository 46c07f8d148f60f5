"""Which completed checkpoints are retained, and which state files nothing refers to any more.

A file stays while a retained checkpoint, a pending one, or the latest acknowledged chain of a subtask names it: an
incremental checkpoint builds on the files of those before it, also on files of checkpoints that were aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import NamedTuple

from penstock.checkpoint.manifest import Manifest
from penstock.runtime.ids import SubtaskId


class FallBack(NamedTuple):
    """The newest checkpoint can be dropped for the one before it."""

    latest: int
    """The number of the newest."""
    before: int
    """The number of the one before it, with which the job would go on."""
    committed: list[str]
    """The sinks, by state id, whose output would be written a second time: it was committed with the newest."""


class Retention:
    """The retained checkpoints of a job, oldest first, and the files that it knows of."""

    def __init__(self, retained_max: int) -> None:
        self.completed: list[Manifest] = []
        self.saved: Manifest | None = None
        """The newest savepoint with which output was committed though the job went on, with whole paths. It and its
        files are the user's: nothing here deletes them."""
        self._retained_max = retained_max
        self._chains: dict[SubtaskId, set[str]] = {}
        self._known: set[str] = set()

    @property
    def latest(self) -> Manifest | None:
        """The newest completed checkpoint."""
        return self.completed[-1] if self.completed else None

    @property
    def newest(self) -> Manifest | None:
        """What the job goes on from after a failure: what comes after it is not committed."""
        return max((m for m in (self.latest, self.saved) if m is not None), key=_number, default=None)

    def adopt(self, manifest: Manifest) -> None:
        """The job starts from this checkpoint of its own."""
        self.completed.append(manifest)
        self._known |= manifest.files()

    def acknowledged(self, task: SubtaskId, files: set[str]) -> None:
        """A task's next incremental snapshot builds on these files."""
        self._known |= files
        self._chains[task] = files

    def add(self, manifest: Manifest) -> list[Manifest]:
        """A checkpoint completed. Returns those that it subsumes, which are retained no more."""
        self.completed.append(manifest)
        count = max(len(self.completed) - self._retained_max, 0)
        subsumed, self.completed = self.completed[:count], self.completed[count:]
        return subsumed

    def garbage(self, pending_files: Iterable[set[str]]) -> list[str]:
        """Files that no checkpoint refers to, and none can refer to any more. They are known no longer."""
        live = set().union(*(manifest.files() for manifest in self.completed), *self._chains.values(), *pending_files)
        garbage = self._known - live
        self._known &= live
        return sorted(garbage)

    @property
    def fall_back(self) -> FallBack | None:
        """What it means to go on from the checkpoint before the newest one. None: there is none."""
        # The last one stays: without it the job would start over, though its output is committed. So with a savepoint.
        if len(self.completed) < 2 or self.newest is not self.completed[-1]:
            return None
        before, latest = self.completed[-2:]
        committed = sorted(sink for sink, of_sink in latest.commits.items() if of_sink)
        return FallBack(latest.checkpoint_id, before.checkpoint_id, committed)

    def drop_latest(self) -> Manifest:
        """The newest checkpoint is damaged: it is dropped. Returns the one before, which takes its place."""
        assert self.fall_back is not None
        self.completed.pop()
        return self.completed[-1]

    def drop_all(self) -> None:
        """No checkpoint is retained."""
        self.completed.clear()

    def tasks_ended(self, vertices: Set[int]) -> None:
        """No task of these vertices builds on its chain any more; a new attempt reports its files again."""
        self._chains = {task: files for task, files in self._chains.items() if task.vertex not in vertices}

    def swept(self) -> None:
        """No task runs, and everything that no checkpoint refers to is deleted, whether it is known or not."""
        self._known = set().union(*(manifest.files() for manifest in self.completed))


def _number(manifest: Manifest) -> int:
    return manifest.checkpoint_id
