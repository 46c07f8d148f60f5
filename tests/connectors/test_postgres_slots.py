"""The replication slot of a PostgresChangeSource: where it is, who has it, and what is missing before there is one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.postgres_changes import afters, changes_of
from tests.connectors.postgres_tables import Tables

from penstock.common.errors import JobError, SourceError
from penstock.datastream.connectors.postgres import PostgresChangeSource, StartupOptions
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
SLOT = "of_a_test"


@pytest.fixture
def table(captured: Tables) -> Iterator[str]:
    table = captured.create("id int PRIMARY KEY, value int")
    captured.execute(f"INSERT INTO {table} VALUES (1), (2)")
    yield table
    captured.execute(f"DROP PUBLICATION IF EXISTS {SLOT}")


def source_of(captured: Tables, table: str, **settings: Any) -> PostgresChangeSource:
    return changes_of(captured, table, **{"slot_name": SLOT, **settings})


def confirmed(captured: Tables) -> int:
    ((lsn,),) = captured.execute(
        f"SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    )
    return int(lsn)


def end_of_log(captured: Tables) -> int:
    ((lsn,),) = captured.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
    return int(lsn)


def ids(run: SourceInTest, count: int) -> list[int]:
    return [row["id"] for row in afters(run.values(count))]


def test_the_slot_moves_when_a_checkpoint_is_complete(captured: Tables, table: str) -> None:
    """Changes after a failed checkpoint would be lost; or the server's disk would fill up."""
    source = source_of(captured, table)
    run = SourceInTest(source)
    assert ids(run, 2) == [1, 2]
    begun = confirmed(captured)
    for number in (3, 4):
        captured.execute(f"INSERT INTO {table} VALUES ({number})")
        assert ids(run, 1) == [number]
        state = run.snapshot(number)
    assert confirmed(captured) == begun
    run.readers[0].notify_checkpoint_aborted(3)
    run.readers[0].notify_checkpoint_complete(4)
    run.close()
    (position,) = state[1][0]
    until(lambda: confirmed(captured) == position.lsn)

    captured.execute(f"INSERT INTO {table} VALUES (5)")
    resumed = SourceInTest(source, state=state)
    assert ids(resumed, 1) == [5]
    resumed.close()


def test_the_slot_moves_while_others_write(captured: Tables, table: str) -> None:
    """A table without changes would retain the log of all others, until the disk is full."""
    run = SourceInTest(source_of(captured, table))
    assert ids(run, 2) == [1, 2]
    captured.execute(f"INSERT INTO {table} VALUES (3)")
    assert ids(run, 1) == [3]
    other = captured.create()
    captured.execute(f"INSERT INTO {other} SELECT generate_series(1, 1000)")
    written = end_of_log(captured)

    def moves() -> bool:
        # Positions without changes come from time to time.
        run.available.clear()
        run.readers[0].poll(10)
        (split,) = run.snapshot(7)[1][0]
        return bool(split.lsn >= written)

    until(moves)
    run.readers[0].notify_checkpoint_complete(7)
    until(lambda: confirmed(captured) >= written)
    run.close()


def test_an_attempt_takes_the_slot_from_a_former_one(captured: Tables, table: str) -> None:
    """After a stop of a worker the job could not start again, for the server waits for who has the slot."""
    source = source_of(captured, table)
    former = SourceInTest(source)
    assert ids(former, 2) == [1, 2]
    captured.execute(f"INSERT INTO {table} VALUES (3)")
    assert ids(former, 1) == [3]
    state = former.snapshot()
    captured.execute(f"INSERT INTO {table} VALUES (4)")

    later = SourceInTest(source, 2, (state[0], [state[1][0], []]))
    assert ids(later, 1) == [4]
    with pytest.raises(SourceError, match="a later attempt of this job uses the slot"):
        former.values(2)
    former.close()
    captured.execute(f"INSERT INTO {table} VALUES (5)")
    assert ids(later, 1) == [5]
    another = SourceInTest(source_of(captured, table, max_retries=0))
    with pytest.raises(SourceError, match=r"is used by the process .*each job needs a slot of its own"):
        another.values(6)
    another.close()
    later.close()


def test_a_state_whose_changes_are_gone(captured: Tables, table: str) -> None:
    """The job would continue, and silently skip changes."""
    source = source_of(captured, table, max_retries=0)
    run = SourceInTest(source)
    assert ids(run, 2) == [1, 2]
    early = run.snapshot(1)
    captured.execute(f"INSERT INTO {table} VALUES (3)")
    assert ids(run, 1) == [3]
    run.snapshot(2)
    begun = confirmed(captured)
    run.readers[0].notify_checkpoint_complete(2)
    until(lambda: confirmed(captured) > begun)
    run.close()

    again = SourceInTest(source, state=early)
    with pytest.raises(SourceError, match="the state is not of the latest checkpoint"):
        again.values(1)
    again.close()
    captured.execute(f"SELECT pg_drop_replication_slot('{SLOT}')")
    again = SourceInTest(source, state=early)
    with pytest.raises(SourceError, match=f"the slot '{SLOT}' was dropped"):
        again.values(1)
    again.close()


def test_where_a_job_without_state_begins(captured: Tables, table: str) -> None:
    """Unwanted rows would be read again, or changes be skipped."""
    with pytest.raises(SourceError, match=r"the slot .* does not exist"):
        source_of(captured, table, startup_options=StartupOptions.committed()).validate()
    latest = source_of(captured, table, startup_options=StartupOptions.latest())
    run = SourceInTest(latest)
    captured.execute(f"INSERT INTO {table} VALUES (3)")
    assert ids(run, 1) == [3]
    run.close()
    captured.execute(f"INSERT INTO {table} VALUES (4)")
    committed = source_of(captured, table, startup_options=StartupOptions.committed())
    committed.validate()
    run = SourceInTest(committed)
    assert ids(run, 2) == [3, 4]
    run.close()
    run = SourceInTest(latest)
    captured.execute(f"INSERT INTO {table} VALUES (5)")
    assert ids(run, 1) == [5]
    run.close()
    run = SourceInTest(source_of(captured, table))
    captured.execute(f"INSERT INTO {table} VALUES (6)")
    assert sorted(ids(run, 6)) == [1, 2, 3, 4, 5, 6]
    run.close()


def test_what_is_missing_is_told_at_submission(captured: Tables, table: str) -> None:
    """A job would fail when it runs; or PostgreSQL would refuse the updates of all who use the table."""
    source = source_of(captured, table)
    source.validate()
    loose = captured.create("id int, value int")
    view = f"v{table}"
    captured.execute(f"CREATE VIEW {view} AS SELECT 1 AS id")
    for names, message in (
        ((loose,), "has no replica identity"),
        ((view,), "is not a table"),
        (("nowhere.nothing",), "the table nowhere.nothing does not exist"),
    ):
        with pytest.raises(SourceError, match=message):
            changes_of(captured, *names).validate()
    captured.execute(f"ALTER TABLE {loose} REPLICA IDENTITY FULL")
    with pytest.raises(SourceError, match="needs a primary key, by which its rows are read"):
        changes_of(captured, loose).validate()
    changes_of(captured, loose, startup_options=StartupOptions.latest()).validate()
    whole = PostgresChangeSource(url=captured.url, slot_name=SLOT)
    with pytest.raises(SourceError, match=r"the publication .* does not exist"):
        whole.validate()
    captured.execute(f"CREATE PUBLICATION {SLOT} FOR TABLE {loose}")
    with pytest.raises(SourceError, match=f'ALTER PUBLICATION "{SLOT}" ADD TABLE "public"."{table}"'):
        source.validate()
    captured.execute(f"DROP PUBLICATION {SLOT}")
    captured.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
    with pytest.raises(SourceError, match="exists without the publication 'of_a_test'"):
        source.validate()
    captured.execute(f"SELECT pg_drop_replication_slot('{SLOT}'), pg_create_physical_replication_slot('{SLOT}')")
    with pytest.raises(
        SourceError, match="must be of this database with the plugin pgoutput, got another database or None"
    ):
        source.validate()


def test_who_may_not_replicate_is_told(captured: Tables, table: str) -> None:
    """The server's refusal alone does not say which right is meant."""
    captured.execute("CREATE ROLE reader LOGIN PASSWORD 'a secret'")
    captured.execute(f"GRANT SELECT ON {table} TO reader")
    plain = captured.url.replace("penstock:penstock@", "")
    source = source_of(captured, table, url=plain, user_name="reader", password="a secret")
    with pytest.raises(SourceError, match=r"(?s)replicat.*ALTER ROLE … REPLICATION") as failed:
        source.validate()
    assert "a secret" not in str(failed.value)
    captured.execute(f"REVOKE SELECT ON {table} FROM reader")
    with pytest.raises(JobError, match="permission denied"):
        source.validate()
    captured.execute("DROP ROLE reader")


def test_a_transaction_that_is_open_when_the_source_begins(captured: Tables, table: str) -> None:
    """Its changes would be neither in the rows nor in the changes."""
    source = source_of(captured, table)
    with psycopg.connect(captured.url) as slow:
        captured.execute(f"CREATE PUBLICATION {SLOT} FOR TABLE {table}")
        slow.execute(f"INSERT INTO {table} VALUES (3)")
        begun = BeginsLater(source)
        until(lambda: any("pg_create_logical" in query for query in captured.queries("penstock changes")))
        slow.commit()
    run = begun.run()
    captured.execute(f"INSERT INTO {table} VALUES (4)")
    assert sorted(ids(run, 4)) == [1, 2, 3, 4]
    run.close()


def test_a_transaction_that_this_job_has_prepared(captured: Tables, table: str) -> None:
    """A job that also has an exactly-once sink, killed before its first checkpoint, would wait for itself forever."""
    source = source_of(captured, table)
    first = SourceInTest(source)
    assert ids(first, 2) == [1, 2]
    first.close()
    captured.execute(f"BEGIN; INSERT INTO {table} VALUES (3); PREPARE TRANSACTION 'of a sink'")

    again = SourceInTest(source)
    assert ids(again, 2) == [1, 2]
    captured.execute("COMMIT PREPARED 'of a sink'")
    assert ids(again, 1) == [3]
    again.close()


class BeginsLater:
    """A source that waits for the server when it begins."""

    def __init__(self, source: PostgresChangeSource) -> None:
        self._runs: list[SourceInTest] = []
        self._thread = threading.Thread(target=lambda: self._runs.append(SourceInTest(source)))
        self._thread.start()

    def run(self) -> SourceInTest:
        self._thread.join()
        return self._runs[0]


def test_a_server_that_does_not_log_changes() -> None:
    """A job would fail with what PostgreSQL says of a slot, and not of the setting that is to be changed."""
    with PostgresServer(wal_level="replica") as server:
        tables = Tables(server.url)
        name = tables.create()
        with pytest.raises(SourceError, match=r"got replica\. ALTER SYSTEM SET wal_level = logical"):
            changes_of(tables, name).validate()
        tables.connection.close()
