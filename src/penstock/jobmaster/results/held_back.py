"""Collected results that are not released yet: those that a task sent after the last completed checkpoint.

With its results a task names the last checkpoint that it had taken its snapshot for. Results from before barrier n have
arrived when all tasks have acknowledged n: results and acknowledgements share one connection, in order. They are
released when n is complete, and dropped when the job is restored from an earlier one. (The acknowledgement alone does
not separate them: it is sent when the snapshot is written, and by then the task has emitted more.)
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.task.opaque import Opaque


class HeldBack(NamedTuple):
    """What a subtask sent for a sink after its snapshot for `after_checkpoint`."""

    sink: int
    subtask: int
    values: Opaque
    after_checkpoint: int


class HeldBackResults:
    """Of all tasks of an attempt, in the order of each subtask."""

    def __init__(self) -> None:
        self._waiting: list[HeldBack] = []

    def add(self, result: HeldBack) -> None:
        """A task sent results."""
        self._waiting.append(result)

    def release(self, checkpoint_id: int) -> list[HeldBack]:
        """A checkpoint is complete. Returns the results that precede its barrier."""
        # What a task sends after its snapshot for this checkpoint is behind the barrier.
        released = [result for result in self._waiting if result.after_checkpoint < checkpoint_id]
        self._waiting = [result for result in self._waiting if result.after_checkpoint >= checkpoint_id]
        return released
