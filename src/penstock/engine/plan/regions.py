"""Pipelined regions: connected components of a job graph. Each is deployed as a Spark query of its own.

Vertices of one region share stages, so a slow one holds back its neighbours of the same level. Without an edge between
them they have no reason to. Checkpoints span all regions of a job. Source: Flink docs, "Jobs and Scheduling", pipelined
regions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


def regions_of(vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The connected components, each in ascending order, by their smallest vertex."""
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


# Loops: the vertices of a job graph that reach each other, because something is fed back.
#
# Loops that share a vertex, one inside another for example, are one: they end together.


def loops_of(vertices: Iterable[int], edges: Iterable[tuple[int, int]]) -> list[frozenset[int]]:
    """The strongly connected components that have a cycle, by their smallest vertex."""
    after: dict[int, set[int]] = defaultdict(set)
    for source, target in edges:
        after[source].add(target)
    reached = {vertex: _reached(vertex, after) for vertex in vertices}
    loops = []
    for vertex, others in sorted(reached.items()):
        loop = frozenset(other for other in others if vertex in reached[other])
        if vertex == min(loop, default=-1):
            loops.append(loop)
    return loops


def _reached(vertex: int, after: dict[int, set[int]]) -> set[int]:
    """What can be reached by at least one edge."""
    reached: set[int] = set()
    waiting = list(after[vertex])
    while waiting:
        other = waiting.pop()
        if other not in reached:
            reached.add(other)
            waiting.extend(after[other])
    return reached
