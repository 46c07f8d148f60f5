"""Random queries over changelogs: the table at the end is that of SQLite over the tables at the end.

python -m pytest -m soak tests/table/test_queries_beside_sqlite.py: two thousand of them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.table.listed_tables import Change, Tables, table_of
from tests.table.random_queries import INT, STRING, TABLES, Queries, Relation
from tests.table.table_tests import SMALL, crashing, need_planner

from penstock.table.planner.errors import SqlError, UnsupportedPlanError

pytestmark = pytest.mark.skipif(
    sqlite3.sqlite_version_info < (3, 39), reason="this SQLite has no RIGHT and FULL JOIN: the oracle needs 3.39"
)
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "5 s",
    "table.exec.mini-batch.size": "7",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
AT_ONCE = 5
"""Queries of a test."""


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


def changes_of(random: Random) -> list[Change]:
    """Return a changelog: rows that come, change and go."""
    changes: list[Change] = []
    rows: list[tuple[Any, ...]] = []

    def new() -> tuple[Any, ...]:
        numbers = [random.choice([None, 0, 1, 1, 2, 2, 3, 5]) for _ in range(2)]
        return (*numbers, random.choice([None, "x", "x", "y", "z", ""]))

    for _ in range(random.randint(5, 40)):
        what = random.random()
        if not rows or what < 0.6:
            rows.append(new())
            changes.append(("+I", rows[-1]))
            continue
        place = random.randrange(len(rows))
        if what < 0.8:
            changes.append(("-U", rows[place]))
            rows[place] = new()
            changes.append(("+U", rows[place]))
        else:
            changes.append(("-D", rows.pop(place)))
    return changes


def by_sqlite(sources: dict[str, list[Change]], query: Relation) -> Counter[tuple[Any, ...]]:
    """Return the rows of a query over the tables at the end."""
    types = {INT: "INTEGER", STRING: "TEXT"}
    connection = sqlite3.connect(":memory:")
    for name, fields in TABLES.items():
        columns = ", ".join(f"{field} {types[kind]}" for field, kind in fields)
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.executemany(
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(fields))})", table_of(sources[name]).elements()
        )
    found = Counter(connection.execute(query.sql).fetchall())
    connection.close()
    return found


def check(seed: int) -> int:
    """Run random queries in both. Return how many were refused."""
    random, refused = Random(seed), 0
    for _ in range(AT_ONCE):
        query = Queries(random).query()
        sources = {name: changes_of(random) for name in TABLES}
        tables = Tables(
            random.choice([{}, MINI_BATCH]),
            parallelism=random.randint(1, 3),
            seed=random.randrange(1000),
            circumstances=random.choice([SMALL, SMALL, *crashing()]),
        )
        for name, fields in TABLES.items():
            columns = ", ".join(f"{field} {kind}" for field, kind in fields)
            tables.create(name, columns, sources[name], changelog="I,UB,UA,D")
        columns = ", ".join(f"{name} {kind}" for name, kind in query.fields)
        try:
            found = table_of(tables.insert("o", columns, query.sql))
        except (SqlError, UnsupportedPlanError) as error:
            # Flink itself refuses some, such as a top N whose order is by a constant.
            refused += 1
            print(f"refused: {error}\n  {query.sql}")
            continue
        except Exception as error:
            error.add_note(f"seed {seed}: {query.sql}\n{sources}")
            raise
        expected = by_sqlite(sources, query)
        assert found == expected, (seed, query.sql, sources, found - expected, expected - found)
    return refused


@pytest.mark.parametrize("seed", range(1))
def test_queries_give_the_rows_of_sqlite(seed: int) -> None:
    """Operators that are right one by one would be wrong together, or for changes of their inputs."""
    assert check(seed) <= 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 402))
def test_many_queries_give_the_rows_of_sqlite(seed: int) -> None:
    """The same."""
    check(seed)
