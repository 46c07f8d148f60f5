"""Convert a job graph for the checkpoint coordinator."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.plan.stream_graph import StreamNode


def checkpoint_vertices(graph: JobGraph) -> list[CheckpointVertex]:
    """Return the vertices with the state ids of their operators and sinks."""
    return [
        CheckpointVertex(
            id=vertex.id,
            name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            operators=[(node.uid, node.name) for node in vertex.nodes],
            is_source=vertex.is_source,
            sinks={sink_id: node.uid for sink_id, node in _sinks(vertex)},
        )
        for vertex in graph.vertices
    ]


def adopt_max_parallelism(graph: JobGraph, manifest: Manifest) -> None:
    """Set the maximum parallelism of vertices to the one of their restored state, unless the program sets it."""
    for vertex in graph.vertices:
        parts = [part for node in vertex.nodes if (part := manifest.operator(node.uid)) is not None]
        keyed = {part.max_parallelism for part in parts if part.has_keyed}
        if len(keyed) == 1:
            graph.adopt_max_parallelism(vertex, *keyed)


def source_state_ids(graph: JobGraph) -> dict[int, str]:
    """Return the state id of the source of each source vertex, by vertex."""
    return {vertex.id: vertex.nodes[0].uid for vertex in graph.sources}


def vertex_of_sinks(graph: JobGraph) -> dict[int, int]:
    """Return the vertex of each sink, by the id that its results carry."""
    return {sink_id: vertex.id for vertex in graph.vertices for sink_id, _ in _sinks(vertex)}


def has_committers(graph: JobGraph) -> bool:
    """Return whether the job has sinks with committers. Printing and collecting need none."""
    return any(node.operator.sink is not None for vertex in graph.vertices for node in vertex.nodes)


def _sinks(vertex: JobVertex) -> Iterator[tuple[int, StreamNode]]:
    for node in vertex.nodes:
        if node.operator.sink_id is not None:
            yield node.operator.sink_id, node
