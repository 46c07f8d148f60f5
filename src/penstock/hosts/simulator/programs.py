"""Programs as data: run by the simulator, evaluated by the plain evaluation, printed by reports.

A record is a tuple (origin, path, key, number). `origin` and `path` identify its source: the split, the position in it,
and the index among the outputs of a flat_map, so that any sink can check the order of records.
"""

from __future__ import annotations

import dataclasses
from typing import Any

Record = tuple[str, tuple[int, ...], int, int]
Timed = tuple[Record, int | None]


@dataclasses.dataclass(frozen=True)
class SplitScript:
    """The records of one source split. `pauses`: position -> ms without data when it is reached."""

    split_id: str
    index: int
    records: tuple[tuple[Record, int], ...]
    pauses: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Node:
    """A step of a program. `settings` depend on its kind."""

    id: int
    kind: str
    inputs: tuple[int, ...]
    parallelism: int = 1
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        shown = {
            key: value if key != "splits" else [f"{len(s.records)} records, pauses {dict(s.pauses)}" for s in value]
            for key, value in self.settings.items()
        }
        settings = ", ".join(f"{key}={value}" for key, value in shown.items())
        inputs = ", ".join(f"n{id}" for id in self.inputs)
        return f"n{self.id} = {self.kind}({inputs}) x{self.parallelism} {settings}".rstrip()


@dataclasses.dataclass(frozen=True)
class Program:
    """A complete program, inputs before their consumers. `exact_time`: no record is ever late in it."""

    nodes: tuple[Node, ...]
    batched: bool = False
    chaining: bool = True
    max_parallelism: int | None = None
    buffer_timeout_ms: int = 5
    watermark_interval_ms: int = 200
    exact_time: bool = True

    def node(self, id: int) -> Node:
        """Return the node with that id."""
        return next(node for node in self.nodes if node.id == id)

    @property
    def sinks(self) -> list[Node]:
        """Return the sinks."""
        return [node for node in self.nodes if node.kind in ("collect", "write")]

    def __str__(self) -> str:
        settings = (
            f"{'batched' if self.batched else 'pipelined'}, chaining {self.chaining}, max parallelism "
            f"{self.max_parallelism}, buffer timeout {self.buffer_timeout_ms} ms, watermarks every "
            f"{self.watermark_interval_ms} ms, exact time {self.exact_time}"
        )
        return "\n".join([f"  program: {settings}", *(f"    {node}" for node in self.nodes)])
