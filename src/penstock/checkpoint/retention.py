"""Which completed checkpoints are retained, and which state files nothing refers to any more.

A file stays while a retained checkpoint, a pending one, or the latest acknowledged chain of a subtask names it: an
incremental checkpoint builds on the files of those before it, also on files of checkpoints that were aborted.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from penstock.checkpoint.manifest import Manifest
from penstock.runtime.ids import SubtaskId


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

    @property
    def committed_with_latest(self) -> list[str]:
        """The sinks, by state id, that had something to commit when the newest checkpoint was complete."""
        commits = self.latest.commits if self.latest is not None else {}
        return sorted(sink for sink, of_sink in commits.items() if of_sink)

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
    def can_fall_back(self) -> bool:
        """Whether there is a checkpoint before the newest one."""
        # The last one stays: without it the job would start over, though its output is committed. So with a savepoint.
        return len(self.completed) > 1 and self.newest is self.latest

    def drop_latest(self) -> bool:
        """The newest checkpoint is damaged: fall back to the one before. False if there is none."""
        if not self.can_fall_back:
            return False
        self.completed.pop()
        return True

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
