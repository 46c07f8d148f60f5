"""The JobGraph as the runtime sees it: vertices with their chained operators, and the edges between them."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from penstock.api.output_tag import OutputTag
from penstock.common.types.basic_types import TypeInformation
from penstock.engine.runtime.execution_mode import ExecutionMode
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.network.claims import ClaimSettings
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
    """The side output; None: the main output."""
    operator: int | None = None
    edge: int | None = None
    input_index: int = 0
    """The input of `operator` that the link leads to. For an edge, see `EdgeInfo.input_index`."""


@dataclasses.dataclass
class ChainNode:
    """An operator of a chain."""

    operator: Operator
    uid: str
    links: list[ChainLink]
    state_id: str = ""
    """Names the operator's state in snapshots: the uid, or a name derived from its position in the program."""
    output_type: TypeInformation | None = None
    """The declared type of the output, if converting to it changes values."""


@dataclasses.dataclass
class VertexSpec:
    """A vertex: operators chained into one task. All inputs of the vertex are inputs of the first operator."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    nodes: list[ChainNode]
    inputs: list[tuple[EdgeInfo, Partitioner]]
    outputs: list[tuple[EdgeInfo, Partitioner]]
    buffer_timeout_ms: int = 5

    @property
    def in_supersteps(self) -> bool:
        """Whether it is in the body of a structured iteration."""
        return any(edge.in_supersteps for edge, _ in self.inputs)


class RocksDBSettings(msgspec.Struct, frozen=True):
    """Keyed state is in RocksDB on local disk, below `directory` (None: the system's temporary directory).

    Each subtask of an operator may use `memory_bytes`; up to `cached_entries` of a state are kept as Python objects.
    """

    directory: str | None
    memory_bytes: int
    cached_entries: int
    holds_timers: bool = True
    """Whether timers are in RocksDB as well; otherwise they are on the heap."""


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
    """A Redis server holds keyed state as of the last complete checkpoint, and a log holds the changes since then.

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
    """What one Spark stage hosts: the vertices of a level, and the edges that only pass through the level."""

    job_id: str
    level: int
    widths: tuple[int, ...]
    vertices: list[VertexSpec]
    edges: dict[int, EdgeInfo]
    mode: ExecutionMode
    attempt: int = 0
    epoch: int = 1
    """The number of this run of the job. A run that is presumed dead may still write: the epoch tells them apart."""
    exactly_once: bool = True
    unaligned_after_ms: int | None = None
    """How long a barrier waits for the barriers of other channels before it overtakes records (ms); None: forever."""
    checkpointing: bool = False
    each_superstep: bool = False
    """Whether each superstep of an iteration is to have a checkpoint, so that a restart repeats at most one."""
    latency_interval_ms: int = 0
    in_flight_ms: int = 0
    """How long the data in flight to a slot should last (ms): network/debloating.py. 0: the data is not limited."""
    reuses_objects: bool = False
    """Whether operators of a chain pass values on without copies: `pipeline.object-reuse`."""
    store_settings: StoreSettings | None = None
    """Settings of the store for keyed state; None if keyed state is on the heap."""
    sorted_inputs_bytes: int = 128 << 20
    """Batched mode: memory in which the keyed inputs of a task are sorted."""
    managed_memory_bytes: int | None = None
    """The memory for state, caches and sorters of all slots in a worker process; None: what the machine has."""
    record_bytes_max: int = 64 << 20
    """The largest record that may leave its task (bytes, pickled)."""
    alignment_limits: AlignmentLimits = dataclasses.field(default_factory=AlignmentLimits)
    job_parameters: dict[str, str] = dataclasses.field(default_factory=dict)
    splits: dict[int, list[list[object]]] = dataclasses.field(default_factory=dict)
    """Batched mode: for each source vertex the splits of each subtask."""
    restore: dict[SubtaskId, dict[str, RestoredOperator]] = dataclasses.field(default_factory=dict)
    """The state to restore: subtask -> state id -> state of that operator."""
    workers: tuple[int, ...] = ()
    """Pipelined mode: the number of worker processes of each level. Empty: each slot has a process of its own."""
    claims: ClaimSettings | None = None
    """Pipelined mode: the memory in which workers on one machine pass large rows on; None: they don't."""

    @property
    def slot_memory_bytes(self) -> int | None:
        """The memory of each slot (bytes): slots that share a worker process have equal parts. None: no limit."""
        if self.managed_memory_bytes is None:
            return None
        width = self.widths[self.level]
        slots = -(-width // self.workers[self.level]) if self.workers else 1
        return self.managed_memory_bytes // slots

    def subtask_info(self, vertex: VertexSpec, subtask: int, run: str) -> SubtaskInfo:
        """Describe a subtask to its operators. `run` is unique for each start of a task."""
        return SubtaskInfo(
            job_id=self.job_id,
            vertex_id=vertex.id,
            task_name=vertex.name,
            subtask=subtask,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            attempt=self.attempt,
            run=run,
            mode=self.mode,
            job_parameters=self.job_parameters,
            checkpointing=self.checkpointing,
            epoch=self.epoch,
        )
