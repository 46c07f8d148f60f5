"""An edge of the JobGraph as the runtime sees it."""

from __future__ import annotations

import msgspec


class EdgeInfo(msgspec.Struct, frozen=True):
    """An edge between two vertices. `widths` is the number of slots of each level, which relays need."""

    id: int
    target_vertex: int
    source_parallelism: int
    target_parallelism: int
    source_level: int
    target_level: int
    widths: tuple[int, ...]
    input_index: int = 0
    """Which input of the target's first operator it leads to."""
    feedback: bool = False
    """Whether it leads back to the head of an iteration, by the channel between slots."""
    in_loop: bool = False
    """Whether its sender and its receiver belong to one loop."""

    def hop(self, level: int, sender: int, target: int) -> int:
        """The slot of `level` that a buffer is written to: the target's, or one that relays the buffer.

        All buffers of one sender on this edge take the same route: on different ones they could overtake each other.
        """
        return target if level >= self.target_level else sender % self.widths[level]
