"""The parallelism that a number of slots allows: the same for all operators, as far as each of them may have it.

Source: Flink docs, "Elastic Scaling", Reactive Mode. There a slot hosts a task of each operator; here each level of the
plan has slots of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.rescaling import fixed_parallelism, together


def highest(graph: JobGraph, reactive: bool) -> dict[int, int]:
    """The most subtasks that each vertex is to have: what the plan has; `reactive`: what it could have."""
    most: dict[int, int] = {}
    for group in together(graph):
        vertices = [graph.vertices[id] for id in group]
        is_fixed = not reactive or any(fixed_parallelism(vertex) is not None for vertex in vertices)
        limit = min(min(node.max_parallelism for node in vertex.nodes) for vertex in vertices)
        most |= {vertex.id: vertex.parallelism if is_fixed else limit for vertex in vertices}
    return most


def fitted(graph: JobGraph, most: Mapping[int, int], slots: int) -> JobGraph:
    """The plan with as many subtasks as so many slots allow: at least one of each vertex, though it may not fit."""
    fixed = {id for group in together(graph) for id in group if _is_fixed(graph, group)}

    def plan(subtasks: int) -> JobGraph:
        return graph.with_parallelism(
            {id: highest if id in fixed else min(subtasks, highest) for id, highest in most.items()}
        )

    low, high = 1, max(most.values())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if plan(middle).slots <= slots else (low, middle - 1)
    return plan(low)


def _is_fixed(graph: JobGraph, group: list[int]) -> bool:
    return any(fixed_parallelism(graph.vertices[id]) is not None for id in group)
