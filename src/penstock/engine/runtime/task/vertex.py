"""The JobGraph as the runtime sees it: vertices with their chained operators, and the edges between them."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from penstock.api.output_tag import OutputTag
from penstock.common.types.basic_types import TypeInformation
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import Partitioner
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.state.handles import RestoredOperator


@dataclasses.dataclass
class ChainLink:
    """Where an operator's output goes: to an operator of its chain, or to an edge that leaves the vertex."""

    tag: OutputTag[Any] | None = None
    """The side output that is meant; None: the main output."""
    operator: int | None = None
    edge: int | None = None
    input_index: int = 0
    """The input of `operator` that it leads to. For an edge, EdgeInfo has it."""


@dataclasses.dataclass
class ChainNode:
    """An operator of a chain."""

    operator: Operator
    uid: str
    links: list[ChainLink]
    state_id: str = ""
    """Names the operator's state in snapshots: the uid, or a name derived from its position in the program."""
    output_type: TypeInformation | None = None
    """Of what it emits, if it is declared and changes values."""


@dataclasses.dataclass
class VertexSpec:
    """A vertex: operators chained into one task. All inputs of the vertex are inputs of the first of them."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    nodes: list[ChainNode]
    inputs: list[tuple[EdgeInfo, Partitioner]]
    outputs: list[tuple[EdgeInfo, Partitioner]]
    buffer_timeout_ms: int = 5


class RocksDBSettings(msgspec.Struct, frozen=True):
    """Keyed state is in RocksDB on local disk, below `directory` (None: the system's temporary one).

    Each subtask of an operator may use `memory_bytes`; up to `cached_entries` of a state are kept as Python objects.
    """

    directory: str | None
    memory_bytes: int
    cached_entries: int
    holds_timers: bool = True
    """Whether timers are in RocksDB, too; else they are on the heap."""


class PostgresSettings(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Keyed state is in a PostgreSQL database, with its older versions as far as `retained_max` checkpoints need them.

    Up to `cached_entries` of a state that have changed are kept as Python objects, and as many bytes of a subtask's
    entries.
    """

    url: str
    user: str | None = None
    password: str | None = None
    cached_entries: int = 50_000
    retained_max: int = 1

    def __repr__(self) -> str:
        return "PostgresSettings(…)"


class RedisSettings(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """Keyed state is in a Redis server as of the last complete checkpoint, and in a log what has changed since.

    Up to `cached_entries` of a state that have changed are kept as Python objects, and as many bytes of a subtask's
    entries.
    """

    url: str
    user: str | None = None
    password: str | None = None
    cached_entries: int = 50_000

    def __repr__(self) -> str:
        return "RedisSettings(…)"


StoreSettings = RocksDBSettings | PostgresSettings | RedisSettings


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
    epoch: int = 1
    """Which run of the job this is: another one may have been taken for dead, and still live."""
    exactly_once: bool = True
    unaligned_after_ms: int | None = None
    """How long a barrier waits for those of other channels before it overtakes what is before them; None: always."""
    checkpointing: bool = False
    latency_interval_ms: int = 0
    in_flight_ms: int = 0
    """For how long what is in flight to a slot should last: network/debloating.py. 0: as much as fits is in flight."""
    reuses_objects: bool = False
    """Whether operators of a chain pass values on as they are: `pipeline.object-reuse`."""
    store_settings: StoreSettings | None = None
    """None: keyed state is on the heap."""
    sorted_inputs_bytes: int = 128 << 20
    """Batched mode: memory in which the keyed inputs of a task are sorted."""
    record_bytes_max: int = 64 << 20
    """How large a record may be when it is pickled to leave its task."""
    alignment_limits: AlignmentLimits = dataclasses.field(default_factory=AlignmentLimits)
    job_parameters: dict[str, str] = dataclasses.field(default_factory=dict)
    splits: dict[int, list[list[object]]] = dataclasses.field(default_factory=dict)
    """Batched mode: for each source vertex the splits of each subtask."""
    restore: dict[SubtaskId, dict[str, RestoredOperator]] = dataclasses.field(default_factory=dict)
    """What is restored: subtask -> state id -> state of that operator."""
    workers: tuple[int, ...] = ()
    """Pipelined mode: how many worker processes host the slots of each level. Empty: each slot has its own."""

    def subtask_info(self, vertex: VertexSpec, subtask: int, run: str) -> SubtaskInfo:
        """What the operators of a subtask may know of it. `run` is unique for each start of a task."""
        return SubtaskInfo(
            self.job_id,
            vertex.id,
            vertex.name,
            subtask,
            vertex.parallelism,
            vertex.max_parallelism,
            self.attempt,
            run,
            self.batched,
            self.job_parameters,
            self.checkpointing,
            self.epoch,
        )
