"""What the checkpoint coordinator needs to know of a job graph."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checkpoint.coordinator import VertexOutline
from penstock.plan.job_graph import JobGraph, JobVertex
from penstock.plan.stream_graph import StreamNode
from penstock.runtime.operators.sink import CollectOperator, SinkOperator


def outlines_of(graph: JobGraph) -> list[VertexOutline]:
    """Its vertices, with the operators whose state is told apart by name."""
    return [
        VertexOutline(
            vertex.id,
            vertex.name,
            vertex.parallelism,
            vertex.max_parallelism,
            [(node.uid, node.name) for node in vertex.nodes],
            vertex.level == 0,
        )
        for vertex in graph.vertices
    ]


def source_state_ids(graph: JobGraph) -> dict[int, str]:
    """The state id of the source of each vertex that has one."""
    return {vertex.id: vertex.nodes[0].uid for vertex in graph.sources}


def sink_state_ids(graph: JobGraph) -> dict[int, str]:
    """The state id of each sink, by the id under which its results come."""
    return {sink: node.uid for sink, _, node in _sinks(graph)}


def vertex_of_sinks(graph: JobGraph) -> dict[int, int]:
    """The vertex of each sink, by the id under which its results come."""
    return {sink: vertex.id for sink, vertex, _ in _sinks(graph)}


def _sinks(graph: JobGraph) -> Iterator[tuple[int, JobVertex, StreamNode]]:
    for vertex in graph.vertices:
        for node in vertex.nodes:
            if isinstance(node.operator, (SinkOperator, CollectOperator)):
                yield node.operator.sink_id, vertex, node
