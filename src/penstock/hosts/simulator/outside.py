"""The external effects of a job: each committable is committed once, and never too early.

A committable may be committed when a checkpoint that contains it is complete, or a savepoint with which the job was
stopped or from which one was started. Repeating a commit has no effect. A committable must not be aborted and
needed later.

Users observe what was published, not when: the output of one subtask is in the order in which checkpoints contain it,
although a failed commit is repeated after others.
"""

from __future__ import annotations

from bisect import insort
from operator import itemgetter
from typing import Any

from penstock.engine.checkpoint.manifest import Manifest, unpacked
from penstock.hosts.simulator.sinks import Written

Results = dict[tuple[int, int], list[Any]]
"""(sink, subtask) -> values, in order"""


class Outside:
    """The world outside the job. It survives all drivers."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        """Values with their positions."""
        self._named: dict[str, int] = {}
        """Committables of completed checkpoints, with their positions in the overall order."""
        self._committed: set[str] = set()
        self._removed: set[str] = set()

    @property
    def results(self) -> Results:
        """Return the output visible to users."""
        return {sink: [value for _, value in seen] for sink, seen in self._seen.items()}

    def complete(self, manifest: Manifest) -> None:
        """Allow commits of this manifest's committables, because a job may be restored from it."""
        for commits in manifest.commits.values():
            for commit in commits:
                _, committables = unpacked(commit)
                # Those of real sinks have no names: their committers have to bear anything.
                for written in filter(_is_written, committables):
                    self._named.setdefault(written.name, len(self._named))

    def commit(self, sink: int, subtask: int, committables: list[Written]) -> None:
        """Publish committables for a committer."""
        for written in committables:
            name = written.name
            assert name in self._named, f"{name} was committed, but belongs to no completed checkpoint"
            assert name not in self._removed, f"{name} was aborted before it was committed"
            if name not in self._committed:
                self._committed.add(name)
                seen = self._seen.setdefault((sink, subtask), [])
                insort(seen, (self._named[name], (written.record, written.timestamp)), key=itemgetter(0))

    def abort(self, committables: list[Written]) -> None:
        """Abort committables for a committer."""
        for written in committables:
            assert written.name not in self._named, f"{written.name} was aborted, but a checkpoint contains it"
            self._removed.add(written.name)

    def collect(self, sink: int, subtask: int, values: list[Any]) -> None:
        """Add values that are visible immediately."""
        seen = self._seen.setdefault((sink, subtask), [])
        for value in values:
            seen.append((len(seen), (value.record, value.timestamp) if isinstance(value, Written) else value))


def _is_written(committable: Any) -> bool:
    return isinstance(committable, Written)
