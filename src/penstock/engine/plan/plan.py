"""The plan of a program: immutable nodes and edges, which passes replace before operators are chained.

What each pass has changed is recorded for `penstock explain`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from penstock.engine.plan.stream_graph import StreamEdge, StreamNode
from penstock.engine.plan.transformations import Chaining
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.operators.operator import Operator


@dataclasses.dataclass(frozen=True)
class Plan:
    """The operators of a program, by id, and the edges between them."""

    nodes: Mapping[int, StreamNode]
    edges: Sequence[StreamEdge]
    may_chain: bool = True
    """Whether operators are chained: `pipeline.operator-chaining.enabled`."""
    aggregates_locally: bool = True
    """Whether windows of columns aggregate before the exchange: `penstock.columns.local-aggregation`."""
    chooses_columns: bool = True
    """Whether windows of rows may run on columns: `penstock.columns.automatic`."""
    choices: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Node -> whether it runs on rows or columns, and why, where there was a choice."""

    @functools.cached_property
    def inputs(self) -> Mapping[int, Sequence[StreamEdge]]:
        """The edges to each node, without feedback, which has a channel of its own."""
        inputs: dict[int, list[StreamEdge]] = defaultdict(list)
        for edge in self.edges:
            if not edge.feedback:
                inputs[edge.target].append(edge)
        return inputs

    def chains(self, edge: StreamEdge) -> bool:
        """Return whether the target runs in the chain of the source.

        A target with a second edge, to the same input or to another one, is the head of its own vertex: its task passes
        it one work item at a time. In a chain, the second of two paths that meet in the operator would pass it a chunk
        while it still holds one of the first (`engine/runtime/operators/operator.py`, Pausing). Flink does the same.
        """
        source, target = self.nodes[edge.source], self.nodes[edge.target]
        # A chained operator is called by its one predecessor, in the same task. So the edge must keep every record in
        # its subtask (forward, equal parallelism) and be the only input: with two inputs, the operator's watermark is
        # a minimum over channels, which only a task's valve computes.
        if (
            edge.feedback
            or not edge.partitioner.keeps_subtask
            or len(self.inputs[edge.target]) > 1
            or source.parallelism != target.parallelism
        ):
            return False
        if target.operator.is_before_edge:
            return True
        if source.is_conversion and source.operator.gives is not ChunkKind.ROWS:
            return True
        if target.is_conversion and target.operator.takes is not ChunkKind.ROWS:
            return True
        return (
            self.may_chain
            and source.transformation.chaining is not Chaining.NEVER
            and target.transformation.chaining is Chaining.ALWAYS
            and source.transformation.slot_sharing_group == target.transformation.slot_sharing_group
        )


Pass = Callable[[Plan], Plan]


class Change(NamedTuple):
    """A change that a pass has made."""

    pass_name: str
    text: str


def applied(plan: Plan, passes: Iterable[Pass]) -> tuple[Plan, list[Change]]:
    """Apply passes one after the other. Returns the last plan, and what has changed. Raises what the passes raise."""
    changes: list[Change] = []
    for one in passes:
        before, plan = plan, one(plan)
        if plan is not before:
            name = one.__name__.replace("_", " ")
            changes += [Change(name, text) for text in _differences(before, plan)]
    return plan, changes


def _differences(before: Plan, after: Plan) -> Iterable[str]:
    for added, node in after.nodes.items():
        if added not in before.nodes:
            targets = [after.nodes[edge.target].name for edge in after.edges if edge.source == added]
            yield f"added '{node.name}' before '{', '.join(targets)}'"
    for number, node in before.nodes.items():
        # A choice tells it, and why.
        if number in after.nodes and after.choices.get(number) == before.choices.get(number):
            yield from _replaced(node.name, node.operator, after.nodes[number].operator)
    for number, choice in after.choices.items():
        if number not in before.choices:
            yield f"'{after.nodes[number].name}' runs on {choice}"
    for removed, node in before.nodes.items():
        if removed not in after.nodes:
            yield f"removed '{node.name}'"
    # By identity: edges that a pass keeps are the same objects, and a program may have thousands.
    known = [id(edge) for edge in before.edges]
    common = set(known).intersection(map(id, after.edges))
    for edge in after.edges:
        if edge.columns is not None and id(edge) not in common:
            yield f"columns from '{after.nodes[edge.source].name}' to '{after.nodes[edge.target].name}'{_carried(edge)}"
    if [one for one in map(id, after.edges) if one in common] != [one for one in known if one in common]:
        yield f"ordered the inputs: '{after.nodes[after.edges[0].source].name}' is read first"


def _replaced(name: str, before: Operator, now: Operator) -> Iterable[str]:
    """Yield what another operator of a node changes, for people: the class is ours."""
    if now is before:
        return
    kinds = [(verb, getattr(before, verb), getattr(now, verb)) for verb in ("takes", "gives")]
    changed = [
        f"{verb} {new.name.lower()} in place of {old.name.lower()}" for verb, old, new in kinds if old is not new
    ]
    yield f"'{name}' {' and '.join(changed)}" if changed else f"changed '{name}'"


def _carried(edge: StreamEdge) -> str:
    """Return what an edge of columns carries, for people."""
    assert edge.columns is not None
    keys = f", keyed by {' and '.join(edge.partitioner.fields)}" if edge.partitioner.fields else ""
    time = f", with {edge.event_time_field} as event time" if edge.event_time_field else ""
    return f": {', '.join(edge.columns.names)}{keys}{time}"
