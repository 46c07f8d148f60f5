"""What the tests of this folder share: programs drawn by Hypothesis, and small ones written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st

from penstock.common.configuration import Configuration
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.hosts.simulator.generation import generate_from
from penstock.hosts.simulator.programs import Program, Record, SplitScript
from penstock.hosts.simulator.sources import ScriptedSource
from penstock.service.client.context_environment import ContextEnvironment, as_context
from penstock.service.client.plan_executor import PlanExecutor

ROOMY = Circumstances()
TIGHT = Circumstances(
    tick_ns_max=1_000,
    step_ns=3_000,
    step_bytes=100,
    chunk_records=2,
    buffer_records=2,
    buffer_bytes=100,
    channel_rows=1,
)


def seeds(count: int, in_soak: int) -> list[Any]:
    """Parameters of a test: so many seeds from 0 on, and those behind them in the soak."""
    return [*range(count), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(count, count + in_soak))]


def programs() -> st.SearchStrategy[tuple[Program, Circumstances]]:
    """Programs with circumstances. They shrink, since every choice is Hypothesis' own."""
    return st.randoms(use_true_random=False).map(lambda random: (generate_from(random), Circumstances.draw(random)))


def script(split: int, count: int, pace_ms: int = 10, pauses: tuple[tuple[int, int], ...] = ()) -> SplitScript:
    """A split of `count` records, `pace_ms` apart in event time, with keys 0 to 4."""
    records: list[tuple[Record, int]] = [((f"s{split}", (i,), i % 5, i), i * pace_ms) for i in range(count)]
    return SplitScript(f"s{split}", split, tuple(records), pauses)


def scripted(*scripts: SplitScript, chunk: int = 2) -> ScriptedSource:
    """A source that plays scripts."""
    return ScriptedSource(scripts, chunk_records_max=chunk)


def environment(parallelism: int = 2) -> StreamExecutionEnvironment:
    """An environment of a pipelined program."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(parallelism)
    return env


def graph_of(env: StreamExecutionEnvironment) -> JobGraph:
    """The job graph of a program."""
    executor = PlanExecutor()
    with as_context(ContextEnvironment(Configuration(), executor)):
        env.execute("by hand")
    return executor.graphs[0]


def simulate(
    env: StreamExecutionEnvironment, seed: int, circumstances: Circumstances = TIGHT, **settings: Any
) -> Simulation:
    """A simulation of a program, not yet run."""
    return Simulation(graph_of(env), Random(seed), circumstances, Trace(), **settings)


@contextmanager
def explained(simulation: Simulation) -> Iterator[None]:
    """An internal error must print the last events."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{simulation.trace}") from error
