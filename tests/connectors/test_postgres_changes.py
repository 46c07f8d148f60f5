"""The change-data-capture source of PostgreSQL against a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg
import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.postgres_changes import Copy, changes_of, read_until
from tests.connectors.postgres_tables import Tables

from penstock.datastream.connectors.postgres import Change
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
MARK = 10**6


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.execute("SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE active")
    tables.connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    tables.connection.close()


class Writer:
    """Random transactions, some of them rolled back, on two tables, with keys that change."""

    def __init__(self, url: str, names: tuple[str, str], seed: int) -> None:
        self.names = names
        self.random = Random(seed)
        self.connection = psycopg.connect(url)

    def write(self, count: int) -> None:
        for _ in range(count):
            for _ in range(self.random.choice((1, 1, 2, 20))):
                self._change()
            if self.random.random() < 0.1:
                self.connection.rollback()
            else:
                self.connection.commit()

    def _change(self) -> None:
        table, random = self.random.choice(self.names), self.random
        one, other, value = random.randrange(60), random.randrange(60), random.randrange(1000)
        self.connection.execute(
            random.choice(
                (
                    f"INSERT INTO {table} VALUES ({one}, {value}) ON CONFLICT DO NOTHING",
                    f"UPDATE {table} SET value = {value} WHERE id = {one}",
                    f"UPDATE {table} SET id = {other} WHERE id = {one} AND NOT EXISTS "
                    f"(SELECT FROM {table} WHERE id = {other})",
                    f"DELETE FROM {table} WHERE id = {one}",
                    f"SAVEPOINT s; UPDATE {table} SET value = 0; ROLLBACK TO SAVEPOINT s; "
                    f"INSERT INTO {table} VALUES ({other}, {value}) ON CONFLICT DO NOTHING",
                )
            )
        )


@pytest.mark.parametrize("seed", range(4))
def test_each_change_once_over_restarts_and_beside_a_writer(tables: Tables, seed: int) -> None:
    """Rows that are written while the table is read, or while the job restarts, would be lost or there twice."""
    random = Random(seed)
    names = tables.create("id int PRIMARY KEY, value int"), tables.create("id int PRIMARY KEY, value int")
    for name in names:
        tables.execute(f"INSERT INTO {name} SELECT n * 2, 0 FROM generate_series(0, 20) AS n")
    source = changes_of(tables, *names).build()
    writer = Writer(tables.url, names, seed)
    changes: list[Change] = []
    state: Any = None
    kept = 0

    for turn in range(10):
        run = SourceInTest(source, state=state)
        thread = threading.Thread(target=writer.write, args=(random.randrange(15),))
        thread.start()
        tables.execute(f"INSERT INTO {names[1]} VALUES ({MARK + turn}, 0)")
        changes += read_until(run, names[1], MARK + turn, random.randrange(40))
        if random.random() < 0.7:
            state, kept = run.snapshot(), len(changes)
        thread.join()
        run.close()
        del changes[kept:]
    run = SourceInTest(source, state=state)
    # The first may come with the rows, before changes of the other table; the second comes last.
    for mark in (2 * MARK, 2 * MARK + 1):
        tables.execute(f"INSERT INTO {names[1]} VALUES ({mark}, 0)")
        changes += read_until(run, names[1], mark)
    run.close()
    writer.connection.close()

    copy = Copy(**dict.fromkeys(names, ("id",)))
    for change in changes:
        copy.apply(change)
    assert [copy.values(name) for name in names] == [tables.rows(name) for name in names]
