"""Programs for the tests of this folder: drawn by Hypothesis, and small ones written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.first_cases import first_of

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


SEEDS_IN_FAST = 2
"""So many seeds of each small program are in `make test-fast`."""


FIRST_SWEPT = 1
"""Sweeps begin with this seed: the program of seed 0 is one of the longest, and test_seeds.py runs it."""


def seeds(chosen: int | Sequence[int], in_soak: int) -> list[Any]:
    """Return parameters of a test: seeds, and `in_soak` further seeds marked as soak.

    `chosen`: the seeds, whose runs are short, or their number, from 0 on. The first ones are also in `make test-fast`.
    """
    here = range(chosen) if isinstance(chosen, int) else chosen
    others = (seed for seed in range(len(here) + in_soak) if seed not in here)
    return [
        *here[:SEEDS_IN_FAST],
        *(pytest.param(seed, marks=pytest.mark.thorough) for seed in here[SEEDS_IN_FAST:]),
        *first_of(0, others),
    ]


def sweeps(count: int, in_soak: int) -> list[Any]:
    """Return parameters of a test that runs many seeds itself: their number in `make test`, and in the soak."""
    return [pytest.param(count, marks=pytest.mark.thorough), pytest.param(in_soak, marks=pytest.mark.soak)]


def programs() -> st.SearchStrategy[tuple[Program, Circumstances]]:
    """Return a strategy for programs with circumstances. They shrink, because Hypothesis makes every choice."""
    return st.randoms(use_true_random=False).map(lambda random: (generate_from(random), Circumstances.draw(random)))


def script(split: int, count: int, pace_ms: int = 10, pauses: tuple[tuple[int, int], ...] = ()) -> SplitScript:
    """Return a split of `count` records, `pace_ms` apart in event time, with keys 0 to 4."""
    records: list[tuple[Record, int]] = [((f"s{split}", (i,), i % 5, i), i * pace_ms) for i in range(count)]
    return SplitScript(f"s{split}", split, tuple(records), pauses)


def scripted(*scripts: SplitScript, chunk: int = 2) -> ScriptedSource:
    """Return a source that plays scripts."""
    return ScriptedSource(scripts, chunk_records_max=chunk)


def environment(parallelism: int = 2) -> StreamExecutionEnvironment:
    """Return an environment for a pipelined program."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(parallelism)
    return env


def graph_of(env: StreamExecutionEnvironment) -> JobGraph:
    """Return the job graph of a program."""
    executor = PlanExecutor()
    with as_context(ContextEnvironment(Configuration(), executor)):
        env.execute("by hand")
    return executor.graphs[0]


def simulate(
    env: StreamExecutionEnvironment, seed: int, circumstances: Circumstances = TIGHT, **settings: Any
) -> Simulation:
    """Return a simulation of a program, before its run."""
    return Simulation(graph_of(env), Random(seed), circumstances, Trace(), **settings)


@contextmanager
def explained(simulation: Simulation) -> Iterator[None]:
    """Add the last events to an assertion error."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{simulation.trace}") from error
