"""Iterations whose workset is columns, fed back as batches of Arrow: compared with plain loops, under faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow.compute
import pytest
from tests.simulation.iteration_programs import CALM
from tests.simulation.programs import environment, explained, graph_of, simulate, sweeps
from tests.simulation.test_superstep_mutants import often
from tests.simulation.test_supersteps import drawn

from penstock.common import Row, Types
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.runtime.columns.superstep_head import ColumnSuperstepHead
from penstock.engine.runtime.operators.superstep_head import SuperstepHead
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.iteration import iterate, superstep_windows

pytestmark = pytest.mark.simulation

NUMBERS = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()])
KEYS = 12
LIMIT = 40


def numbers() -> list[tuple[int, int]]:
    """Return two values for each key."""
    return [(key, value) for value in (1, 3) for key in range(KEYS)]


def stream(env: StreamExecutionEnvironment) -> Any:
    """Return `numbers` as columns."""
    records = [Row(key=key, value=value) for key, value in numbers()]
    return env.from_collection(records).rebalance().as_columns(NUMBERS)


def grown(batch: Any) -> Any:
    """Add one to each value."""
    return batch.set_column(1, "value", pyarrow.compute.add(batch["value"], 1))


def pairs(records: Any) -> Any:
    """Print the records of a stream as pairs."""
    return records.map(lambda record: (record.key, record.value)).print()


def bulk(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that adds one to each value, and sums those of a key, superstep by superstep."""
    env = environment(parallelism)
    iteration = iterate(stream(env), 6)
    sums = iteration.map_batches(grown).key_by("key").window(superstep_windows()).aggregate({"value": ("value", "sum")})
    pairs(iteration.close_with(sums.rebalance()))
    return env


def after_bulk() -> set[Any]:
    """Return the results of `bulk`."""
    return {(key, (1 + 1) + (3 + 1) + 5) for key in range(KEYS)}


def emptied(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that ends when no value is small enough to be fed back; its outputs are all that is fed back."""
    env = environment(parallelism)
    iteration = iterate(stream(env))
    doubled = iteration.map_batches(lambda batch: batch.set_column(1, "value", pyarrow.compute.add(batch[1], batch[1])))
    small = doubled.filter_batches(lambda batch: pyarrow.compute.less(batch["value"], LIMIT))
    pairs(small)
    iteration.close_with(small, outputs=[small])
    return env


def after_emptied() -> set[Any]:
    """Return the results of `emptied`."""
    return {(key, value << step) for key, value in numbers() for step in range(1, 10) if value << step < LIMIT}


PROGRAMS: dict[str, tuple[Callable[[int], StreamExecutionEnvironment], Callable[[], set[Any]]]] = {
    "bulk": (bulk, after_bulk),
    "emptied": (emptied, after_emptied),
}


def results_of(name: str, seed: int, circumstances: Any) -> tuple[JobStatus | None, list[Any], bool]:
    """Run a program; return how it ended, its results, and whether it was drained."""
    simulation = simulate(PROGRAMS[name][0](1 + seed % 3), seed, circumstances)
    with explained(simulation):
        status = simulation.run()
    values = [tuple(value) for values in simulation.results.values() for value in values]
    return status, values, simulation.driver.drained


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_columns_give_what_plain_loops_give(name: str, seed: int) -> None:
    """Rows of columns would be lost, doubled, or in another superstep."""
    status, values, _ = results_of(name, seed, CALM)
    assert status is JobStatus.FINISHED
    assert len(values) == len(set(values))
    assert set(values) == PROGRAMS[name][1]()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seeds", sweeps(4, 2_000))
def test_columns_survive_faults_and_rescaling(name: str, seeds: int) -> None:
    """A snapshot would lack rows that wait at a head, or would give them to the wrong subtask."""
    finished = 0
    for seed in range(seeds):
        status, values, drained = results_of(name, seed, drawn(seed))
        if status is JobStatus.FINISHED and not drained:
            finished += 1
            assert set(values) == PROGRAMS[name][1](), seed
    assert finished > seeds / 3


def test_a_workset_that_is_not_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not notice that a snapshot lacks the columns that wait at a head."""
    leaves = SuperstepFeedback.barrier_leaves

    def without(self: Any, checkpoint_id: int, savepoint: bool) -> None:
        kept, self._fed = self._fed, {}
        leaves(self, checkpoint_id, savepoint)
        self._fed = kept

    monkeypatch.setattr(SuperstepFeedback, "barrier_leaves", without)
    for seed in range(20):
        status, values, _ = results_of("bulk", seed, often(seed))
        if status is not JobStatus.FINISHED or set(values) != after_bulk():
            return
    raise AssertionError("no run found it")


def heads(env: StreamExecutionEnvironment) -> list[type[Any]]:
    """Return the classes of the heads of a program."""
    operators = [node.operator for vertex in graph_of(env).vertices for node in vertex.nodes]
    return [type(operator) for operator in operators if isinstance(operator, SuperstepHead)]


def test_only_a_workset_of_columns_travels_as_columns() -> None:
    """The programs above would pass with rows on their feedback edges, or one on rows would fail."""
    assert heads(bulk(2)) == heads(emptied(2)) == [ColumnSuperstepHead]
    env = environment(2)
    iteration = iterate(stream(env), 3)
    pairs(iteration.close_with(iteration.map(lambda record: Row(key=record.key, value=record.value + 1))))
    assert heads(env) == [SuperstepHead]
