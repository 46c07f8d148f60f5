"""The passes of the plan, in order: each is a small function from plan to plan, which returns one with other nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from penstock.common.errors import ProgramError
from penstock.engine.plan.automatic_columns import choose_columns
from penstock.engine.plan.chained_iterations import await_earlier_iterations
from penstock.engine.plan.column_passes import (
    aggregate_before_exchanges,
    iterate_on_columns,
    name_event_time,
    read_as_columns,
    run_on_rows,
    write_as_columns,
    write_as_columns_within_chains,
)
from penstock.engine.plan.conversions import convert_kinds, convert_kinds_within_chains, order_columns
from penstock.engine.plan.plan import Pass, Plan
from penstock.engine.plan.stream_graph import StreamEdge
from penstock.engine.plan.streams_from_outside import note_streams_from_outside
from penstock.engine.runtime.execution_mode import BATCH, STREAMING, ExecutionMode
from penstock.engine.runtime.network.partitioners import ForwardPartitioner


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


def read_broadcasts_first(plan: Plan) -> Plan:
    """Order edges as a batched task has to read them: its input is sorted by the numbers of edges.

    An operator must read all of a broadcast input before the first record of another input. Key groups do not change
    this order: rows of a broadcast carry no key group, and sort before rows that do.
    """
    edges = sorted(plan.edges, key=lambda edge: not edge.partitioner.broadcasts)
    return plan if edges == list(plan.edges) else dataclasses.replace(plan, edges=edges)


PASSES: Mapping[ExecutionMode, tuple[Pass, ...]] = {
    STREAMING: (
        choose_columns,
        iterate_on_columns,
        write_as_columns,
        aggregate_before_exchanges,
        order_columns,
        convert_kinds,
        read_as_columns,
        name_event_time,
        note_streams_from_outside,
        await_earlier_iterations,
    ),
    BATCH: (
        refuse_loops,
        run_on_rows,
        write_as_columns_within_chains,
        add_combiners,
        order_columns,
        convert_kinds_within_chains,
        read_as_columns,
        read_broadcasts_first,
    ),
}
"""The passes of each mode, in order."""
