"""BATCH programs with iterations: the jobs that they run as, in order."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.programs import graph_of

from penstock.common.configuration import Configuration
from penstock.common.errors import ProgramError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.iteration import iterate
from penstock.service.client.context_environment import ContextEnvironment, as_context
from penstock.service.client.plan_executor import PlanExecutor


def environment() -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.set_parallelism(2)
    return env


def jobs(env: StreamExecutionEnvironment) -> list[tuple[str, list[str]]]:
    """Return the mode and the operators of each job of a program."""
    executor = PlanExecutor()
    with as_context(ContextEnvironment(Configuration(), executor)):
        env.execute("by hand")
    return [
        (graph.mode.name, sorted(name for vertex in graph.vertices for name in vertex.operators))
        for graph in executor.graphs
    ]


def doubled(stream: Any, name: str) -> Any:
    """Return the result of an iteration."""
    iteration = iterate(stream, 3, name=name)
    return iteration.close_with(iteration.map(lambda value: value * 2).name(f"Double in {name}"))


def test_an_iteration_is_a_job_between_two_others() -> None:
    """A stage would wait for what is fed back, or a sink would commit before the iteration has ended."""
    env = environment()
    numbers = env.from_collection([1, 2, 3]).map(lambda value: value + 1).name("Add")
    numbers.print()
    doubled(numbers, "Loop").map(str).name("Text").print()
    assert jobs(env) == [
        ("BATCH", ["Add", "Collection Source", "Exchange"]),
        ("STREAMING", ["Double in Loop", "Exchange", "Exchange of Add", "Loop"]),
        ("BATCH", ["Exchange of Add", "Exchange of Loop", "Print to Std. Out", "Print to Std. Out", "Text"]),
    ]


def test_an_iteration_behind_another_one() -> None:
    """The second one would begin before the first has ended, or both would be in one job with what is between."""
    env = environment()
    first = doubled(env.from_collection([1, 2, 3]), "One")
    doubled(first.map(lambda value: value + 1).name("Between"), "Two").print()
    assert [(mode, [name for name in names if not name.startswith("Exchange")]) for mode, names in jobs(env)] == [
        ("BATCH", ["Collection Source"]),
        ("STREAMING", ["Double in One", "One"]),
        ("BATCH", ["Between"]),
        ("STREAMING", ["Double in Two", "Two"]),
        ("BATCH", ["Print to Std. Out"]),
    ]


def test_the_result_of_an_iteration_is_what_another_begins_with() -> None:
    """The exchange between two iterations would be lost, with no job between them."""
    env = environment()
    doubled(doubled(env.from_collection([1, 2, 3]), "One"), "Two").print()
    assert [mode for mode, _ in jobs(env)] == ["BATCH", "STREAMING", "STREAMING", "BATCH"]


def test_a_program_without_iterations_is_one_job() -> None:
    """Its stages would be cut for nothing."""
    env = environment()
    env.from_collection([1]).print()
    assert graph_of(env).mode.name == "BATCH"


def test_a_loop_without_supersteps_is_refused() -> None:
    """It would wait for ever: a stage ends before the next one begins."""
    env = environment()
    loop = env.from_collection([1]).iterate()
    loop.close_with(loop.filter(lambda value: value > 1)).print()
    doubled(env.from_collection([1]), "Loop").print()
    with pytest.raises(ProgramError, match="BATCH"):
        jobs(env)
