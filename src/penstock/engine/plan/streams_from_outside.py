"""Structured iterations whose operators are connected to streams from outside: their heads have to know it."""

from __future__ import annotations

import copy
import dataclasses

from penstock.engine.plan.plan import Plan
from penstock.engine.plan.regions import loops_of
from penstock.engine.runtime.operators.superstep_head import SuperstepHead


def note_streams_from_outside(plan: Plan) -> Plan:
    """Tell the heads of each iteration whether other operators of it read streams from outside."""
    heads = {id: node.operator for id, node in plan.nodes.items() if isinstance(node.operator, SuperstepHead)}
    if not heads:
        return plan
    nodes = dict(plan.nodes)
    edges = [(edge.source, edge.target) for edge in plan.edges]
    for loop in loops_of(plan.nodes, edges):
        if any(target in loop and source not in loop and target not in heads for source, target in edges):
            for id in loop & heads.keys():
                head = copy.copy(heads[id])
                head.reads_outside = True
                nodes[id] = dataclasses.replace(nodes[id], operator=head)
    return dataclasses.replace(plan, nodes=nodes)
