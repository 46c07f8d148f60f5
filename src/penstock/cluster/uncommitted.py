"""Results that have come but do not count yet: those of a task after the last checkpoint that is complete.

A task's results and its acknowledgements come over one connection, in order. So what came before an acknowledgement is
part of that checkpoint; it is released when the checkpoint is complete, and dropped when the job goes back to an
earlier one.
"""

from __future__ import annotations

from typing import Any

Task = tuple[int, int]
Values = tuple[int, list[Any]]


class Uncommitted:
    """Of all tasks of an attempt."""

    def __init__(self) -> None:
        self._waiting: dict[Task, list[Values]] = {}
        self._boundaries: dict[Task, dict[int, int]] = {}

    def add(self, task: Task, sink: int, values: list[Any]) -> None:
        """A task sent results of a sink."""
        self._waiting.setdefault(task, []).append((sink, values))

    def acknowledged(self, task: Task, checkpoint_id: int) -> None:
        """A task has taken its part of a checkpoint."""
        self._boundaries.setdefault(task, {})[checkpoint_id] = len(self._waiting.get(task, ()))

    def complete(self, checkpoint_id: int) -> list[tuple[int, int, list[Any]]]:
        """A checkpoint is complete. What counts now: sink, subtask, values."""
        released = []
        for task, boundaries in self._boundaries.items():
            upto = boundaries.pop(checkpoint_id)
            waiting = self._waiting.get(task, [])
            released += [(sink, task[1], values) for sink, values in waiting[:upto]]
            del waiting[:upto]
            self._boundaries[task] = {n: at - upto for n, at in boundaries.items() if n > checkpoint_id}
        return released
