"""Loops: the vertices of a job graph that reach each other, because something is fed back.

Loops that share a vertex, one inside another for example, are one: they end together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


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
