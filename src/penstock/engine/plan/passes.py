"""The passes of the plan: each is a small function from plan to plan, applied before operators are chained.

Nodes and edges are immutable: a pass returns a plan with others in their place. What each pass has changed is recorded
for `penstock explain`.
"""

from __future__ import annotations

import dataclasses
import functools
import graphlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.common.errors import ProgramError
from penstock.common.functions.field_timestamp import FieldTimestamp
from penstock.engine.plan.column_operators import on_columns
from penstock.engine.plan.stream_graph import StreamEdge, StreamNode
from penstock.engine.plan.transformations import Chaining
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.execution_mode import BATCH, STREAMING, ExecutionMode
from penstock.engine.runtime.network.partitioners import ForwardPartitioner
from penstock.engine.runtime.operators.operator import Operator

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


@dataclasses.dataclass(frozen=True)
class Plan:
    """The operators of a program, by id, and the edges between them."""

    nodes: Mapping[int, StreamNode]
    edges: Sequence[StreamEdge]
    may_chain: bool = True
    """Whether operators are chained: `pipeline.operator-chaining.enabled`."""
    aggregates_locally: bool = True
    """Whether windows of columns aggregate before the exchange: `penstock.columns.local-aggregation`."""

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
        if number in after.nodes and (now := after.nodes[number].operator) is not node.operator:
            yield f"replaced the operator of '{node.name}': {type(now).__name__}"
    for removed, node in before.nodes.items():
        if removed not in after.nodes:
            yield f"removed '{node.name}'"
    for edge in after.edges:
        if edge.columns is not None and not any(edge is one for one in before.edges):
            yield f"columns from '{after.nodes[edge.source].name}' to '{after.nodes[edge.target].name}'{_carried(edge)}"
    # By identity: edges that a pass keeps are the same objects, and a program may have thousands.
    kept = [id(edge) for edge in after.edges]
    common = set(kept).intersection(map(id, before.edges))
    if [one for one in kept if one in common] != [one for one in map(id, before.edges) if one in common]:
        yield f"ordered the inputs: '{after.nodes[after.edges[0].source].name}' is read first"


def _carried(edge: StreamEdge) -> str:
    """Return what an edge of columns carries, for people."""
    assert edge.columns is not None
    keys = f", keyed by {' and '.join(edge.partitioner.fields)}" if edge.partitioner.fields else ""
    time = f", with {edge.event_time_field} as event time" if edge.event_time_field else ""
    return f": {', '.join(edge.columns.names)}{keys}{time}"


def refuse_loops(plan: Plan) -> Plan:
    """Raise ProgramError if something is fed back. Source: Flink docs, "Execution Mode".

    A batched stage ends before the next begins.
    """
    for edge in plan.edges:
        if edge.feedback:
            raise ProgramError(
                f"the iteration '{plan.nodes[edge.target].name}' can't run in BATCH mode, in which nothing is fed "
                "back: call env.set_runtime_mode(RuntimeExecutionMode.STREAMING), or set execution.runtime-mode"
            )
    return plan


def add_combiners(plan: Plan) -> Plan:
    """Insert a combiner before keyed exchanges whose target operator has one, to send fewer records."""
    nodes, edges = dict(plan.nodes), list(plan.edges)
    for position, edge in enumerate(plan.edges):
        combiner = nodes[edge.target].operator.combiner() if edge.partitioner.keyed else None
        if combiner is None:
            continue
        source, id = nodes[edge.source], max(nodes) + 1
        nodes[id] = dataclasses.replace(
            source, id=id, name=combiner.name, operator=combiner, uid=f"{source.uid}/combine/{nodes[edge.target].uid}"
        )
        edges.append(StreamEdge(edge.source, id, ForwardPartitioner(), edge.tag))
        edges[position] = dataclasses.replace(edge, source=id, tag=None)
    return dataclasses.replace(plan, nodes=nodes, edges=edges)


def convert_kinds(plan: Plan) -> Plan:
    """Insert conversions where kinds of chunks meet.

    An edge carries columns to another task if its partitioner can divide them. Otherwise they become rows before it,
    and columns again behind it. Conversions are in the task of the operator that they are for.
    """
    return _Conversions(plan, _may_carry).converted()


def convert_kinds_within_chains(plan: Plan) -> Plan:
    """Insert conversions as `convert_kinds` does, where edges between tasks carry rows: a batched task sorts them."""
    return _Conversions(plan, lambda edge, columns: False).converted()


def _may_carry(edge: StreamEdge, columns: RecordColumns) -> bool:
    return not edge.feedback and columns.can_be_sent and edge.partitioner.carries_columns(columns)


class _Conversions:
    """The conversions of a plan: at most one before an operator that takes columns, one behind each output of them."""

    def __init__(self, plan: Plan, may_carry: Callable[[StreamEdge, RecordColumns], bool]) -> None:
        self._plan = plan
        self._may_carry = may_carry
        self._nodes = dict(plan.nodes)
        self._edges: list[StreamEdge] = []
        self._next_id = max(plan.nodes, default=0) + 1
        self._known: dict[str, int] = {}
        """uid of a conversion -> its node."""

    def converted(self) -> Plan:
        """Return the plan with conversions; the plan itself if it needs none."""
        plan = self._plan
        to_convert = {edge.target for edge in plan.edges if self._takes_columns(edge) and not self._fits(edge)}
        for edge in plan.edges:
            given = self._given(edge)
            if edge.target in to_convert:
                self._edges.append(self._to_columns(edge if given is None else self._to_rows(edge, given)))
            elif given is None:
                self._edges.append(edge)
            elif not self._takes_columns(edge):
                self._edges.append(self._to_rows(edge, given))
            else:
                read = plan.nodes[edge.target].operator.read_columns()
                sent = None if plan.chains(edge) else given if read is None else given.only(read)
                self._edges.append(edge if sent is None else dataclasses.replace(edge, columns=sent))
        if self._edges == list(plan.edges):
            return plan
        return dataclasses.replace(plan, nodes=self._nodes, edges=self._edges)

    def _given(self, edge: StreamEdge) -> RecordColumns | None:
        return self._plan.nodes[edge.source].operator.given_columns(edge.tag)

    def _takes_columns(self, edge: StreamEdge) -> bool:
        return self._plan.nodes[edge.target].operator.takes is ChunkKind.COLUMNS

    def _fits(self, edge: StreamEdge) -> bool:
        given = self._given(edge)
        return given is not None and (self._plan.chains(edge) or self._may_carry(edge, given))

    def _to_rows(self, edge: StreamEdge, columns: RecordColumns) -> StreamEdge:
        """Return the edge from a conversion behind its source, which all edges of that output share."""
        from penstock.engine.runtime.columns.conversions import TO_ROWS, ToRowsOperator

        source = self._plan.nodes[edge.source]
        uid = f"{source.uid}/to-rows" + ("" if edge.tag is None else f"/{edge.tag.tag_id}")
        if uid not in self._known:
            id = self._add(source, uid, TO_ROWS, ToRowsOperator(columns))
            self._edges.append(StreamEdge(edge.source, id, ForwardPartitioner(), edge.tag))
        return dataclasses.replace(edge, source=self._known[uid], tag=None)

    def _to_columns(self, edge: StreamEdge) -> StreamEdge:
        """Return the edge to a conversion before its target, which all edges to the target share."""
        from penstock.engine.runtime.columns.conversions import TO_COLUMNS, ToColumnsOperator

        target = self._plan.nodes[edge.target]
        uid = f"{target.uid}/to-columns"
        if uid not in self._known:
            received = target.operator.columns_received
            assert received is not None, f"{target.name} does not say which columns it receives"
            id = self._add(target, uid, TO_COLUMNS, ToColumnsOperator(received))
            self._edges.append(StreamEdge(id, target.id, ForwardPartitioner()))
        return dataclasses.replace(edge, target=self._known[uid])

    def _add(self, beside: StreamNode, uid: str, name: str, operator: Operator) -> int:
        # By the operator's uid alone: records in flight belong to a conversion at the head of a task, and are restored.
        id = self._known[uid] = self._next_id
        self._next_id += 1
        self._nodes[id] = dataclasses.replace(
            beside, id=id, name=name, operator=operator, uid=uid, uid_is_users=False, is_conversion=True
        )
        return id


def aggregate_before_exchanges(plan: Plan) -> Plan:
    """Let windows of columns aggregate before the exchange as well, to send fewer records."""
    if not plan.aggregates_locally:
        return plan
    nodes, edges = dict(plan.nodes), list(plan.edges)
    for id, node in plan.nodes.items():
        inputs = plan.inputs.get(id, ())
        # Side outputs have rows.
        if not inputs or any(plan.nodes[edge.source].operator.given_columns(edge.tag) is None for edge in inputs):
            continue
        if not all(edge.partitioner.keyed for edge in inputs) or (both := node.operator.local_and_global()) is None:
            continue
        local, nodes[id] = both[0], dataclasses.replace(node, operator=both[1])
        for edge in inputs:
            source, added = plan.nodes[edge.source], max(nodes) + 1
            uid = f"{source.uid}/local/{node.uid}"
            nodes[added] = dataclasses.replace(
                source, id=added, name=local.name, operator=local, uid=uid, uid_is_users=False
            )
            edges.append(StreamEdge(edge.source, added, ForwardPartitioner()))
            edges[edges.index(edge)] = dataclasses.replace(edge, source=added)
    return plan if edges == list(plan.edges) else dataclasses.replace(plan, nodes=nodes, edges=edges)


def run_on_rows(plan: Plan) -> Plan:
    """Replace operators on columns by those that do the same on rows: a batched task sorts rows by key."""
    on_rows = {
        id: dataclasses.replace(node, operator=operator)
        for id, node in plan.nodes.items()
        if (operator := node.operator.on_rows()) is not None
    }
    return dataclasses.replace(plan, nodes={**plan.nodes, **on_rows}) if on_rows else plan


def read_columns(plan: Plan) -> Plan:
    """Let a source give columns where its records only become columns, if it can."""
    for id, node in plan.nodes.items():
        if node.operator.source is None:
            continue
        leaving = [edge for edge in plan.edges if edge.source == id]
        if len(leaving) != 1 or not plan.chains(leaving[0]):
            continue
        target = plan.nodes[leaving[0].target]
        columns = target.operator.converts_to
        operator = None if columns is None else on_columns(node.operator, _read_of(columns, target, node, plan))
        if operator is not None:
            nodes = {**plan.nodes, id: dataclasses.replace(node, operator=operator)}
            del nodes[target.id]
            edges = [
                dataclasses.replace(edge, source=id) if edge.source == target.id else edge
                for edge in plan.edges
                if edge is not leaving[0]
            ]
            plan = dataclasses.replace(plan, nodes=nodes, edges=edges)
    return plan


def _read_of(columns: RecordColumns, conversion: StreamNode, source: StreamNode, plan: Plan) -> RecordColumns:
    """Return those of the columns that are read, of a source's records or behind their conversion."""
    strategy = source.operator.strategy
    assigner = None if strategy is None else strategy.timestamp_assigner
    read = {assigner.field} if isinstance(assigner, FieldTimestamp) else set()
    for edge in plan.edges:
        if edge.source == conversion.id:
            carried = edge.columns
            names = plan.nodes[edge.target].operator.read_columns() if carried is None else carried.names
            if names is None:
                return columns
            read.update(names)
    return columns.only([name for name in columns.names if name in read])


def write_columns(plan: Plan) -> Plan:
    """Let sinks take columns whose records are columns, if they can."""
    nodes = dict(plan.nodes)
    for id, node in plan.nodes.items():
        if not node.operator.is_sink:
            continue
        given = [plan.nodes[edge.source].operator.given_columns(edge.tag) for edge in plan.inputs.get(id, ())]
        first = given[0] if given else None
        if first is None or any(one is None or one.schema != first.schema for one in given):
            continue
        operator = on_columns(node.operator, first)
        if operator is not None:
            nodes[id] = dataclasses.replace(node, operator=operator)
    return plan if nodes == plan.nodes else dataclasses.replace(plan, nodes=nodes)


def name_event_time(plan: Plan) -> Plan:
    """Name the column of the timestamps on edges that carry it, which then need not send timestamps as well."""
    fields: dict[int, str | None] = {}
    for id in _in_order(plan):
        received = {fields[edge.source] for edge in plan.inputs.get(id, ())}
        fields[id] = plan.nodes[id].operator.event_time_field(received.pop() if len(received) == 1 else None)
    edges = [
        dataclasses.replace(edge, event_time_field=field)
        if edge.columns is not None and (field := fields[edge.source]) in edge.columns.names
        else edge
        for edge in plan.edges
    ]
    return plan if edges == list(plan.edges) else dataclasses.replace(plan, edges=edges)


def _in_order(plan: Plan) -> Iterable[int]:
    """Return the nodes, each behind those of its inputs."""
    return graphlib.TopologicalSorter(
        {id: [edge.source for edge in plan.inputs.get(id, ())] for id in plan.nodes}
    ).static_order()


def read_broadcasts_first(plan: Plan) -> Plan:
    """Order edges as a batched task has to read them: its input is sorted by the numbers of edges.

    An operator must read all of a broadcast input before the first record of another input. Key groups do not change
    this order: rows of a broadcast carry no key group, and sort before rows that do.
    """
    edges = sorted(plan.edges, key=lambda edge: not edge.partitioner.broadcasts)
    return plan if edges == list(plan.edges) else dataclasses.replace(plan, edges=edges)


PASSES: Mapping[ExecutionMode, tuple[Pass, ...]] = {
    STREAMING: (write_columns, aggregate_before_exchanges, convert_kinds, read_columns, name_event_time),
    BATCH: (refuse_loops, run_on_rows, add_combiners, convert_kinds_within_chains, read_broadcasts_first),
}
"""The passes of each mode, in order."""
