"""What the parts of a task share: who it is, its chain, what comes in and goes out, its queue, and whom it asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.buffer_queue import BufferQueue
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.counters import TaskCounters
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import Effect
from penstock.engine.runtime.task.inputs import TaskInputs, Work
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.state.key_groups import KeyGroups


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
