"""What an iteration emits at its end is there once, also if the job fails behind the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.simulation.programs import environment, explained, simulate
from tests.simulation.test_superstep_mutants import often

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction, ProcessFunction
from penstock.engine.runtime.operators.superstep_listening import SuperstepListening
from penstock.iteration import IterationListener, iterate, iterate_delta
from penstock.iteration.arrays import ArrayStep, iterate_arrays

pytestmark = pytest.mark.simulation

SEEDS = 5
SUPERSTEPS = 4


class Numbered(KeyedProcessFunction[Any, Any, Any]):
    """Emits each value with how often it has come, which is state: print itself may repeat results."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield value, self.count.value()


class Ending(ProcessFunction[Any, Any], IterationListener):
    """Emits one record at the end, in each subtask."""

    def open(self, runtime_context: Any) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def on_iteration_terminated(self, context: Any) -> Iterator[Any]:
        yield "end", self.subtask


def told(env: StreamExecutionEnvironment) -> Any:
    iteration = iterate(env.from_collection([("number", number) for number in range(6)]).rebalance(), SUPERSTEPS)
    stepped = iteration.process(Ending())
    iteration.close_with(stepped.rebalance(), outputs=[stepped])
    return stepped.filter(lambda value: value[0] == "end")


class Growing(ArrayStep):
    """Adds one to each entry."""

    def step(self, superstep: int, messages: Any) -> Any:
        self.entries["value"] += 1
        return {"key": self.entries["key"]}


def arrays(env: StreamExecutionEnvironment) -> Any:
    entries = env.from_collection([{"key": np.arange(9), "value": np.zeros(9, int)}])
    grown = iterate_arrays(entries, entries, Growing(), SUPERSTEPS)
    return grown.flat_map(lambda chunk: list(zip(chunk["key"].tolist(), chunk["value"].tolist(), strict=True)))


def solutions(env: StreamExecutionEnvironment) -> Any:
    entries = env.from_collection([(key, 0) for key in range(9)]).rebalance()
    iteration = iterate_delta(entries, entries, SUPERSTEPS, key=lambda entry: entry[0])
    changed = iteration.solution_set.co_group(
        iteration.workset, lambda key, entry, messages: (key, entry[1] + len(messages)), key=lambda message: message[0]
    )
    return iteration.close_with(changed, changed.rebalance())


PROGRAMS: dict[str, tuple[Callable[[StreamExecutionEnvironment], Any], Callable[[int], list[Any]]]] = {
    "told": (told, lambda parallelism: [("end", subtask) for subtask in range(parallelism)]),
    "arrays": (arrays, lambda parallelism: [(key, SUPERSTEPS) for key in range(9)]),
    "solutions": (solutions, lambda parallelism: [(key, SUPERSTEPS) for key in range(9)]),
}


def counts(name: str, seed: int) -> tuple[dict[Any, int], dict[Any, int]]:
    """Run a program with failures; return how often each value came behind the iteration, and how often it should."""
    make, expected = PROGRAMS[name]
    parallelism = 1 + seed % 3
    env = environment(parallelism)
    make(env).key_by(lambda value: value).process(Numbered()).print()
    simulation = simulate(env, seed, often(seed))
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED, simulation.error
    found: dict[Any, int] = {}
    for values in simulation.results.values():
        for value, count in values:
            found[tuple(value)] = max(count, found.get(tuple(value), 0))
    return found, dict.fromkeys(expected(parallelism), 1)


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_of_the_end_are_there_once(name: str) -> None:
    """A job that fails behind the end of an iteration would have its results twice."""
    for seed in range(SEEDS):
        found, wanted = counts(name, seed)
        assert found == wanted, seed


def test_an_end_that_is_told_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not notice that a restored listener is told once more."""
    restore = SuperstepListening.restore_lists

    def forgetful(self: Any, lists: Any) -> None:
        restore(self, lists)
        self._knows_end = False

    monkeypatch.setattr(SuperstepListening, "restore_lists", forgetful)
    assert any(found != wanted for found, wanted in (counts("told", seed) for seed in range(SEEDS)))
