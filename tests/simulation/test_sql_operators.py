"""Each operator of SQL under random schedules and faults: the same table as without any.

In another run the job is stopped with a savepoint in the middle of its rows, and started again with another
parallelism. State is on the heap, or in the simulator's stand-in for a store on disk.
docs/internals/sql-operator-tests.md has the list of operators and programs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.simulation.programs import TIGHT
from tests.simulation.sql_programs import EXPIRING, PROGRAMS, graph_of, operators_of, table_of
from tests.table.halves_simulation import HalvesSimulation
from tests.table.table_tests import need_planner

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation, Trace

pytestmark = [pytest.mark.simulation, pytest.mark.thorough, pytest.mark.timeout(3_600)]
PARALLELISM = 2
OTHER = 3
TTL_S_RESTORED = 25
"""The savepoint is 10 s behind the first half of the rows, and 20 s before the second: together they are longer."""
CALM = dataclasses.replace(TIGHT, chunk_records=3, buffer_records=3, jump_rate=0.0)
"""Each step of a task processes a few rows only."""


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


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


@cache
def expected(name: str, *, in_halves: bool = False) -> Any:
    """Return the table of a program without faults."""
    simulation = Simulation(graph_of(name, PARALLELISM, in_halves=in_halves), Random(1), CALM, Trace(None))
    simulation.run()
    assert simulation.error is None, simulation.error
    found = table_of(name, simulation.results)
    assert len(found) > 2, f"{name} has hardly any row"
    return found


def check(name: str, simulation: Simulation, *, in_halves: bool = False) -> None:
    """Run a program, and compare."""
    simulation.run()
    assert simulation.error is None, f"{name}: {simulation.error}"
    # Of the others a pause changes nothing.
    found, wanted = table_of(name, simulation.results), expected(name, in_halves=in_halves and name in EXPIRING)
    if isinstance(found, Counter):
        difference = f"missing {wanted - found}, in addition {found - wanted}"
    else:
        difference = f"{found} in place of {wanted}"
    assert found == wanted, f"{name}: {difference}"


def check_faults(name: str, seed: int, circumstances: Circumstances) -> Simulation:
    """Run a program under faults, and compare. Whenever its user starts it again it may have 3 subtasks."""
    simulation = Simulation(
        graph_of(name, PARALLELISM),
        Random(seed),
        circumstances,
        Trace(None),
        rescaled=lambda random: graph_of(name, random.choice([PARALLELISM, OTHER])),
    )
    check(name, simulation)
    return simulation


def check_savepoint(name: str, seed: int, entries: int | None) -> None:
    """Stop a program with a savepoint in the middle of its rows, start it with 3 subtasks, and compare."""
    starts = []

    def restored(manifest: Manifest) -> JobGraph:
        starts.append(manifest)
        return graph_of(name, OTHER, in_halves=True, ttl_s=TTL_S_RESTORED)

    circumstances = dataclasses.replace(CALM, cached_entries=entries)
    graph = graph_of(name, PARALLELISM, in_halves=True, ttl_s=TTL_S_RESTORED)
    check(name, HalvesSimulation(graph, Random(seed), circumstances, restored), in_halves=True)
    assert len(starts) == 1 and starts[0].savepoint, "the job did not start from its savepoint"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_its_operators(name: str) -> None:
    """The planner would plan other operators, and nobody would miss those that are no longer tested."""
    assert set(PROGRAMS[name].operators) <= operators_of(graph_of(name, PARALLELISM))


SOME_ENTRIES, NO_MEMORY = 2, 1
"""Entries in memory of a store. With one the simulator gives a slot no memory, so that caches are always empty."""


def entries_of(name: str, number: int) -> int | None:
    """Return the entries in memory: of every second run of a program, and of every second program, state is a store."""
    return NO_MEMORY if (number + [*PROGRAMS].index(name)) % 2 else None


def first_of_each_operator() -> list[str]:
    """Return the programs without those whose operators are all in programs before them."""
    names: list[str] = []
    seen: set[str] = set()
    for name, program in PROGRAMS.items():
        if not seen.issuperset(program.operators):
            names.append(name)
        seen.update(program.operators)
    return names


IN_TURN = first_of_each_operator()
UNDER_FAULTS = [
    *((name, range(1)) for name in IN_TURN),
    *((name, range(1 if name in IN_TURN else 0, 200)) for name in PROGRAMS),
]
"""Programs with the numbers of their runs: the first run of each operator, and all other runs."""


@pytest.mark.parametrize(("name", "runs"), first_of(len(IN_TURN), UNDER_FAULTS))
def test_operators_give_the_same_table_under_faults(name: str, runs: range) -> None:
    """Rows would be lost or doubled with a worker, a driver, a message or a write."""
    for number in runs:
        seed = number * len(PROGRAMS) + [*PROGRAMS].index(name) + 1
        check_faults(name, seed, faults(seed, entries_of(name, number)))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("runs", [range(1, 2), pytest.param(range(2, 20), marks=pytest.mark.soak)])
def test_operators_continue_from_a_savepoint_in_other_subtasks(name: str, runs: range) -> None:
    """State would be missing, or there twice, behind a savepoint with another number of subtasks."""
    for number in runs:
        check_savepoint(name, number, entries_of(name, number))


def each_in_turn(names: Sequence[str], entries: Sequence[int | None]) -> list[Any]:
    """Return parameters of a test: each program with one of `entries`, and all with all in the soak."""
    chosen = [(name, entries[place % len(entries)]) for place, name in enumerate(names)]
    others = ((name, one) for name in names for one in entries if (name, one) not in chosen)
    return first_of(len(chosen), [*chosen, *others])


WINDOWS = [name for name in PROGRAMS if "windows" in name]


@pytest.mark.parametrize(("name", "entries"), each_in_turn(WINDOWS, [SOME_ENTRIES, None, NO_MEMORY]))
def test_windows_continue_from_a_savepoint_wherever_they_are(name: str, entries: int | None) -> None:
    """Rows and aggregates of windows that wait would be lost, or there twice, on the heap or in a store."""
    check_savepoint(name, 3, entries)


@pytest.mark.parametrize(("name", "entries"), each_in_turn([*EXPIRING], [None, SOME_ENTRIES]))
def test_state_expires_behind_a_savepoint_as_without_one(name: str, entries: int | None) -> None:
    """A savepoint would lengthen the life of state, or make it eternal."""
    check_savepoint(name, 1, entries)


def test_state_of_these_programs_expires() -> None:
    """The test above would compare tables for which it makes no difference."""
    for name in EXPIRING:
        assert expected(name, in_halves=True) != expected(name), name
