"""Convert a job graph for the autoscaler: vertices, their inputs, and limits of their parallelism."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.rescaling import fixed_parallelism, groups_of_equal_parallelism
from penstock.engine.plan.vertex_ids import vertex_id


class Feed(NamedTuple):
    """Input of a vertex: the output of an operator, by its position in the chain of another vertex."""

    vertex: int
    operator: int


@dataclasses.dataclass(frozen=True)
class ScaledVertex:
    """A vertex of a running job."""

    id: int
    name: str
    level: int
    parallelism: int
    most: int
    """Maximum parallelism: the number of key groups."""
    feeds: tuple[Feed, ...] = ()
    """Inputs without feedback. Empty for a source."""
    keyed: bool = False
    """Whether its records are distributed by key group."""
    group: int = 0
    """First vertex of the group with a common parallelism, which forward edges connect."""
    fixed: str = ""
    """Why its parallelism cannot change; empty if it can."""


Topology = Sequence[ScaledVertex]
"""Vertices in topological order; the index of a vertex is its id."""


def topology_of(graph: JobGraph, excluded: frozenset[str]) -> Topology:
    """Return the vertices of a plan. `excluded`: ids, names or uids of operators whose parallelism does not change."""
    group_of = {id: min(group) for group in groups_of_equal_parallelism(graph) for id in group}
    return [
        ScaledVertex(
            id=vertex.id,
            name=vertex.name,
            level=vertex.level,
            parallelism=vertex.parallelism,
            most=min(node.max_parallelism for node in vertex.nodes),
            feeds=_feeds(graph, vertex),
            keyed=any(edge.stream_edge.partitioner.keyed for edge in graph.edges if edge.target == vertex.id),
            group=group_of[vertex.id],
            fixed=fixed_parallelism(vertex) or ("job.autoscaler.vertex.exclude.ids" * _is_excluded(vertex, excluded)),
        )
        for vertex in graph.vertices
    ]


def _feeds(graph: JobGraph, vertex: JobVertex) -> tuple[Feed, ...]:
    return tuple(
        Feed(edge.source, [node.id for node in graph.vertices[edge.source].nodes].index(edge.stream_edge.source))
        for edge in graph.edges
        if edge.target == vertex.id and not edge.feedback
    )


def _is_excluded(vertex: JobVertex, excluded: frozenset[str]) -> bool:
    names = {vertex_id(vertex), vertex.name, *(name for node in vertex.nodes for name in (node.name, node.uid))}
    return not names.isdisjoint(excluded)


def groups_of(topology: Topology) -> dict[int, list[ScaledVertex]]:
    """Return the groups of vertices with a common parallelism, by their first vertex."""
    groups: dict[int, list[ScaledVertex]] = {}
    for vertex in topology:
        groups.setdefault(vertex.group, []).append(vertex)
    return groups


def slots_of(topology: Topology, parallelism: Mapping[int, int]) -> int:
    """Return the slots that a job needs with this parallelism of vertices: the sum of each level's widest vertex."""
    widths: dict[int, int] = {}
    for vertex in topology:
        subtasks = parallelism.get(vertex.id, vertex.parallelism)
        widths[vertex.level] = max(widths.get(vertex.level, 1), subtasks)
    return sum(widths.values())
