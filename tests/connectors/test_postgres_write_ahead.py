"""The PostgreSQL sink by its write-ahead log, against a server without prepared transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.connectors.driven import prepared
from tests.connectors.postgres_tables import Tables

from penstock.api.sink import SinkWriter
from penstock.common.errors import ConfigurationError
from penstock.connectors.postgres.connection import PostgresError
from penstock.connectors.postgres.sink.transactions import TransactionNames
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
COLUMNS = "id bigint, name text"


@pytest.fixture
def tables(plain_postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(plain_postgres.url)
    yield tables
    tables.connection.close()


def sink_of(tables: Tables, table: str, *, write_ahead: bool = True) -> PostgresSink:
    guarantee = DeliveryGuarantee.EXACTLY_ONCE if write_ahead else DeliveryGuarantee.AT_LEAST_ONCE
    sink = PostgresSink(
        url=tables.url,
        table=table,
        columns=["id", "name"],
        batch_size=2,
        delivery_guarantee=guarantee,
        write_ahead_log=write_ahead,
    )
    sink.validate()
    return sink


def context_of(
    table: str, epoch: int, subtask: int = 0, of: int = 1, *, is_restored: bool = False
) -> SimpleSinkContext:
    return SimpleSinkContext(subtask, of, f"{table}-1-{epoch}-11", job_id=table, is_restored=is_restored)


def begun(
    sink: PostgresSink, table: str, epoch: int = 0, subtask: int = 0, of: int = 1, state: list[Any] | None = None
) -> SinkWriter[Any]:
    """The writer of a subtask in the attempt of that number."""
    context = context_of(table, epoch, subtask, of, is_restored=state is not None)
    return sink.create_writer(context) if state is None else sink.restore_writer(context, state)


def marks(tables: Tables) -> int:
    ((count,),) = tables.execute("SELECT count(*) FROM penstock_batches")
    assert isinstance(count, int)
    return count


def test_rows_are_seen_when_their_checkpoint_is_complete(tables: Tables) -> None:
    """Rows would be seen before their checkpoint, or never, and the table of marks would grow with each of them."""
    table = tables.create(COLUMNS)
    writer = begun(sink_of(tables, table), table)
    before = marks(tables)
    for number in range(1, 4):
        writer.write_chunk([(number, "a"), {"name": "b", "id": number}, (number, "c")], None)
        committables, _ = prepared(writer, number)
        assert committables == [] and len(tables.rows(table)) == 3 * (number - 1)
        writer.notify_checkpoint_complete(number)
    writer.close()

    assert tables.rows(table) == [(number, name) for number in range(1, 4) for name in "abc"]
    assert marks(tables) == before + 1


@pytest.mark.parametrize("written", [False, True], ids=["killed before the batch", "killed behind it"])
def test_killed_behind_its_checkpoint(tables: Tables, written: bool) -> None:
    """Rows of a complete checkpoint would be lost with their process, or written by each restart."""
    table = tables.create(COLUMNS)
    sink = sink_of(tables, table)
    killed = begun(sink, table)
    killed.write_chunk([(1, "a"), (2, "b"), (3, "c")], None)
    state = prepared(killed, 1)[1]
    killed.write_chunk([(4, "d")], None)
    prepared(killed, 2)
    if written:
        killed.notify_checkpoint_complete(1)

    for epoch in range(1, 4):
        successor = begun(sink, table, epoch, state=state)
        assert tables.rows(table) == [(1, "a"), (2, "b"), (3, "c")]
    successor.write_chunk([(4, "d")], None)
    prepared(successor, 2)
    successor.notify_checkpoint_complete(2)
    assert tables.rows(table) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]

    # The process was suspended, not killed, and continues.
    killed.notify_checkpoint_complete(1)
    assert len(tables.rows(table)) == 4
    for writer in (successor, killed):
        writer.close()


def test_killed_in_the_middle_of_a_batch(tables: Tables) -> None:
    """A part of the batch would stay, or what is left of its session would hold its successor up."""
    table = tables.create(COLUMNS + ", CHECK (id <> 3)")
    sink = sink_of(tables, table)
    killed = begun(sink, table)
    killed.write_chunk([(1, "a"), (2, "b"), (3, "c")], None)
    state = prepared(killed)[1]
    with pytest.raises(PostgresError, match=r"refused the row \(3, 'c'\)"):
        killed.notify_checkpoint_complete(1)
    assert tables.rows(table) == []
    killed.close()
    # An attempt between the two, which is stopped where it has set its mark.
    stopped = Tables(tables.url)
    stopped.execute(f"SET application_name = '{TransactionNames.of(context_of(table, 1)).session}'")
    stopped.execute("BEGIN")
    stopped.execute(f"INSERT INTO penstock_batches VALUES ('{state[1].batches[0].log_id}', 1, '{{}}', now())")
    tables.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_id_check")

    successor = begun(sink, table, 2, state=state)

    assert tables.rows(table) == [(1, "a"), (2, "b"), (3, "c")]
    successor.close()


@pytest.mark.parametrize("now", [1, 2, 3])
def test_after_another_parallelism(tables: Tables, now: int) -> None:
    """Batches of subtasks that are gone would be lost, or those that two writers get be taken for one another."""
    table = tables.create(COLUMNS)
    sink = sink_of(tables, table)
    state: list[Any] = []
    for subtask in range(2):
        gone = begun(sink, table, 0, subtask, 2)
        for checkpoint in (1, 2):
            gone.write_chunk([(subtask, str(checkpoint))], None)
            items = prepared(gone, checkpoint)[1]
        state += items
        if subtask == 0:
            gone.notify_checkpoint_complete(1)
        gone.close()

    # Later batches first, and twice.
    for epoch in (1, 2):
        for subtask in reversed(range(now)):
            begun(sink, table, epoch, subtask, now, state[subtask::now]).close()

    assert sorted(tables.rows(table)) == [(subtask, name) for subtask in range(2) for name in "12"]


def test_a_server_that_was_away(plain_postgres: PostgresServer, tables: Tables) -> None:
    """Each restart of the server would restart the job."""
    table = tables.create(COLUMNS)
    writer = begun(sink_of(tables, table), table)
    writer.write_chunk([(1, "a")], None)
    prepared(writer)
    plain_postgres.kill()
    plain_postgres.start()
    writer.notify_checkpoint_complete(1)
    writer.close()

    assert Tables(plain_postgres.url).rows(table) == [(1, "a")]


def test_a_savepoint_that_goes_on_without_the_log(tables: Tables) -> None:
    """Rows that the savepoint holds would be lost when the user changes the guarantee."""
    table = tables.create(COLUMNS)
    logged = begun(sink_of(tables, table), table)
    logged.write_chunk([(1, "a")], None)
    state = prepared(logged)[1]
    logged.close()

    plain = begun(sink_of(tables, table, write_ahead=False), table, 1, state=state)
    assert tables.rows(table) == [(1, "a")]
    plain.close()


def test_a_savepoint_that_goes_on_with_the_log(postgres: PostgresServer) -> None:
    """Prepared transactions would be lost, or lock their rows forever, after a change to the log."""
    tables = Tables(postgres.url)
    table = tables.create(COLUMNS)
    guarantee = DeliveryGuarantee.EXACTLY_ONCE
    plain = PostgresSink(url=tables.url, table=table, columns=["id", "name"], delivery_guarantee=guarantee)
    former = begun(plain, table)
    former.write_chunk([(1, "a")], None)
    committables, state = prepared(former)
    former.write_chunk([(2, "b")], None)
    prepared(former, 2)
    sink = sink_of(tables, table)

    logged = begun(sink, table, 1, state=state)
    committer = sink.create_committer()
    assert committer is not None
    committer.commit_again(committables)
    logged.write_chunk([(2, "b")], None)
    prepared(logged, 2)
    logged.notify_checkpoint_complete(2)

    assert tables.rows(table) == [(1, "a"), (2, "b")] and not tables.prepared(table)
    for writer in (former, logged):
        writer.close()
    tables.connection.close()


def test_what_the_log_needs(tables: Tables) -> None:
    """Rows would stay in memory forever, or a record without the columns be found only after its checkpoint."""
    table = tables.create(COLUMNS)
    sink = sink_of(tables, table)
    assert "write-ahead log" in sink.describe()
    with pytest.raises(ConfigurationError, match="takes none: call enable_checkpointing"):
        sink.create_writer(SimpleSinkContext(checkpointing=False))
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([(1, "a")]).sink_to(sink)
    with pytest.raises(ConfigurationError, match="takes none: call enable_checkpointing"):
        env.execute("in BATCH mode")
    with pytest.raises(ValueError, match="needs delivery_guarantee=EXACTLY_ONCE, got AT_LEAST_ONCE"):
        PostgresSink(url=tables.url, table=table, columns=["id"], write_ahead_log=True)
    writer = begun(sink, table)
    with pytest.raises(ValueError, match="expected a record with the fields id, name"):
        writer.write_chunk([(1, "a", "more")], None)
    writer.close()


def test_who_may_not_create_the_marks_is_told(tables: Tables) -> None:
    """The job would run until its first checkpoint, and each restart end in the same way."""
    table = tables.create(COLUMNS)
    tables.execute("DROP TABLE IF EXISTS penstock_batches")
    tables.execute("CREATE ROLE clerk LOGIN PASSWORD 'a secret'")
    tables.execute(f"GRANT INSERT ON {table} TO clerk")
    host = tables.url.rpartition("@")[2]
    sink = PostgresSink(
        url=f"postgresql://{host}",
        user_name="clerk",
        password="a secret",
        table=table,
        columns=["id", "name"],
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        write_ahead_log=True,
    )
    with pytest.raises(ConfigurationError, match="CREATE TABLE penstock_batches") as told:
        sink.validate()
    assert "a secret" not in str(told.value)
