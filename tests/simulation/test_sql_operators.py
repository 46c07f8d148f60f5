"""Each operator of SQL under random schedules and faults: the same table as without any.

In the middle of each program the job is also stopped with a savepoint, and started again with another parallelism.
State is on the heap, or in the simulator's stand-in for a store on disk.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import TIGHT
from tests.simulation.sql_programs import PROGRAMS, graph_of, operators_of, table_of
from tests.table.table_tests import need_planner

from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation, Trace

pytestmark = pytest.mark.simulation
PARALLELISM = 2
OTHER = 3
CALM = dataclasses.replace(TIGHT, chunk_records=3, buffer_records=3, jump_rate=0.0)
"""Each step reads some rows only: what comes in its middle is in the middle of the rows."""


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


class Restarts(Simulation):
    """Counts how often the job started from a savepoint, and with which parallelism."""

    def __init__(self, name: str, seed: int, circumstances: Circumstances) -> None:
        self.savepoints: list[int] = []
        super().__init__(
            graph_of(name, PARALLELISM),
            Random(seed),
            circumstances,
            Trace(None),
            rescaled=lambda random: graph_of(name, OTHER),
        )

    def _start_job(self, graph: JobGraph, run: Any, origin: Any = None) -> None:
        if origin is not None and origin.savepoint:
            self.savepoints.append(max(vertex.parallelism for vertex in graph.vertices))
        super()._start_job(graph, run, origin)


def faults(seed: int, entries: int | None) -> Circumstances:
    """Draw faults of all kinds from which a job recovers exactly once. `entries`: see `cached_entries`."""
    random = Random(seed)
    while True:
        drawn = Circumstances.draw(random)
        if drawn.checkpointing and drawn.exactly_once:
            break
    return dataclasses.replace(
        drawn,
        cancel_at_step=None,
        drain_rate=0.0,
        rescale_rate=0.8,
        # A request for other parallelisms names operators, and those of SQL may share a name.
        rescale_at_steps=(),
        cached_entries=entries,
    )


def stopped(name: str, entries: int | None) -> Circumstances:
    """Return circumstances in which a program is stopped in its middle, starts with 3 subtasks, and loses a worker."""
    middle = steps_of(name) // 3
    return dataclasses.replace(
        CALM,
        # The first one that is not refused, because the job does not run yet or stops already.
        savepoint_at_steps=tuple(range(middle, 2 * middle, 3)),
        stop_rate=1.0,
        rescale_rate=1.0,
        checkpoint_at_steps=tuple(range(middle + 45, 2_000, 20)),
        crash_rate=0.3,
        cached_entries=entries,
    )


@cache
def undisturbed(name: str) -> Simulation:
    """Return a run without faults."""
    simulation = Simulation(graph_of(name, PARALLELISM), Random(1), CALM, Trace(None))
    simulation.run()
    assert simulation.error is None, simulation.error
    return simulation


def steps_of(name: str) -> int:
    """Return how many events a run without faults has."""
    return undisturbed(name).trace.steps


@cache
def expected(name: str) -> Any:
    """Return the table of a program without faults."""
    found = table_of(name, undisturbed(name).results)
    assert len(found) > 2, f"{name} has hardly any row"
    return found


def run(name: str, seed: int, circumstances: Circumstances) -> Restarts:
    """Run a program, and compare."""
    simulation = Restarts(name, seed, circumstances)
    simulation.run()
    assert simulation.error is None, f"{name}, seed {seed}: {simulation.error}"
    found, wanted = table_of(name, simulation.results), expected(name)
    if isinstance(found, Counter):
        difference = f"missing {wanted - found}, in addition {found - wanted}"
    else:
        difference = f"{found} in place of {wanted}"
    assert found == wanted, f"{name}, seed {seed}: {difference}"
    return simulation


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_its_operators(name: str) -> None:
    """The planner would plan other operators, and nobody would miss those that are no longer tested."""
    assert set(PROGRAMS[name].operators) <= operators_of(graph_of(name, PARALLELISM))


SOME_ENTRIES = 2
"""In memory of a store. With one the simulator gives a slot no memory, and windows of SQL are always in memory."""


def entries_of(name: str, number: int) -> int | None:
    """Return the entries in memory: of every second run of a program, and of every second program, state is a store."""
    return SOME_ENTRIES if (number + [*PROGRAMS].index(name)) % 2 else None


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("number", [0, *(pytest.param(one, marks=pytest.mark.soak) for one in range(1, 200))])
def test_operators_give_the_same_table_under_faults(name: str, number: int) -> None:
    """Rows would be lost or doubled with a worker, a driver, a message or a write."""
    seed = number * len(PROGRAMS) + [*PROGRAMS].index(name) + 1
    run(name, seed, faults(seed, entries_of(name, number)))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("number", [1, *(pytest.param(one, marks=pytest.mark.soak) for one in range(2, 60))])
def test_operators_continue_from_a_savepoint_in_other_subtasks(name: str, number: int) -> None:
    """State would be missing, or there twice, behind a savepoint with another number of subtasks."""
    simulation = run(name, number, stopped(name, entries_of(name, number)))
    subtasks = max(vertex.parallelism for vertex in graph_of(name, OTHER).vertices)
    assert simulation.savepoints and set(simulation.savepoints) == {subtasks}, "the job did not start from a savepoint"
