"""Which completed checkpoints are retained, and which state files nothing refers to any more.

A file stays while a retained checkpoint, a pending one, or the latest acknowledged chain of a subtask names it: an
incremental checkpoint builds on the files of those before it, also on files of checkpoints that were aborted.

Names are counted. So a checkpoint costs what it names and what it replaces, however many others are retained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import NamedTuple

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.runtime.ids import SubtaskId


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
        self._numbers: frozenset[int] | None = None
        self._chains: dict[SubtaskId, set[str]] = {}
        self._named: Counter[str] = Counter()
        """By how many retained checkpoints and chains a file is named."""
        self._known: set[str] = set()
        """Files that tasks have reported, and those of checkpoints from which the job has started."""
        self._unnamed: set[str] = set()
        """Those of them that nothing names any more."""

    @property
    def latest(self) -> Manifest | None:
        """The newest completed checkpoint."""
        return self.completed[-1] if self.completed else None

    @property
    def newest(self) -> Manifest | None:
        """What the job goes on from after a failure: what comes after it is not committed."""
        return max((m for m in (self.latest, self.saved) if m is not None), key=_number, default=None)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the retained checkpoints."""
        # Made once a checkpoint: it is asked for with each change of a task.
        if self._numbers is None:
            self._numbers = frozenset(map(_number, self.completed))
        return self._numbers

    def adopt(self, manifest: Manifest) -> None:
        """The job starts from this checkpoint of its own."""
        self._known |= manifest.files()
        self._retain(manifest)

    def acknowledged(self, task: SubtaskId, files: set[str]) -> None:
        """A task's next incremental snapshot builds on these files."""
        before = self._chains.get(task, set())
        self._chains[task] = files
        self._known |= files
        self._name(files - before)
        self._drop(before - files)

    def add(self, manifest: Manifest) -> list[Manifest]:
        """A checkpoint completed. Returns those that it subsumes, which are retained no more."""
        self._retain(manifest)
        count = max(len(self.completed) - self._retained_max, 0)
        subsumed = self.completed[:count]
        del self.completed[:count]
        self._release(subsumed)
        return subsumed

    def garbage(self, pending_files: Iterable[set[str]]) -> list[str]:
        """Files that no checkpoint refers to, and none can refer to any more. They are known no longer."""
        garbage = self._unnamed.difference(*pending_files)
        self._unnamed -= garbage
        self._known -= garbage
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
        self._release([self.completed.pop()])
        return self.completed[-1]

    def drop_all(self) -> None:
        """No checkpoint is retained."""
        released, self.completed = self.completed, []
        self._release(released)

    def tasks_ended(self, vertices: Set[int]) -> None:
        """No task of these vertices builds on its chain any more; a new attempt reports its files again."""
        for task in [task for task in self._chains if task.vertex in vertices]:
            self._drop(self._chains.pop(task))

    def swept(self) -> None:
        """No task runs, and everything that no checkpoint refers to is deleted, whether it is known or not."""
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
        """A checkpoint or a chain names these files."""
        self._named.update(files)
        self._unnamed -= files

    def _drop(self, files: Set[str]) -> None:
        """A checkpoint or a chain that has named these files is gone."""
        named = self._named
        for file in files:
            named[file] -= 1
            if not named[file]:
                del named[file]
                if file in self._known:
                    self._unnamed.add(file)


def _number(manifest: Manifest) -> int:
    return manifest.checkpoint_id
