"""What `penstock explain` says of structured iterations: what runs in each superstep, and what enters once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine.plan.job_graph import JobGraph, JobVertex
from penstock.engine.runtime.operators.superstep_head import SuperstepHead


def texts_of_iterations(graph: JobGraph) -> list[str]:
    """Return a text for each iteration, with the ids of vertices as they are drawn."""
    return [_text(graph, loop) for loop in graph.structured_loops]


def _text(graph: JobGraph, loop: frozenset[int]) -> str:
    heads = [graph.vertices[vertex] for vertex in sorted(loop & graph.superstep_heads)]
    operator = heads[0].nodes[0].operator
    assert isinstance(operator, SuperstepHead)
    most = operator.rules.supersteps_max
    often = "in each superstep" if most is None else f"in each of at most {most:,} supersteps"
    parts = [f"'{heads[0].nodes[0].name}' runs {_listed(sorted(loop))} {often}", *_static(graph, loop)]
    return "; ".join(parts)


def _static(graph: JobGraph, loop: frozenset[int]) -> Iterator[str]:
    for edge in graph.edges:
        if edge.target not in loop or edge.source in loop or edge.target in graph.superstep_heads:
            continue
        target = graph.vertices[edge.target]
        if _replays(target):
            kept = "is kept in the memory of its subtasks, and emitted in each superstep"
        else:
            kept = f"is read once, in superstep 0: what is needed later is state of '{target.nodes[0].name}'"
        yield f"{edge.source} → {edge.target} {kept}"


def _replays(vertex: JobVertex) -> bool:
    function = getattr(vertex.nodes[0].operator, "function", None)
    return bool(getattr(getattr(function, "users_object", None), "replays", False))


def _listed(ids: Sequence[int]) -> str:
    *first, last = map(str, ids)
    return f"{', '.join(first)} and {last}" if first else last
