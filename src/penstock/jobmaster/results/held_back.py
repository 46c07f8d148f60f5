"""Collected results that do not count yet: those that a task sent after the last checkpoint that is complete.

A task says with its results which checkpoint it had taken its part of before. Results from before barrier n have
arrived when all tasks have acknowledged n: results and acknowledgements share one connection, in order. They are
released when n is complete, and dropped when the job is restored from an earlier one. (The acknowledgement alone says
nothing of them: it is sent when the snapshot is written, and by then the task has emitted more.)
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.task.opaque import Opaque


class HeldBack(NamedTuple):
    """What a subtask sent for a sink, having taken its part of `after_checkpoint` before."""

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
        """A checkpoint is complete. Returns what counts now."""
        released = [result for result in self._waiting if result.after_checkpoint < checkpoint_id]
        self._waiting = [result for result in self._waiting if result.after_checkpoint >= checkpoint_id]
        return released
