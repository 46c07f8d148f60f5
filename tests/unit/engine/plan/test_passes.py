"""Passes of the plan: each changes what it says, and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from penstock.common import Types, WatermarkStrategy
from penstock.common.errors import ProgramError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import BroadcastProcessFunction
from penstock.datastream.state import MapStateDescriptor
from penstock.engine.plan.passes import (
    PASSES,
    add_combiners,
    read_broadcasts_first,
    refuse_loops,
)
from penstock.engine.plan.plan import Change, Plan, applied
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import BATCH


def numbers(env: StreamExecutionEnvironment) -> DataStream[Any]:
    """Return a bounded stream of pairs."""
    source = NumberSequenceSource(1, 9)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(lambda n: (n % 3, n))


def plan_of(env: StreamExecutionEnvironment) -> Plan:
    """Return the plan of a program before any pass."""
    graph = StreamGraph(env._sinks, GraphSettings())
    return Plan(graph.nodes, graph.edges)


def sums() -> Plan:
    """Return the plan of a sum by key."""
    env = StreamExecutionEnvironment()
    numbers(env).key_by(lambda pair: pair[0]).sum(1).print()
    return plan_of(env)


def names(plan: Plan) -> list[tuple[str, str]]:
    """Return the edges by names of operators."""
    return [(plan.nodes[edge.source].name, plan.nodes[edge.target].name) for edge in plan.edges]


def test_a_combiner_comes_before_the_exchange() -> None:
    """Each record would be sent, where one for each key is enough."""
    before = sums()
    after = add_combiners(before)
    assert ("Map", "Sum") in names(before)
    assert ("Map", "Sum (combine)") in names(after) and ("Sum (combine)", "Sum") in names(after)
    assert ("Map", "Sum") not in names(after)
    assert [edge.partitioner.ship_strategy for edge in after.edges if edge.partitioner.keyed] == ["HASH"]
    assert len({node.uid for node in after.nodes.values()}) == len(after.nodes)
    assert names(before) == names(sums()), "a pass leaves its input as it was"


def test_a_plan_without_keys_stays_as_it_is() -> None:
    """A pass that rewrites what it need not would cost an operator, and its state on restore."""
    env = StreamExecutionEnvironment()
    numbers(env).rebalance().map(lambda pair: pair).print()
    plan = plan_of(env)
    assert applied(plan, PASSES[BATCH]) == (plan, [])


class Rules(BroadcastProcessFunction):  # type: ignore[type-arg]
    """Reads rules."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Emit the value."""
        yield value

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        """Ignore the rule."""


def test_a_broadcast_is_read_before_the_other_input() -> None:
    """Records would be processed by half of the rules."""
    env = StreamExecutionEnvironment()
    rules = numbers(env).broadcast(MapStateDescriptor("rules", Types.INT(), Types.INT()))
    numbers(env).connect(rules).process(Rules()).print()
    before = plan_of(env)
    after, changes = applied(dataclasses.replace(before, may_chain=False), (read_broadcasts_first,))
    assert not after.may_chain, "a program that chains nothing would be chained"
    assert sorted(names(after)) == sorted(names(before))
    assert after.edges[0].partitioner.ship_strategy == "BROADCAST"
    assert changes == [Change("read broadcasts first", "ordered the inputs: 'Map' is read first")]


def test_what_is_fed_back_is_refused() -> None:
    """A batched job would end before its iteration."""
    env = StreamExecutionEnvironment()
    iteration = numbers(env).iterate()
    iteration.close_with(iteration.map(lambda pair: pair))
    iteration.print()
    with pytest.raises(ProgramError, match="can't run in BATCH mode"):
        refuse_loops(plan_of(env))


def test_changes_are_told_by_pass() -> None:
    """`penstock explain` would draw operators that the program does not have, without a reason."""
    _, changes = applied(sums(), PASSES[BATCH])
    assert changes == [Change("add combiners", "added 'Sum (combine)' before 'Sum'")]


def test_nodes_and_edges_are_immutable() -> None:
    """A pass could change the plan that another one compares with."""
    plan = sums()
    with pytest.raises(dataclasses.FrozenInstanceError):
        next(iter(plan.nodes.values())).parallelism = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.edges[0].source = 2  # type: ignore[misc]
