"""Find the pipelined regions of a job graph: its connected components. Each is deployed as its own Spark query.

Vertices of one region share stages, so a slow vertex holds back its neighbors of the same level. Vertices without a
path between them should not hold each other back. Checkpoints span all regions of a job. Source: Flink docs, "Jobs and
Scheduling", pipelined regions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping


def regions_of(vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the connected components, each in ascending order, sorted by their smallest vertex."""
    parent = {vertex: vertex for vertex in vertices}

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            vertex = parent[vertex]
        return vertex

    for source, target in edges:
        low, high = sorted((root(source), root(target)))
        parent[high] = low
    regions: dict[int, list[int]] = {}
    for vertex in sorted(parent):
        regions.setdefault(root(vertex), []).append(vertex)
    return list(regions.values())


def loops_of(vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[frozenset[int]]:
    """Return the loops, sorted by their smallest vertex: the strongly connected components that have a cycle.

    Loops that share a vertex, such as one inside another, count as one, because they end together.
    """
    after: dict[int, set[int]] = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    all_reached = {vertex: reached(vertex, after) for vertex in vertices}
    loops = []
    for vertex, others in sorted(all_reached.items()):
        loop = frozenset(other for other in others if vertex in all_reached[other])
        if vertex == min(loop, default=-1):
            loops.append(loop)
    return loops


def reached(vertex: int, after: Mapping[int, Iterable[int]]) -> set[int]:
    """Return the vertices that `vertex` reaches over at least one edge."""
    found: set[int] = set()
    waiting = list(after.get(vertex, ()))
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting.extend(after.get(other, ()))
    return found
