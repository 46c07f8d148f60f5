"""The pass that lets windows of rows with declared fields run on columns, where the results are exactly those of rows.

Columns are faster from some tens of records in a chunk and window on, a figure that no plan knows. So the choice that
depends on it is made while the job runs, by the conversion for chunks and by the operator for windows, whose state has
the forms of both. The plan decides where this is possible.
"""

from __future__ import annotations

import dataclasses

from penstock.engine.plan.plan import Plan
from penstock.engine.plan.stream_graph import StreamEdge, StreamNode
from penstock.engine.plan.transformations import ColumnChoice, OperatorTransformation
from penstock.engine.runtime.network.partitioners import ForwardPartitioner

_OPTION = "penstock.columns.automatic is false"


def choose_columns(plan: Plan) -> Plan:
    """Let operators that have the choice run on columns, with a conversion in the chain before each exchange."""
    nodes, edges, choices = dict(plan.nodes), list(plan.edges), dict(plan.choices)
    for id, node in plan.nodes.items():
        transformation = node.transformation
        choice = transformation.on_columns if isinstance(transformation, OperatorTransformation) else None
        if choice is None:
            continue
        reason = _reason_for_rows(plan, node, choice)
        choices[id] = "columns: its fields have declared types" if reason is None else f"rows: {reason}"
        if reason is not None:
            continue
        operator = choice.operator(node.operator.name)
        nodes[id] = dataclasses.replace(node, operator=operator)
        known: dict[str, int] = {}
        for position, edge in enumerate(plan.edges):
            if edge.target != id:
                continue
            source, conversion = plan.nodes[edge.source], choice.conversion()
            uid = f"{source.uid}/to-columns/{node.uid}" + ("" if edge.tag is None else f"/{edge.tag.tag_id}")
            # A union may have a stream twice.
            if uid not in known:
                known[uid] = added = max(nodes) + 1
                nodes[added] = dataclasses.replace(
                    source,
                    id=added,
                    name=conversion.name,
                    operator=conversion,
                    uid=uid,
                    uid_is_users=False,
                    is_conversion=True,
                )
                edges.append(StreamEdge(edge.source, added, ForwardPartitioner(), edge.tag))
            edges[position] = dataclasses.replace(edge, source=known[uid], tag=None)
    return plan if choices == plan.choices else dataclasses.replace(plan, nodes=nodes, edges=edges, choices=choices)


def _reason_for_rows(plan: Plan, node: StreamNode, choice: ColumnChoice) -> str | None:
    if not plan.chooses_columns:
        return _OPTION
    inputs = plan.inputs.get(node.id, ())
    if any(plan.nodes[edge.source].operator.given_columns(edge.tag) is not None for edge in inputs):
        return "some of its streams have columns, and others rows"
    if not inputs or not all(edge.partitioner.keyed and edge.partitioner.fields for edge in inputs):
        return "its records do not come over an exchange by fields"
    return choice.reason_for_rows()
