"""What the world outside has seen of a job: what was committed, each committable once, and none too early.

A committable may be committed when a checkpoint that names it is complete, or a savepoint with which the job has
stopped or from which one was started. It may be committed again: that changes nothing. It must not be removed and
needed later.
"""

from __future__ import annotations

from typing import Any

from penstock.checkpoint.manifest import Manifest, unpacked
from penstock.testing.simulator.sinks import Written

Results = dict[tuple[int, int], list[Any]]
"""(sink, subtask) -> values, in their order"""


class Outside:
    """Outlives all drivers. `results` is what users see."""

    def __init__(self) -> None:
        self.results: Results = {}
        self._named: set[str] = set()
        """What completed checkpoints name."""
        self._committed: set[str] = set()
        self._removed: set[str] = set()

    def complete(self, manifest: Manifest) -> None:
        """The job, or another one, may go back to this: what it names is to be committed."""
        for commits in manifest.commits.values():
            for commit in commits:
                _, committables = unpacked(commit)
                self._named.update(written.name for written in committables)

    def commit(self, sink: int, subtask: int, committables: list[Written]) -> None:
        """A committer publishes these."""
        for written in committables:
            name = written.name
            assert name in self._named, f"{name} was committed, and belongs to no checkpoint that is complete"
            assert name not in self._removed, f"{name} was removed before it was committed"
            if name not in self._committed:
                self._committed.add(name)
                self.collect(sink, subtask, [written])

    def abort(self, committables: list[Written]) -> None:
        """A committer removes these."""
        for written in committables:
            assert written.name not in self._named, f"{written.name} was removed, and a checkpoint names it"
            self._removed.add(written.name)

    def collect(self, sink: int, subtask: int, values: list[Any]) -> None:
        """Values that count at once."""
        seen = self.results.setdefault((sink, subtask), [])
        seen.extend((value.record, value.timestamp) if isinstance(value, Written) else value for value in values)
