"""Structured iterations behind others: each head learns when those before its iteration have ended."""

from __future__ import annotations

import copy
import dataclasses

from penstock.engine.plan.plan import Plan
from penstock.engine.plan.regions import loops_of, reached
from penstock.engine.plan.stream_graph import StreamEdge
from penstock.engine.runtime.network.superstep_partitioners import EndPartitioner
from penstock.engine.runtime.operators.superstep_head import EARLIER, END, SuperstepHead


def await_earlier_iterations(plan: Plan) -> Plan:
    """Connect all heads of an iteration with each iteration that leads to it.

    Until that has ended, superstep 0 of the later one has not ended in any subtask, and checkpoints may pass it. The
    supersteps of unbounded streams wait for nothing.
    """
    heads = {id: node.operator for id, node in plan.nodes.items() if isinstance(node.operator, SuperstepHead)}
    edges = [(edge.source, edge.target) for edge in plan.edges]
    iterations = [
        (loop, inside)
        for loop in (loops_of(plan.nodes, edges) if len(heads) > 1 else ())
        if (inside := sorted(loop & heads.keys())) and not any(heads[id].is_unbounded for id in inside)
    ]
    after: dict[int, list[int]] = {}
    for source, target in edges:
        after.setdefault(source, []).append(target)
    added = [
        # One head of the earlier iteration knows all: the others leave each superstep, and its end, at the same place.
        StreamEdge(earlier[0], head, EndPartitioner(), tag=END, input_index=EARLIER)
        for loop, earlier in iterations
        for later in (inside for other, inside in iterations if other is not loop and reached(min(loop), after) & other)
        for head in later
    ]
    if not added:
        return plan
    nodes = dict(plan.nodes)
    for id in {edge.target for edge in added}:
        head = copy.copy(heads[id])
        head.has_earlier = True
        nodes[id] = dataclasses.replace(nodes[id], operator=head)
    return dataclasses.replace(plan, nodes=nodes, edges=[*plan.edges, *added])
