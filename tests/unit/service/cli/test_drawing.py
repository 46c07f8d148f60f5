"""`penstock explain`'s drawing: boxes by level, labelled edges, slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console

from penstock.service.cli.drawing import draw


@dataclass(frozen=True)
class Vertex:
    id: int
    level: int
    parallelism: int
    labels: list[str] = field(default_factory=list)
    name: str = ""


@dataclass(frozen=True)
class Edge:
    source: int
    target: int
    partitioner: str
    side_output: str | None = None
    feedback: bool = False


@dataclass(frozen=True)
class Graph:
    vertices: list[Vertex]
    edges: list[Edge]


def drawn(graph: Graph) -> str:
    console = Console(file=StringIO(), width=80)
    draw(graph, console)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


def test_a_diamond_with_an_edge_that_skips_a_level() -> None:
    """Users looking for the bottleneck would not see which operators share a process, and which edges cross a stage."""
    graph = Graph(
        [
            Vertex(1, 0, 2, ["flights", "parse"]),
            Vertex(2, 1, 4, ["delays"]),
            Vertex(3, 1, 1, ["weather [hourly]"]),
            Vertex(4, 2, 2, name="out"),
        ],
        [
            Edge(1, 2, "HASH"),
            Edge(1, 3, "GLOBAL"),
            Edge(2, 4, "REBALANCE"),
            Edge(3, 4, "BROADCAST", "storms"),
            Edge(1, 4, "HASH"),
        ],
    )

    assert (
        drawn(graph)
        == """\
╭─ 1 ───────────╮
│ flights       │
│ ╰ parse       │
│ parallelism 2 │
╰───────────────╯
   │ 1 ─ HASH → 2
   │ 1 ─ GLOBAL → 3
╭─ 2 ───────────╮  ╭─ 3 ──────────────╮
│ delays        │  │ weather [hourly] │
│ parallelism 4 │  │ parallelism 1    │
╰───────────────╯  ╰──────────────────╯
   │ 2 ─ REBALANCE → 4
   │ 3 ─ BROADCAST → 4   side output 'storms'
   │ 1 ─ HASH → 4   relayed by level 1
╭─ 4 ───────────╮
│ out           │
│ parallelism 2 │
╰───────────────╯
3 levels, 8 slots in STREAMING mode: 2 + 4 + 2"""
    )


def test_a_job_of_one_level() -> None:
    """The smallest program would show a sum with a single term."""
    assert (
        drawn(Graph([Vertex(1, 0, 1, ["numbers", "print"])], [])).splitlines()[-1]
        == "1 level, 1 slot in STREAMING mode"
    )


def test_what_is_fed_back_is_drawn_below_its_sender() -> None:
    """A loop would look like a program without one, or like two edges into the same place."""
    back = Edge(2, 1, "HASH", "again", feedback=True)
    graph = Graph(
        [Vertex(0, 0, 1, ["a"]), Vertex(1, 1, 1, ["head"]), Vertex(2, 2, 1, ["body"])],
        [Edge(0, 1, "FORWARD"), Edge(1, 2, "HASH"), back],
    )
    lines = drawn(graph).splitlines()
    (line,) = [number for number, text in enumerate(lines) if "back:" in text]
    assert lines[line].strip() == "╰ back: 2 ─ HASH → 1   side output 'again'"
    assert any("body" in text for text in lines[:line])
