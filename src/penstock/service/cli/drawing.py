"""Draw a job graph in the terminal: a row of boxes per level, with the edges into a level above its row."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text


class Vertex(Protocol):
    """Chained operators that run in one task."""

    @property
    def id(self) -> Hashable:
        """The id used by edges; drawn as the box's title."""

    @property
    def name(self) -> str:
        """Drawn if there are no operator names."""

    @property
    def level(self) -> int:
        """Longest distance from a source, and so the Spark stage."""

    @property
    def parallelism(self) -> int:
        """Number of subtasks."""

    @property
    def labels(self) -> Sequence[str]:
        """Names of the chained operators, upstream first, each with its remarks."""


class Edge(Protocol):
    """An edge from one vertex to another."""

    @property
    def source(self) -> Hashable:
        """Id of the sending vertex."""

    @property
    def target(self) -> Hashable:
        """Id of the receiving vertex."""

    @property
    def partitioner(self) -> str:
        """Partitioner of the edge: HASH, FORWARD, REBALANCE, ..."""

    @property
    def side_output(self) -> str | None:
        """The side output that the edge carries; None: the main output."""

    @property
    def feedback(self) -> bool:
        """Whether the edge leads back to the head of an iteration."""


class Graph(Protocol):
    """The part of a job graph that is drawn."""

    @property
    def vertices(self) -> Iterable[Vertex]:
        """All vertices, in a stable order."""

    @property
    def edges(self) -> Iterable[Edge]:
        """All edges."""


def draw(graph: Graph, console: Console) -> None:
    """Print the graph, sources first, and the number of slots in pipelined mode."""
    vertices = {vertex.id: vertex for vertex in graph.vertices}
    edges = list(graph.edges)
    widths = []
    for level in sorted({vertex.level for vertex in vertices.values()}):
        for edge in edges:
            if vertices[edge.target].level == level and not edge.feedback:
                console.print(_arrow(edge, vertices[edge.source].level, level))
        row = [vertex for vertex in vertices.values() if vertex.level == level]
        console.print(Columns([_box(vertex) for vertex in row], padding=(0, 2)))
        for edge in edges:
            if vertices[edge.source].level == level and edge.feedback:
                console.print(_arrow(edge, level, level))
        widths.append(max(vertex.parallelism for vertex in row))
    console.print(_total(widths), style="dim")


def _box(vertex: Vertex) -> Panel:
    first, *chained = list(vertex.labels) or [vertex.name]
    # Folded, not cut off: the end of a path is its most useful part.
    text = Text("\n".join([first, *(f"╰ {operator}" for operator in chained)]), overflow="fold")
    text.append(f"\nparallelism {vertex.parallelism}", style="dim")
    return Panel.fit(text, title=Text(str(vertex.id)), title_align="left", box=box.ROUNDED)


def _arrow(edge: Edge, source_level: int, target_level: int) -> Text:
    line = "╰ back:" if edge.feedback else "│"
    arrow = Text(f"   {line} {edge.source} ─ ").append(edge.partitioner, style="bold").append(f" → {edge.target}")
    if edge.side_output is not None:
        arrow.append(f"   side output '{edge.side_output}'")
    relays = [str(level) for level in range(source_level + 1, target_level)]
    if relays:
        arrow.append(f"   relayed by level {', '.join(relays)}", style="dim")
    return arrow


def _total(widths: Sequence[int]) -> str:
    slots = sum(widths)
    total = f"{len(widths)} level{'s'[: len(widths) > 1]}, {slots} slot{'s'[: slots > 1]} in STREAMING mode"
    return f"{total}: {' + '.join(map(str, widths))}" if len(widths) > 1 else total
