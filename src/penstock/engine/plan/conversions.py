"""The passes that insert conversions: between rows and columns, and between orders of columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.engine.plan.plan import Plan
from penstock.engine.plan.stream_graph import StreamEdge, StreamNode
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.network.partitioners import ForwardPartitioner
from penstock.engine.runtime.operators.operator import Operator

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


def order_columns(plan: Plan) -> Plan:
    """Give columns the order that their reader expects: the streams of a union may differ in it."""
    from penstock.engine.runtime.columns.operators import ProjectOperator

    nodes, edges = dict(plan.nodes), list(plan.edges)
    for position, edge in enumerate(plan.edges):
        source, received = plan.nodes[edge.source], plan.nodes[edge.target].operator.columns_received
        given = source.operator.given_columns(edge.tag)
        if given is None or received is None or given.names == received.names or not edge.gets_records:
            continue
        if sorted(given.names) != sorted(received.names) or not received.can_be(given.only(received.names)):
            continue
        operator, id = ProjectOperator(given, received), max(nodes) + 1
        uid = f"{source.uid}/ordered/{plan.nodes[edge.target].uid}"
        nodes[id] = dataclasses.replace(
            source, id=id, name=operator.name, operator=operator, uid=uid, uid_is_users=False, is_conversion=True
        )
        edges[position] = dataclasses.replace(edge, source=id, tag=None)
        edges.append(StreamEdge(edge.source, id, ForwardPartitioner(), edge.tag))
    return plan if edges == list(plan.edges) else dataclasses.replace(plan, nodes=nodes, edges=edges)


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
    # The head of an asynchronous loop takes rows.
    return columns.can_be_sent and edge.partitioner.carries_columns(columns)


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
        to_convert = {
            edge.target
            for edge in plan.edges
            if edge.gets_records and self._takes_columns(edge) and not self._fits(edge)
        }
        for edge in plan.edges:
            given = self._given(edge)
            if not edge.gets_records:
                self._edges.append(edge)
            elif edge.target in to_convert:
                self._edges.append(self._to_columns(edge if given is None else self._to_rows(edge, given)))
            elif given is None:
                self._edges.append(edge)
            elif not self._takes_columns(edge):
                self._edges.append(self._to_rows(edge, given))
            else:
                sent = None if plan.chains(edge) else self._sent(edge, given)
                self._edges.append(edge if sent is None else dataclasses.replace(edge, columns=sent))
        if self._edges == list(plan.edges):
            return plan
        return dataclasses.replace(plan, nodes=self._nodes, edges=self._edges)

    def _sent(self, edge: StreamEdge, given: RecordColumns) -> RecordColumns:
        """Return the columns that an exchange carries: those that its reader reads, and those of the key.

        In the order of the sender's chunks: of one with the same columns all are sent as they are.
        """
        read = self._plan.nodes[edge.target].operator.columns_read(edge.input_index)
        if read is None:
            return given
        sent = {*read, *edge.partitioner.fields}
        return given.only([name for name in given.names if name in sent])

    def _given(self, edge: StreamEdge) -> RecordColumns | None:
        return self._plan.nodes[edge.source].operator.given_columns(edge.tag)

    def _takes_columns(self, edge: StreamEdge) -> bool:
        return self._plan.nodes[edge.target].operator.takes is ChunkKind.COLUMNS

    def _fits(self, edge: StreamEdge) -> bool:
        given, received = self._given(edge), self._plan.nodes[edge.target].operator.columns_received
        if given is None or (received is not None and not received.can_be(given)):
            return False
        return self._plan.chains(edge) or self._may_carry(edge, given)

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
