"""A job graph drawn in the terminal: a row of boxes for each level, the edges into a level above its row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text


class Vertex(Protocol):
    """Chained operators that run together in one task."""

    @property
    def id(self) -> Hashable:
        """What edges name it by; drawn as the box's title."""

    @property
    def name(self) -> str:
        """Drawn if there are no names of operators."""

    @property
    def level(self) -> int:
        """Longest distance from a source: the stage that it runs in."""

    @property
    def parallelism(self) -> int:
        """Count of subtasks."""

    @property
    def operators(self) -> Sequence[str]:
        """Names of the chained operators, upstream first."""


class Edge(Protocol):
    """Buffers that go from one vertex to another."""

    @property
    def source(self) -> Hashable:
        """Id of the sending vertex."""

    @property
    def target(self) -> Hashable:
        """Id of the receiving vertex."""

    @property
    def partitioner(self) -> str:
        """How the target's subtask is chosen: HASH, FORWARD, REBALANCE, ..."""


class Graph(Protocol):
    """A job graph, as far as it is drawn."""

    @property
    def vertices(self) -> Iterable[Vertex]:
        """All of them, in an order that stays the same from call to call."""

    @property
    def edges(self) -> Iterable[Edge]:
        """All of them."""


def draw(graph: Graph, console: Console) -> None:
    """Print the graph, sources first, and the slots that it needs in pipelined mode."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    edges = list(graph.edges)
    widths = []
    for level in sorted({vertex.level for vertex in vertices.values()}):
        for edge in edges:
            if vertices[edge.target].level == level:
                console.print(_arrow(edge, vertices[edge.source].level, level))
        row = [vertex for vertex in vertices.values() if vertex.level == level]
        console.print(Columns([_box(vertex) for vertex in row], padding=(0, 2)))
        widths.append(max(vertex.parallelism for vertex in row))
    console.print(_total(widths), style="dim")


def _box(vertex: Vertex) -> Panel:
    first, *chained = list(vertex.operators) or [vertex.name]
    text = Text("\n".join([first, *(f"╰ {operator}" for operator in chained)]))
    text.append(f"\nparallelism {vertex.parallelism}", style="dim")
    return Panel.fit(text, title=Text(str(vertex.id)), title_align="left", box=box.ROUNDED)


def _arrow(edge: Edge, source_level: int, target_level: int) -> Text:
    arrow = Text(f"   │ {edge.source} ─ ").append(edge.partitioner, style="bold").append(f" → {edge.target}")
    relays = [str(level) for level in range(source_level + 1, target_level)]
    if relays:
        arrow.append(f"   relayed by level {', '.join(relays)}", style="dim")
    return arrow


def _total(widths: Sequence[int]) -> str:
    slots = sum(widths)
    total = f"{len(widths)} level{'s'[: len(widths) > 1]}, {slots} slot{'s'[: slots > 1]} when pipelined"
    return f"{total}: {' + '.join(map(str, widths))}" if len(widths) > 1 else total
