"""Which tasks take part in the next checkpoint: sources are triggered, and all must acknowledge.

Source: Flink's CheckpointPlan.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from penstock.engine.runtime.ids import SubtaskId

# What the checkpoint coordinator knows of a job vertex.


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
    """Of the present attempts; the next ones may have other vertices. `attempt`: the highest number among them."""

    attempt: int = 0
    vertices: Sequence[CheckpointVertex] = ()
    tasks: Sequence[SubtaskId] = ()
    """Those that are there. While a region restarts these are the tasks of the others."""

    @staticmethod
    def of(attempt: int, vertices: Sequence[CheckpointVertex]) -> CheckpointPlan:
        """All tasks of these vertices are running."""
        tasks = [SubtaskId(vertex.id, subtask) for vertex in vertices for subtask in range(vertex.parallelism)]
        return CheckpointPlan(attempt, vertices, sorted(tasks))

    @property
    def sources(self) -> list[SubtaskId]:
        """The tasks that are triggered, from which barriers reach all others."""
        sources = {vertex.id for vertex in self.vertices if vertex.is_source}
        return [task for task in self.tasks if task.vertex in sources]

    def without(self, vertices: Sequence[CheckpointVertex]) -> CheckpointPlan:
        """The tasks of these vertices are gone."""
        gone = {vertex.id for vertex in vertices}
        return self._replace(tasks=[task for task in self.tasks if task.vertex not in gone])

    def name_of(self, task: SubtaskId) -> str:
        """A task as messages name it, subtasks counted from 1."""
        name = next(vertex.name for vertex in self.vertices if vertex.id == task.vertex)
        return f"{name} ({task.subtask + 1})"
