"""Reads compiled plans: the JSON of `COMPILE PLAN`, as nodes. Nothing else knows the shape of that JSON.

Each node is checked: a type, a version of a type or a field that is not known is an error that names the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import msgspec

from penstock.common.values.decoding import DECODING_ERRORS, from_json, json_decoder
from penstock.table.planner.data_types import DataType, read_data_type
from penstock.table.planner.errors import UnsupportedPlanError
from penstock.table.planner.nodes import aggregate_nodes, join_nodes, match_nodes, rank_nodes, row_nodes, tables
from penstock.table.planner.nodes.base import ExecNode

FLINK_VERSION = "2.3"
"""Plans of this version and older ones are read."""

_MODULES = (row_nodes, tables, aggregate_nodes, join_nodes, rank_nodes, match_nodes)


@dataclass(frozen=True)
class CompiledPlan:
    """A plan: its nodes, and which of them feeds which."""

    flink_version: str
    nodes: Mapping[int, ExecNode]
    """By id, in the plan's order: inputs come first."""
    inputs: Mapping[int, tuple[int, ...]]
    """The inputs of each node, in order."""
    text: str
    """The JSON."""
    origin: str = ""
    """A digest of the statements, tables and options that it was compiled from; empty: it was read from a file."""

    @cached_property
    def sinks(self) -> Sequence[tables.Sink]:
        """The sinks, in the plan's order."""
        return [node for node in self.nodes.values() if isinstance(node, tables.Sink)]

    def inputs_of(self, node: ExecNode) -> tuple[ExecNode, ...]:
        """Return the nodes whose rows this node receives, in order."""
        return tuple(self.nodes[one] for one in self.inputs.get(node.id, ()))


class _Plan(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    flink_version: str
    nodes: list[msgspec.Raw]
    edges: list[_Edge]


class _Shuffle(msgspec.Struct):
    type: str


class _Edge(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    source: int
    target: int
    shuffle: _Shuffle
    shuffle_mode: str


class _Header(msgspec.Struct):
    type: str
    description: str = ""


def read_plan(text: str) -> CompiledPlan:
    """Return the plan. Raises UnsupportedPlanError, which names the node or the version that is not supported."""
    try:
        plan = from_json(text, _Plan)
    except DECODING_ERRORS as error:
        raise UnsupportedPlanError(f"this is not a compiled plan of Flink's: {error}") from None
    if _version(plan.flink_version) > _version(FLINK_VERSION):
        raise UnsupportedPlanError(
            f"the plan was compiled by Flink {plan.flink_version}; plans of {FLINK_VERSION} and older are supported. "
            "Compile the statements here"
        )
    nodes = [_read_node(raw) for raw in plan.nodes]
    inputs: dict[int, tuple[int, ...]] = {}
    for edge in plan.edges:
        if (edge.shuffle.type, edge.shuffle_mode) != ("FORWARD", "PIPELINED"):
            raise UnsupportedPlanError(
                f"the plan has an edge of the kind {edge.shuffle.type}, {edge.shuffle_mode}: plans of batch jobs are "
                "not supported. Set execution.runtime-mode to STREAMING"
            )
        inputs[edge.target] = (*inputs.get(edge.target, ()), edge.source)
    return CompiledPlan(plan.flink_version, {node.id: node for node in nodes}, inputs, text)


@cache
def node_types() -> Mapping[str, type[ExecNode]]:
    """Return the supported nodes, by the type that a plan states: name and version."""
    found = {}
    for module in _MODULES:
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, ExecNode) and one is not ExecNode:
                found[str(one.__struct_config__.tag)] = one
    return found


def _read_node(raw: msgspec.Raw) -> ExecNode:
    header = from_json(memoryview(raw), _Header)
    known = node_types().get(header.type)
    if known is None:
        raise UnsupportedPlanError(_unknown(header))
    try:
        node: ExecNode = _decoder(known).decode(raw)
        return node
    except DECODING_ERRORS as error:
        raise UnsupportedPlanError(f"{_shown(header)} has a part that is not supported: {error}") from None
    except UnsupportedPlanError as error:
        raise UnsupportedPlanError(f"{_shown(header)}: {error}") from None


@cache
def _decoder(known: type[ExecNode]) -> msgspec.json.Decoder[Any]:
    return json_decoder(known, dec_hook=_decode)


def _decode(wanted: type, document: object) -> object:
    if wanted is DataType:
        return read_data_type(document)
    raise NotImplementedError(f"no value of {wanted} in plans")


def _unknown(header: _Header) -> str:
    name, _, version = header.type.rpartition("_")
    others = [one.rpartition("_")[2] for one in node_types() if one.rpartition("_")[0] == name]
    if others:
        return (
            f"{_shown(header)} has version {version}; supported: {', '.join(sorted(others))}. Compile the statements "
            "with the planner of this version of penstock"
        )
    if name.startswith("batch-exec-"):
        return f"{_shown(header)} is of a batch job. Set execution.runtime-mode to STREAMING"
    return f"{_shown(header)} is not supported. Write the query without it"


def _shown(header: _Header) -> str:
    kind = header.type.rpartition("_")[0].removeprefix("stream-exec-")
    return f"the node {kind!r} of the plan ({header.description})"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])
