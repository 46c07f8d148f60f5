"""What the autoscaler has decided, and why."""

from __future__ import annotations

import msgspec


class VertexScaling(msgspec.Struct, frozen=True):
    """Another parallelism for one vertex."""

    vertex: int
    name: str
    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.after} ({self.reason})"


class ScalingDecision(msgspec.Struct, frozen=True):
    """Of one moment. Without vertices: nothing changes, though it was wanted."""

    at_ms: int
    vertices: tuple[VertexScaling, ...]
    notes: tuple[str, ...] = ()
    """What could not be done, and why."""

    @property
    def parallelism(self) -> dict[int, int]:
        """By vertex, of those that change."""
        return {scaling.vertex: scaling.after for scaling in self.vertices}

    def __str__(self) -> str:
        return "; ".join([", ".join(map(str, self.vertices))] * bool(self.vertices) + list(self.notes))
