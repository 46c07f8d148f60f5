"""The ledger of commits: what sinks have prepared, which commits the host has been given, and which are done.

A committable goes through these stages:

    prepared   a task acknowledged checkpoint n with it. While n is pending, the pending checkpoint holds it
    carried    n was aborted; it is committed with the next checkpoint that completes, in the order of the numbers
    named      the manifest of a checkpoint that is being stored names it
    open       that manifest is stored, and the host has been asked to commit
    done       the host has committed it

Every manifest names the open commits as well, until they are done: after a failure of the driver they are committed
again. Commits must be idempotent. Source: Flink docs, "Data Sinks", two-phase commit.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, NamedTuple

from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.checkpoint.manifest import Manifest, unpacked


class Committables(NamedTuple):
    """What one subtask of a sink prepared for one checkpoint."""

    sink: int
    subtask: int
    values: list[Any]


Numbered = tuple[int, Committables]
"""A checkpoint's number and what was prepared for it."""


def in_order(prepared: list[Numbered]) -> list[Numbered]:
    """What was prepared for earlier checkpoints first."""
    return sorted(prepared, key=lambda one: one[0])


class CommitLedger:
    """Of one job, through all its attempts. `emit` takes its effects; `number` gives each commit one of its own."""

    def __init__(self, emit: Callable[[Commit | AbortCommittables], None], number: Callable[[], int]) -> None:
        self._emit = emit
        self._number = number
        self._carried: list[Numbered] = []
        self._open: dict[int, Committables] = {}
        self._waiting: list[Callable[[], None]] = []

    @property
    def open(self) -> list[Committables]:
        """Commits that the host has been given and that are not done."""
        return list(self._open.values())

    def carry(self, prepared: list[Numbered]) -> None:
        """Their checkpoint was aborted: they are committed with the next one that completes."""
        self._carried += prepared

    def take_carried(self, up_to: int) -> list[Numbered]:
        """Remove and return what was carried from checkpoints up to a number."""
        # What was prepared for a newer checkpoint comes from records behind this barrier: committed now, it would be
        # written again after a restore.
        taken = [item for item in self._carried if item[0] <= up_to]
        self._carried = [item for item in self._carried if item[0] > up_to]
        return taken

    def drop_carried(self, sinks: Set[int]) -> list[Numbered]:
        """The tasks of these sinks ended: nothing that was carried for them will be committed. Returns it."""
        dropped = [item for item in self._carried if item[1].sink in sinks]
        self._carried = [item for item in self._carried if item[1].sink not in sinks]
        return dropped

    def hand_out(self, committables: Committables, again: bool = False) -> None:
        """Ask the host to commit these. `again`: they may be committed already."""
        operation = self._number()
        self._open[operation] = committables
        self._emit(Commit(operation, *committables, again))

    def abort(self, committables: Committables) -> None:
        """Ask the host to discard these: no checkpoint will name them."""
        self._emit(AbortCommittables(*committables))

    def restored(self, manifest: Manifest, sinks: dict[str, int]) -> None:
        """These sinks, by state id, are restored from a checkpoint: what it names of them is committed again.

        Perhaps not all of it was done; commits are idempotent. Commits of other sinks stay as they are.
        """
        self._forget_open(set(sinks.values()))
        for state_id, packed_commits in manifest.commits.items():
            if state_id in sinks:
                for packed_commit in packed_commits:
                    self.hand_out(Committables(sinks[state_id], *unpacked(packed_commit)), again=True)

    def sink_of_open(self, operation: int) -> int | None:
        """The sink of a commit that still counts. None: it is done, or was handed out before its sink was restored."""
        committables = self._open.get(operation)
        return None if committables is None else committables.sink

    @property
    def has_open(self) -> bool:
        """Whether something that was handed out is not done."""
        return bool(self._open)

    def done(self, operation: int) -> None:
        """The host has committed these."""
        self._open.pop(operation, None)
        if not self._open:
            calls, self._waiting = self._waiting, []
            for call in calls:
                call()

    def _forget_open(self, sinks: Set[int]) -> None:
        self._open = {operation: one for operation, one in self._open.items() if one.sink not in sinks}

    def when_all_done(self, call: Callable[[], None]) -> None:
        """Call it when no commit is open. It is not called if tasks end before."""
        if self._open:
            self._waiting.append(call)
        else:
            call()

    def tasks_ended(self) -> None:
        """Calls that wait for the end of the commits are dropped: they were to end tasks some of which are gone."""
        self._waiting.clear()
