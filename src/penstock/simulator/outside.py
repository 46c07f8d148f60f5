"""What the world outside has seen of a job: what was committed, each committable once, and none too early.

A committable may be committed when a checkpoint that names it is complete, or a savepoint with which the job has
stopped or from which one was started. It may be committed again: that changes nothing. It must not be removed and
needed later.

Users read what was published, not when: what one subtask wrote is in the order in which checkpoints name it, though a
commit that failed is done after others.
"""

from __future__ import annotations

from bisect import insort
from operator import itemgetter
from typing import Any

from penstock.checkpoint.manifest import Manifest, unpacked
from penstock.simulator.sinks import Written

Results = dict[tuple[int, int], list[Any]]
"""(sink, subtask) -> values, in their order"""


class Outside:
    """Outlives all drivers."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], list[tuple[int, Any]]] = {}
        """Values with their places."""
        self._named: dict[str, int] = {}
        """What completed checkpoints name, with its place in the order of all."""
        self._committed: set[str] = set()
        self._removed: set[str] = set()

    @property
    def results(self) -> Results:
        """What users see."""
        return {sink: [value for _, value in seen] for sink, seen in self._seen.items()}

    def complete(self, manifest: Manifest) -> None:
        """The job, or another one, may go back to this: what it names is to be committed."""
        for commits in manifest.commits.values():
            for commit in commits:
                _, committables = unpacked(commit)
                for written in committables:
                    self._named.setdefault(written.name, len(self._named))

    def commit(self, sink: int, subtask: int, committables: list[Written]) -> None:
        """A committer publishes these."""
        for written in committables:
            name = written.name
            assert name in self._named, f"{name} was committed, and belongs to no checkpoint that is complete"
            assert name not in self._removed, f"{name} was removed before it was committed"
            if name not in self._committed:
                self._committed.add(name)
                seen = self._seen.setdefault((sink, subtask), [])
                insort(seen, (self._named[name], (written.record, written.timestamp)), key=itemgetter(0))

    def abort(self, committables: list[Written]) -> None:
        """A committer removes these."""
        for written in committables:
            assert written.name not in self._named, f"{written.name} was removed, and a checkpoint names it"
            self._removed.add(written.name)

    def collect(self, sink: int, subtask: int, values: list[Any]) -> None:
        """Values that count at once."""
        seen = self._seen.setdefault((sink, subtask), [])
        for value in values:
            seen.append((len(seen), (value.record, value.timestamp) if isinstance(value, Written) else value))
