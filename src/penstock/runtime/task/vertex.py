"""The JobGraph as the runtime sees it: vertices with their chained operators, and the edges between them."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from penstock.api.output_tag import OutputTag
from penstock.runtime.network.partitioners import Partitioner
from penstock.runtime.network.set_aside import AlignmentLimits
from penstock.runtime.operators.operator import Operator
from penstock.state.handles import RestoredOperator


class EdgeInfo(msgspec.Struct, frozen=True):
    """An edge between two vertices. `widths` are the slots of each level, for relays."""

    id: int
    source_vertex: int
    target_vertex: int
    source_parallelism: int
    target_parallelism: int
    source_level: int
    target_level: int
    widths: tuple[int, ...]

    def hop(self, level: int, sender: int, target: int) -> int:
        """The slot of `level` that a buffer goes to: the target's, or one that relays it.

        What one sender writes to this edge always takes the same way, or its order would be lost.
        """
        return target if level >= self.target_level else sender % self.widths[level]


@dataclasses.dataclass
class ChainLink:
    """Where an operator's output goes: to operator `operator` of its chain, or to edge `edge`; of which side output."""

    tag: OutputTag[Any] | None = None
    operator: int | None = None
    edge: int | None = None


@dataclasses.dataclass
class ChainNode:
    """An operator of a chain."""

    operator: Operator
    uid: str
    links: list[ChainLink]
    state_id: str = ""
    """Names the operator's state in snapshots: the uid, or what is derived from the place in the program."""


@dataclasses.dataclass
class VertexSpec:
    """A vertex: operators fused into one chain, the first of them reading the inputs."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    nodes: list[ChainNode]
    inputs: list[tuple[EdgeInfo, Partitioner]]
    outputs: list[tuple[EdgeInfo, Partitioner]]
    buffer_timeout_ms: int = 5


class StoredState(msgspec.Struct, frozen=True):
    """Keyed state is in a key-value store on local disk, below `directory`; None: the system's temporary one.

    `memory_bytes` for each operator's subtask; `cached_entries` of a state are in memory as Python objects.
    """

    directory: str | None
    memory_bytes: int
    cached_entries: int


@dataclasses.dataclass
class LevelSpec:
    """All that one Spark stage hosts: the vertices of a level, and the edges that only pass through it."""

    job_id: str
    level: int
    widths: tuple[int, ...]
    vertices: list[VertexSpec]
    edges: dict[int, EdgeInfo]
    batched: bool
    attempt: int = 0
    exactly_once: bool = True
    checkpointing: bool = False
    latency_interval_ms: int = 0
    stored_state: StoredState | None = None
    """None: keyed state is on the heap."""
    alignment_limits: AlignmentLimits = dataclasses.field(default_factory=AlignmentLimits)
    job_parameters: dict[str, str] = dataclasses.field(default_factory=dict)
    splits: dict[int, list[list[object]]] = dataclasses.field(default_factory=dict)
    """Batched mode: for each source vertex the splits of each subtask."""
    restore: dict[tuple[int, int], dict[str, RestoredOperator]] = dataclasses.field(default_factory=dict)
    """(vertex, subtask) -> state id -> what its operator is given back."""
