"""Results that have come but do not count yet: those of a task after the last checkpoint that is complete.

A task says with its results which checkpoint it had taken its part of before. Those from before checkpoint n have come
when all tasks have acknowledged n, for both come over one connection, in order. They are released when n is complete,
and dropped when the job goes back to an earlier one. (An acknowledgement itself tells nothing of that: it is sent when
the snapshot is written, and the task has gone on meanwhile.)
"""

from __future__ import annotations

from typing import Any

Task = tuple[int, int]


class Uncommitted:
    """Of all tasks of an attempt."""

    def __init__(self) -> None:
        self._waiting: dict[Task, list[tuple[int, int, Any]]] = {}

    def add(self, task: Task, sink: int, values: Any, after_checkpoint: int) -> None:
        """A task sent results of a sink, having taken its part of `after_checkpoint` before."""
        self._waiting.setdefault(task, []).append((after_checkpoint, sink, values))

    def complete(self, checkpoint_id: int) -> list[tuple[int, int, Any]]:
        """A checkpoint is complete. What counts now: sink, subtask, values."""
        released = []
        for task, waiting in self._waiting.items():
            released += [(sink, task[1], values) for after, sink, values in waiting if after < checkpoint_id]
            self._waiting[task] = [item for item in waiting if item[0] >= checkpoint_id]
        return released
