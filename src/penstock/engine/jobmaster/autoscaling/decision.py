"""Define a decision of the autoscaler, with its reasons."""

from __future__ import annotations

import msgspec


class VertexScaling(msgspec.Struct, frozen=True):
    """A new parallelism of one vertex."""

    vertex: int
    name: str
    before: int
    after: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.after} ({self.reason})"


class ScalingDecision(msgspec.Struct, frozen=True):
    """A decision at one moment. Without vertices: nothing changes, for the reasons in `notes`."""

    at_ms: int
    vertices: tuple[VertexScaling, ...]
    notes: tuple[str, ...] = ()
    """Changes that are not possible, and why."""

    @property
    def parallelism(self) -> dict[int, int]:
        """The new parallelism of the vertices that change."""
        return {scaling.vertex: scaling.after for scaling in self.vertices}

    def __str__(self) -> str:
        return "; ".join([", ".join(map(str, self.vertices))] * bool(self.vertices) + list(self.notes))
