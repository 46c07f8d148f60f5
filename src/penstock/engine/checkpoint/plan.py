"""The tasks that take part in the next checkpoint: sources are triggered, and all tasks must acknowledge.

Source: Flink's CheckpointPlan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from penstock.engine.runtime.ids import SubtaskId


@dataclasses.dataclass(frozen=True)
class CheckpointVertex:
    """A vertex whose subtasks take part in checkpoints.

    `operators`: (state id, name) in the order of the chain. `sinks`: state id of each sink by its sink id.
    """

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    operators: list[tuple[str, str]]
    is_source: bool
    sinks: dict[int, str] = dataclasses.field(default_factory=dict)


class CheckpointPlan(NamedTuple):
    """The tasks of the current attempts. `attempt`: the highest number of these."""

    attempt: int = 0
    vertices: Sequence[CheckpointVertex] = ()
    tasks: Sequence[SubtaskId] = ()
    """The tasks that run. While a region restarts, the tasks of the other regions."""

    @staticmethod
    def of(attempt: int, vertices: Sequence[CheckpointVertex]) -> CheckpointPlan:
        """Return a plan in which all tasks of these vertices run."""
        tasks = [SubtaskId(vertex.id, subtask) for vertex in vertices for subtask in range(vertex.parallelism)]
        return CheckpointPlan(attempt, vertices, sorted(tasks))

    @property
    def sources(self) -> list[SubtaskId]:
        """The tasks that are triggered; their barriers reach all other tasks."""
        sources = {vertex.id for vertex in self.vertices if vertex.is_source}
        return [task for task in self.tasks if task.vertex in sources]

    def without(self, vertices: Sequence[CheckpointVertex]) -> CheckpointPlan:
        """Return the plan without the tasks of these vertices."""
        gone = {vertex.id for vertex in vertices}
        return self._replace(tasks=[task for task in self.tasks if task.vertex not in gone])

    def name_of(self, task: SubtaskId) -> str:
        """Return the name of a task for messages, with subtasks counted from 1."""
        name = next(vertex.name for vertex in self.vertices if vertex.id == task.vertex)
        return f"{name} ({task.subtask + 1})"
