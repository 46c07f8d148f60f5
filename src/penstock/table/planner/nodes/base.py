"""What all nodes of a plan have."""

from __future__ import annotations

from msgspec import Struct, field

from penstock.table.planner.data_types import DataType


class Distribution(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How rows are distributed over subtasks: HASH with the indices of key columns, SINGLETON, UNKNOWN, ..."""

    type: str
    keys: tuple[int, ...] = ()
    input_distribution: Distribution | None = None
    is_strict: bool | None = None


class InputProperty(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Requirements of a node on an input."""

    required_distribution: Distribution
    dam_behavior: str = "PIPELINED"
    priority: int = 0


class StateMetadata(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state of a node, with its time to live as text (`0 ms`: for ever)."""

    index: int
    ttl: str
    name: str


class Part(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of a node. A field that is not known is refused: it may change what the node means."""


class ExecNode(Part, frozen=True, kw_only=True, tag_field="type"):
    """A node of the physical plan. Its class is Flink's class `StreamExec...` of the same name."""

    id: int
    description: str
    output_type: DataType
    input_properties: tuple[InputProperty, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)
    """Options that the node depends on, as they were when it was planned."""
    state: tuple[StateMetadata, ...] | None = None

    @property
    def name(self) -> str:
        """The name in Flink's documentation and in EXPLAIN."""
        return type(self).__name__
