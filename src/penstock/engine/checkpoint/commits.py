"""The ledger of commits: what sinks have prepared, which commits the host is to do, and which are done.

A committable goes through these stages:

    prepared   a task acknowledged checkpoint n with it. While n is pending, the pending checkpoint holds it
    carried    n was aborted; the next checkpoint that completes commits it, in the order of the numbers
    named      the manifest of a checkpoint that is being stored names it
    open       that manifest is stored, and the host is to commit it
    done       the host has committed it

Every manifest also names the open commits, until they are done: after a failure of the driver they are committed again.
Commits must be idempotent. Source: Flink docs, "Data Sinks", two-phase commit.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, NamedTuple

from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.checkpoint.manifest import Manifest, unpacked


class Committables(NamedTuple):
    """The committables that one subtask of a sink prepared for one checkpoint."""

    sink: int
    subtask: int
    values: list[Any]


NumberedCommittables = tuple[int, Committables]
"""The number of a checkpoint, and committables that were prepared for it."""


def in_checkpoint_order(prepared: list[NumberedCommittables]) -> list[NumberedCommittables]:
    """Sort by checkpoint, earlier ones first."""
    return sorted(prepared, key=lambda one: one[0])


class CommitLedger:
    """The commits of one job through all its attempts. `emit` receives effects, `number` returns unused numbers."""

    def __init__(self, emit: Callable[[Commit | AbortCommittables], None], number: Callable[[], int]) -> None:
        self._emit = emit
        self._number = number
        self._carried: list[NumberedCommittables] = []
        self._open: dict[int, Committables] = {}
        self._waiting: list[Callable[[], None]] = []

    @property
    def open(self) -> list[Committables]:
        """The commits that were requested and are not done."""
        return list(self._open.values())

    def carry(self, prepared: list[NumberedCommittables]) -> None:
        """Add committables whose checkpoint was aborted: the next checkpoint that completes commits them."""
        self._carried += prepared

    def take_carried(self, up_to: int) -> list[NumberedCommittables]:
        """Remove and return what is carried from checkpoints up to this number."""
        # Committables of a newer checkpoint come from records after this barrier: if they were committed now, a restore
        # would write them again.
        taken = [item for item in self._carried if item[0] <= up_to]
        self._carried = [item for item in self._carried if item[0] > up_to]
        return taken

    def drop_carried(self, sinks: Set[int]) -> list[NumberedCommittables]:
        """Remove and return what is carried for these sinks: their tasks ended, and nothing commits it."""
        dropped = [item for item in self._carried if item[1].sink in sinks]
        self._carried = [item for item in self._carried if item[1].sink not in sinks]
        return dropped

    def request_commit(self, committables: Committables, again: bool = False) -> None:
        """Request a commit of the host. `again`: it may be done already."""
        operation = self._number()
        self._open[operation] = committables
        self._emit(Commit(operation, *committables, again=again))

    def abort(self, committables: Committables) -> None:
        """Request the host to discard committables that no checkpoint will name."""
        self._emit(AbortCommittables(*committables))

    def restored(self, manifest: Manifest, sinks: dict[str, int]) -> None:
        """Commit again what a checkpoint names of these sinks, which are restored from it. `sinks`: by state id.

        Some of these commits may be missing; commits are idempotent. Commits of other sinks are unchanged.
        """
        self._forget_open(set(sinks.values()))
        for state_id, packed_commits in manifest.commits.items():
            if state_id in sinks:
                for packed_commit in packed_commits:
                    self.request_commit(Committables(sinks[state_id], *unpacked(packed_commit)), again=True)

    def sink_of_open_commit(self, operation: int) -> int | None:
        """Return the sink of an open commit. None: it is done, or was requested before its sink was restored."""
        committables = self._open.get(operation)
        return None if committables is None else committables.sink

    @property
    def has_open(self) -> bool:
        """Whether a requested commit is not done."""
        return bool(self._open)

    def done(self, operation: int) -> None:
        """Record that a commit is done."""
        self._open.pop(operation, None)
        if not self._open:
            calls, self._waiting = self._waiting, []
            for call in calls:
                call()

    def _forget_open(self, sinks: Set[int]) -> None:
        self._open = {operation: one for operation, one in self._open.items() if one.sink not in sinks}

    def when_all_done(self, call: Callable[[], None]) -> None:
        """Call `call` when no commit is open. It is dropped if tasks end before."""
        if self._open:
            self._waiting.append(call)
        else:
            call()

    def tasks_ended(self) -> None:
        """Drop the calls that wait for commits: they would end tasks, and some of these have ended."""
        self._waiting.clear()
