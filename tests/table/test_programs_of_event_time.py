"""Random programs of event time: windows of windows, of interval joins and of versions have the rows of plain Python.

python -m pytest -m soak tests/table/test_programs_of_event_time.py: two thousand of them.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.simulation.test_sql_operators import faults
from tests.table.listed_tables import Tables, table_of
from tests.table.random_times import Result, TimedPrograms
from tests.table.table_tests import SMALL, need_planner

from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.service.client.plan_executor import PlanExecutor
from penstock.table.planner.errors import SqlError, UnsupportedPlanError

OPTIONS = [
    {},
    {"table.optimizer.agg-phase-strategy": "ONE_PHASE"},
    {"table.optimizer.agg-phase-strategy": "TWO_PHASE"},
    {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "5",
    },
]
AT_ONCE = 5
"""Programs of a test."""


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def planned(seed: int, options: dict[str, str], parallelism: int) -> tuple[JobGraph, Result]:
    """Return the job of a program, and what it gives."""
    planned = PlanExecutor()
    tables = Tables(options, parallelism=parallelism, executor=planned)
    result = TimedPrograms(Random(seed), tables).result()
    tables.environment.execute_sql(f"CREATE TABLE o ({result.columns}) WITH ('connector' = 'listed')")
    tables.environment.execute_sql(f"INSERT INTO o {result.query}")
    assert not planned.faults, planned.faults
    return planned.graphs[0], result


def check(seed: int) -> int:
    """Run random programs, some under random faults. Return how many were refused."""
    random, refused = Random(seed), 0
    for number in range(AT_ONCE):
        program, options = random.randrange(1 << 30), random.choice(OPTIONS)
        entries = random.choice([None, 2])
        drawn = [Circumstances(), SMALL, SMALL, faults(program, entries), faults(program, entries)][number]
        try:
            graph, result = planned(program, options, random.randint(1, 3))
        except (SqlError, UnsupportedPlanError) as error:
            refused += 1
            print(f"refused: {error}")
            continue

        def other(random: Random, program: int = program, options: dict[str, str] = options) -> JobGraph:
            return planned(program, options, random.randint(1, 3))[0]

        simulation = Simulation(graph, Random(program), drawn, Trace(None), rescaled=other)
        simulation.run()
        assert simulation.error is None, (program, simulation.error)
        changes = [(str(row.get_row_kind()), tuple(row)) for of in simulation.results.values() for row in of]
        found, expected = table_of(changes), Counter(result.rows)
        assert found == expected, (seed, program, result.query, found - expected, expected - found)
    return refused


@pytest.mark.parametrize("seed", range(1))
def test_programs_of_event_time_give_the_rows_of_python(seed: int) -> None:
    """Operators that are right one by one would lose rows together, as late where they are not."""
    assert check(seed) <= 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 402))
def test_many_programs_of_event_time_give_the_rows_of_python(seed: int) -> None:
    """The same."""
    check(seed)
