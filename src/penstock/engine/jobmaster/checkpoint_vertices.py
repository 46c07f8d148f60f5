"""A job graph as the checkpoint coordinator sees it."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.stream_graph import StreamNode
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator


def checkpoint_vertices(graph: JobGraph) -> list[CheckpointVertex]:
    """Its vertices, with the state ids of their operators and sinks."""
    return [
        CheckpointVertex(
            vertex.id,
            vertex.name,
            vertex.parallelism,
            vertex.max_parallelism,
            [(node.uid, node.name) for node in vertex.nodes],
            vertex.is_source,
            {sink_id: node.uid for sink_id, node in _sinks(vertex)},
        )
        for vertex in graph.vertices
    ]


def adopt_max_parallelism(graph: JobGraph, manifest: Manifest) -> None:
    """Give vertices for which the program sets no maximum parallelism that of the state from which they start."""
    for vertex in graph.vertices:
        parts = [part for node in vertex.nodes if (part := manifest.operator(node.uid)) is not None]
        keyed = {part.max_parallelism for part in parts if part.has_keyed}
        if len(keyed) == 1:
            vertex.adopt_max_parallelism(*keyed)


def source_state_ids(graph: JobGraph) -> dict[int, str]:
    """The state id of the source of each vertex that has one."""
    return {vertex.id: vertex.nodes[0].uid for vertex in graph.sources}


def vertex_of_sinks(graph: JobGraph) -> dict[int, int]:
    """The vertex of each sink, by the id that its results carry."""
    return {sink_id: vertex.id for vertex in graph.vertices for sink_id, _ in _sinks(vertex)}


def has_committers(graph: JobGraph) -> bool:
    """Whether a sink may have something to commit. What is printed or collected is the driver's."""
    return any(isinstance(node.operator, SinkOperator) for vertex in graph.vertices for node in vertex.nodes)


def _sinks(vertex: JobVertex) -> Iterator[tuple[int, StreamNode]]:
    for node in vertex.nodes:
        if isinstance(node.operator, (SinkOperator, CollectOperator)):
            yield node.operator.sink_id, node
