"""Pipelined regions: connected components of a job graph. Each is deployed as a Spark query of its own.

Vertices of one region share stages, so a slow one holds back its neighbours of the same level. Without an edge between
them they have no reason to. Checkpoints span all regions of a job. Source: Flink docs, "Jobs and Scheduling", pipelined
regions.
"""

from __future__ import annotations

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
