"""What the checkpoint coordinator knows of a job vertex."""

from __future__ import annotations

import dataclasses


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
