"""A job as the autoscaler sees it: vertices, what each reads, and what keeps it from another parallelism."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.rescaling import fixed_parallelism, together
from penstock.engine.plan.vertex_ids import vertex_id


class Feed(NamedTuple):
    """What a vertex reads: the output of an operator, by its place in the chain of another vertex."""

    vertex: int
    operator: int


@dataclasses.dataclass(frozen=True)
class ScaledVertex:
    """One vertex of a running job."""

    id: int
    name: str
    level: int
    parallelism: int
    most: int
    """Its maximum parallelism: the number of key groups."""
    feeds: tuple[Feed, ...] = ()
    """Without what is fed back. A source has none."""
    keyed: bool = False
    """Whether its records are distributed by key group."""
    group: int = 0
    """The first of the vertices that have one parallelism, because records go from subtask to subtask."""
    fixed: str = ""
    """Why its parallelism can't change; empty: it can."""


Topology = Sequence[ScaledVertex]
"""In topological order; each vertex is at the place of its id."""


def topology_of(graph: JobGraph, excluded: frozenset[str]) -> Topology:
    """The vertices of a plan. `excluded`: ids, names or uids of operators whose parallelism stays."""
    group_of = {id: min(group) for group in together(graph) for id in group}
    return [
        ScaledVertex(
            vertex.id,
            vertex.name,
            vertex.level,
            vertex.parallelism,
            min(node.max_parallelism for node in vertex.nodes),
            _feeds(graph, vertex),
            any(edge.stream_edge.partitioner.keyed for edge in graph.edges if edge.target == vertex.id),
            group_of[vertex.id],
            fixed_parallelism(vertex) or ("job.autoscaler.vertex.exclude.ids" * _is_excluded(vertex, excluded)),
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
    """The vertices that have one parallelism, by the first of them."""
    groups: dict[int, list[ScaledVertex]] = {}
    for vertex in topology:
        groups.setdefault(vertex.group, []).append(vertex)
    return groups


def slots_of(topology: Topology, parallelism: Mapping[int, int]) -> int:
    """The slots that a job needs with other numbers of subtasks, by vertex: of each level its widest vertex."""
    widths: dict[int, int] = {}
    for vertex in topology:
        subtasks = parallelism.get(vertex.id, vertex.parallelism)
        widths[vertex.level] = max(widths.get(vertex.level, 1), subtasks)
    return sum(widths.values())
