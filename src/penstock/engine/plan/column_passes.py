"""The passes that let operators work on columns, and in BATCH on rows."""

from __future__ import annotations

import dataclasses
import graphlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from penstock.common.functions.field_timestamp import FieldTimestamp
from penstock.engine.plan.column_operators import on_columns, superstep_head_on_columns
from penstock.engine.plan.plan import Plan
from penstock.engine.plan.stream_graph import StreamEdge, StreamNode
from penstock.engine.runtime.network.partitioners import ForwardPartitioner
from penstock.engine.runtime.operators.superstep_head import SuperstepHead

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


def iterate_on_columns(plan: Plan) -> Plan:
    """Let the workset of an iteration be columns, where its initial stream and what is fed back are the same columns.

    That of an unbounded stream is rows, because it waits for supersteps as such.
    """
    nodes = dict(plan.nodes)
    for id, node in plan.nodes.items():
        head = node.operator
        if type(head) is SuperstepHead and not head.is_unbounded:
            columns = _workset_columns(plan, id)
            if columns is not None:
                nodes[id] = dataclasses.replace(node, operator=superstep_head_on_columns(head, columns))
    return plan if nodes == plan.nodes else dataclasses.replace(plan, nodes=nodes)


def _workset_columns(plan: Plan, head: int) -> RecordColumns | None:
    worksets = [edge for edge in plan.edges if edge.target == head and edge.gets_records]
    given = [plan.nodes[edge.source].operator.given_columns(edge.tag) for edge in worksets]
    first = given[0]
    for edge, columns in zip(worksets, given, strict=True):
        if first is None or columns is None or columns.names != first.names or not first.can_be(columns):
            return None
        if edge.feedback and not (columns.can_be_sent and edge.partitioner.carries_columns(columns)):
            return None
    return first


def aggregate_before_exchanges(plan: Plan) -> Plan:
    """Let windows of columns aggregate before the exchange as well, to send fewer records."""
    if not plan.aggregates_locally:
        return plan
    nodes, edges = dict(plan.nodes), list(plan.edges)
    for id, node in plan.nodes.items():
        inputs = plan.inputs.get(id, ())
        # Most side outputs have rows.
        if not inputs or any(plan.nodes[edge.source].operator.given_columns(edge.tag) is None for edge in inputs):
            continue
        if not all(edge.partitioner.keyed for edge in inputs) or (both := node.operator.local_and_global()) is None:
            continue
        local, nodes[id] = both[0], dataclasses.replace(node, operator=both[1])
        known: dict[str, int] = {}
        for position, edge in enumerate(plan.edges):
            if edge.target != id or edge.feedback:
                continue
            source = plan.nodes[edge.source]
            uid = f"{source.uid}/local/{node.uid}" + ("" if edge.tag is None else f"/{edge.tag.tag_id}")
            # A union may have a stream twice.
            if uid not in known:
                known[uid] = added = max(nodes) + 1
                nodes[added] = dataclasses.replace(
                    source, id=added, name=local.name, operator=local, uid=uid, uid_is_users=False
                )
                edges.append(StreamEdge(edge.source, added, ForwardPartitioner(), edge.tag))
            edges[position] = dataclasses.replace(edge, source=known[uid], tag=None)
    return plan if edges == list(plan.edges) else dataclasses.replace(plan, nodes=nodes, edges=edges)


def run_on_rows(plan: Plan) -> Plan:
    """Replace operators on columns by those that do the same on rows: a batched task sorts rows by key."""
    on_rows = {
        id: dataclasses.replace(node, operator=operator)
        for id, node in plan.nodes.items()
        if (operator := node.operator.on_rows()) is not None
    }
    return dataclasses.replace(plan, nodes={**plan.nodes, **on_rows}) if on_rows else plan


def read_as_columns(plan: Plan) -> Plan:
    """Let a source give columns where its records only become columns, if it can."""
    for id, node in plan.nodes.items():
        if node.operator.source is None:
            continue
        # Side outputs have rows.
        leaving = [edge for edge in plan.edges if edge.source == id and edge.tag is None]
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
            target = plan.nodes[edge.target].operator
            names = target.columns_read(edge.input_index) if carried is None else carried.names
            if names is None:
                return columns
            read.update(names)
    return columns.only([name for name in columns.names if name in read])


def write_as_columns(plan: Plan) -> Plan:
    """Let sinks take columns whose records are columns, if they can."""
    return _write_as_columns(plan, lambda edge: True)


def write_as_columns_within_chains(plan: Plan) -> Plan:
    """Do what `write_as_columns` does, where edges between tasks carry rows."""
    return _write_as_columns(plan, plan.chains)


def _write_as_columns(plan: Plan, may_carry: Callable[[StreamEdge], bool]) -> Plan:
    nodes = dict(plan.nodes)
    for id, node in plan.nodes.items():
        if not node.operator.is_sink or not all(map(may_carry, plan.inputs.get(id, ()))):
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
