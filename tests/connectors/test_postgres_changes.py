"""The change-data-capture source of PostgreSQL against a server."""

from __future__ import annotations

import threading
from random import Random
from typing import Any

import psycopg
import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.postgres_changes import Copy, afters, changes_of, read_until
from tests.connectors.postgres_tables import Tables

from penstock.datastream.connectors.postgres import Change, ChangeKind
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
MARK = 10**6


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
def test_each_change_once_over_restarts_and_beside_a_writer(captured: Tables, seed: int) -> None:
    """Rows that are written while the table is read, or while the job restarts, would be lost or there twice."""
    random = Random(seed)
    names = captured.create("id int PRIMARY KEY, value int"), captured.create("id int PRIMARY KEY, value int")
    for name in names:
        captured.execute(f"INSERT INTO {name} SELECT n * 2, 0 FROM generate_series(0, 20) AS n")
    source = changes_of(captured, *names)
    writer = Writer(captured.url, names, seed)
    changes: list[Change] = []
    state: Any = None
    kept = 0

    for turn in range(10):
        run = SourceInTest(source, state=state)
        thread = threading.Thread(target=writer.write, args=(random.randrange(15),))
        thread.start()
        captured.execute(f"INSERT INTO {names[1]} VALUES ({MARK + turn}, 0)")
        changes += read_until(run, names[1], MARK + turn, random.randrange(40))
        if random.random() < 0.7:
            state, kept = run.snapshot(), len(changes)
        thread.join()
        run.close()
        del changes[kept:]
    run = SourceInTest(source, state=state)
    # The first may come with the rows, before changes of the other table; the second comes last.
    for mark in (2 * MARK, 2 * MARK + 1):
        captured.execute(f"INSERT INTO {names[1]} VALUES ({mark}, 0)")
        changes += read_until(run, names[1], mark)
    run.close()
    writer.connection.close()

    copy = Copy(**dict.fromkeys(names, ("id",)))
    for change in changes:
        copy.apply(change)
    assert [copy.values(name) for name in names] == [captured.rows(name) for name in names]


def test_a_restart_while_rows_are_read(captured: Tables) -> None:
    """Changes between two parts of a table, in one or from one to the other, would be doubled or lost."""
    # Whose order is not that of their texts.
    captured.execute("CREATE TYPE size AS ENUM ('tiny', 'small', 'large', 'huge')")
    table = captured.create("size size, id numeric, value int DEFAULT 0, PRIMARY KEY (size, id)")
    captured.execute(f"INSERT INTO {table} SELECT unnest(enum_range(NULL::size)), unnest(ARRAY[1.5, 9, 10, 100])")
    captured.execute(f"INSERT INTO {table} SELECT unnest(enum_range(NULL::size)), 9.5")
    source = changes_of(captured, table)
    run = SourceInTest(source)
    changes = run.values(5, max_records=2)
    assert [str(row["id"]) for row in afters(changes)] == ["1.5", "9.5", "9", "9.5", "9.5"]
    state = run.snapshot()
    run.close()

    for sql in (
        "UPDATE {} SET value = 1",
        "UPDATE {} SET size = 'huge', id = 7 WHERE size = 'small' AND id = 9",
        "UPDATE {} SET size = 'tiny', id = 7 WHERE size = 'huge' AND id = 100",
        "UPDATE {} SET size = 'tiny', id = 11 WHERE id = 1.5",
        "DELETE FROM {} WHERE id = 9.5 AND size <> 'tiny'",
        "UPDATE {} SET value = 2 WHERE id = 7",
    ):
        captured.execute(sql.format(table))
    resumed = SourceInTest(source, state=state)
    for mark in (1000, 1001):
        captured.execute(f"INSERT INTO {table} VALUES ('huge', {mark})")
        changes += read_until(resumed, table, mark)
    resumed.close()

    copy = Copy(**{table: ("size", "id")})
    for change in changes:
        copy.apply(change)
    assert copy.values(table) == sorted(captured.rows(table))
    kinds = [change.kind for change in changes if not change.is_snapshot]
    # The last two are the marks, of which the first may come with the rows.
    assert {ChangeKind.INSERT, ChangeKind.UPDATE, ChangeKind.DELETE} == set(kinds)


def test_a_transaction_that_is_larger_than_a_batch(captured: Tables) -> None:
    """A restart within a transaction would emit some of its changes again, or leave some out."""
    table = captured.create()
    captured.execute(f"INSERT INTO {table} VALUES (0)")
    source = changes_of(captured, table)
    run = SourceInTest(source)
    run.values(1)
    captured.execute(f"INSERT INTO {table} SELECT n, repeat('x', 100) FROM generate_series(1, 5000) AS n")
    changes: list[Change] = []
    for count in (1, 998, 1, 2001, 500):
        changes += run.values(count, max_records=700)
        state = run.snapshot()
        assert [split.done for split in state[1][0]] == [len(changes)]
        run.close()
        run = SourceInTest(source, state=state)
    changes += run.values(5000 - len(changes))
    captured.execute(f"TRUNCATE {table}")
    (last,) = run.values(1)
    run.close()

    assert [row["id"] for row in afters(changes)] == list(range(1, 5001))
    assert len({(change.lsn, change.time_ms) for change in changes}) == 1
    assert last.kind is ChangeKind.TRUNCATE and last.lsn > changes[0].lsn


def test_the_server_starts_again(captured: Tables, captured_postgres: PostgresServer) -> None:
    """A restart of the server would restart the job, or lose what was committed before it."""
    table = captured.create()
    captured.execute(f"INSERT INTO {table} SELECT generate_series(1, 20)")
    run = SourceInTest(changes_of(captured, table))
    changes = run.values(20)
    captured.execute(f"INSERT INTO {table} VALUES (21)")
    captured_postgres.kill()
    captured_postgres.start()
    again = Tables(captured_postgres.url)
    again.execute(f"INSERT INTO {table} VALUES (22)")
    changes += run.values(2)
    run.close()
    again.connection.close()

    assert [row["id"] for row in afters(changes)] == list(range(1, 23))
