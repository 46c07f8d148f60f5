"""What the parts of a task share: who it is, its chain, what comes in and goes out, its queue, and whom it asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.runtime.ids import SubtaskId
from penstock.runtime.network.buffer_queue import BufferQueue
from penstock.runtime.network.output import OutputEdge
from penstock.runtime.task.chain import Chain
from penstock.runtime.task.context import SubtaskInfo
from penstock.runtime.task.counters import TaskCounters
from penstock.runtime.task.environment import Environment
from penstock.runtime.task.events import Effect
from penstock.runtime.task.inputs import TaskInputs, Work
from penstock.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.state.key_groups import KeyGroups


class TaskParts(NamedTuple):
    """Of one task."""

    id: SubtaskId
    info: SubtaskInfo
    vertex: VertexSpec
    level: LevelSpec
    environment: Environment
    key_groups: KeyGroups
    chain: Chain
    edges: Sequence[OutputEdge]
    """Those that leave it."""
    inputs: TaskInputs
    work: deque[Work]
    """What is to be done, in order."""
    counters: TaskCounters
    ask: Callable[[Effect], None]
    """Takes what is requested of the host."""

    def new_queue(self) -> BufferQueue:
        """An empty queue for buffers that wait. What does not fit into its memory goes to disk."""
        return BufferQueue(self.level.alignment_limits.memory_bytes, self.environment.open_spill)
