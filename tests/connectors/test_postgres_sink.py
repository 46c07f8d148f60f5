"""The PostgreSQL sink against a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.connectors.driven import prepared
from tests.connectors.postgres_tables import Tables

from penstock.common.errors import ConfigurationError
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.connectors.postgres.connection import PostgresError, TransientPostgresError
from penstock.connectors.postgres.sink.sink import TransactionLostError
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.close()


@dataclass
class Flight:
    name: str
    id: int


def sink_of(tables: Tables, table: str, **settings: Any) -> PostgresSink:
    return PostgresSink(**{"url": tables.url, "table": table, "columns": ["id", "name"], **settings})


def exactly_once(tables: Tables, table: str) -> PostgresSink:
    return sink_of(tables, table, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)


def test_records_of_all_kinds_replace_those_with_their_key(tables: Tables) -> None:
    """A row would be missing, be there twice, or have its fields in wrong columns."""
    table = tables.create()
    tables.execute(f"INSERT INTO {table} VALUES (2, 'before')")
    sink = sink_of(tables, table, key_columns=["id"], batch_size=2)
    sink.validate()
    writer = sink.create_writer(SimpleSinkContext())

    writer.write_chunk([(1, "a"), {"name": "b", "id": 2}, Row(name="c", id=3)], None)
    writer.write_chunk([Flight("d", 4), [5, "e"], (1, "a again"), Row(6, None)], None)
    writer.flush(False)
    writer.close()

    assert tables.rows(table) == [(1, "a again"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, None)]


def test_dicts_are_json(tables: Tables) -> None:
    """An event with a part of its own form would be refused: 'cannot adapt type dict'."""
    table = tables.create("id BIGINT PRIMARY KEY, name JSONB")
    writer = sink_of(tables, table, key_columns=["id"]).create_writer(SimpleSinkContext())
    writer.write_chunk([(1, {"a": [1, None], "b": "ü"}), (2, {}), (3, None)], None)
    writer.flush(False)
    writer.write_chunk([(4, {"a": {1}})], None)
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        writer.flush(False)
    writer.close()
    assert tables.rows(table) == [(1, {"a": [1, None], "b": "ü"}), (2, {}), (3, None)]


def test_pyflinks_sink(tables: Tables) -> None:
    """A program of PyFlink would not run."""
    table = tables.create("id bigint, name text")
    host = tables.url.rpartition("@")[2]
    connection = (
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
        .with_url(f"jdbc:postgresql://{host}")
        .with_driver_name("org.postgresql.Driver")
        .with_user_name("penstock")
        .with_password("penstock")
        .build()
    )
    execution = JdbcExecutionOptions.builder().with_batch_size(3).with_batch_interval_ms(200).build()
    sql = f"insert into {table} (name, id) values (? || '%?', ?)"
    sink = JdbcSink.sink(sql, Types.ROW([Types.STRING(), Types.LONG()]), connection, execution)
    sink.validate()
    context = SimpleSinkContext()
    writer = sink.create_writer(context)

    writer.write_chunk([Row("a", 1), Row("b", 2)], None)
    assert tables.rows(table) == [] and writer.wake_at_ms() == 200
    writer.on_wake(200)
    assert tables.rows(table) == [(1, "a%?"), (2, "b%?")] and writer.wake_at_ms() is None
    writer.close()


def test_the_row_that_is_refused_is_named(tables: Tables) -> None:
    """The user would have to find the wrong row among five thousand."""
    table = tables.create("id bigint PRIMARY KEY, name text NOT NULL")
    writer = sink_of(tables, table).create_writer(SimpleSinkContext())
    writer.write_chunk([(1, "a"), (2, None), (3, "c")], None)

    with pytest.raises(PostgresError, match=r"refused the row \(2, None\): null value") as refused:
        writer.flush(False)

    assert f'INSERT INTO "{table}"' in str(refused.value)
    assert tables.rows(table) == []
    writer.close()


def test_what_is_wrong_is_told_before_the_first_record(tables: Tables) -> None:
    """A job would run until its first row."""
    table = tables.create()
    with pytest.raises(PostgresError, match='relation "nowhere" does not exist'):
        sink_of(tables, "nowhere").validate()
    with pytest.raises(PostgresError, match='column "minutes" of relation'):
        sink_of(tables, table, columns=["id", "minutes"]).validate()
    with pytest.raises(PostgresError, match=r"cannot connect to PostgreSQL.*\. Check user and password: ") as failed:
        sink_of(tables, table, password="a secret").validate()
    assert "a secret" not in str(failed.value) and not isinstance(failed.value, TransientPostgresError)


def test_a_connection_that_is_lost(tables: Tables) -> None:
    """A restart of the server would restart the job, or lose a batch."""
    table = tables.create()
    writer = sink_of(tables, table).create_writer(SimpleSinkContext(operator_id=table))
    writer.write_chunk([(1, "a")], None)
    writer.flush(False)
    tables.execute(
        f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE '%{table}%'"
    )
    writer.write_chunk([(2, "b")], None)
    writer.flush(False)
    writer.close()

    assert tables.rows(table) == [(1, "a"), (2, "b")]


def test_the_sink_meets_what_is_required_of_all(tables: Tables) -> None:
    """Records would be seen before their checkpoint, twice, or never."""
    last: list[str] = []

    def make_sink() -> PostgresSink:
        last[:] = [tables.create("id bigint, name text")]
        return exactly_once(tables, last[0])

    check_sink(make_sink, lambda: tables.rows(last[0]), [(number, str(number)) for number in range(5)])


def test_killed_between_pre_commit_and_commit(tables: Tables) -> None:
    """Records of a checkpoint would be lost with their process, or later ones be seen twice."""
    table = tables.create("id bigint, name text")
    sink = exactly_once(tables, table)
    killed = sink.create_writer(SimpleSinkContext(attempt=f"{table}-1-0-11", job_id=table))
    killed.write_chunk([(1, "a"), (2, "b")], None)
    committables, state = prepared(killed)
    killed.write_chunk([(3, "c")], None)
    prepared(killed, 2)
    assert tables.rows(table) == [] and len(tables.prepared(table)) == 2

    successor = sink.restore_writer(SimpleSinkContext(attempt=f"{table}-1-1-12", job_id=table, is_restored=True), state)
    committer = sink.create_committer()
    assert committer is not None
    committer.commit_again(committables)
    assert tables.rows(table) == [(1, "a"), (2, "b")]
    successor.write_chunk([(3, "c")], None)
    later, _ = prepared(successor)
    committer.commit(later)
    committer.commit_again(committables)

    assert tables.rows(table) == [(1, "a"), (2, "b"), (3, "c")]
    killed.write_chunk([(4, "of a process that was stopped")], None)
    with pytest.raises(PostgresError):
        killed.prepare_commit()
    for writer in (successor, killed):
        writer.close()
    assert not tables.prepared(table)


def test_what_lingers_is_rolled_back_after_scaling_down(tables: Tables) -> None:
    """Prepared transactions of subtasks that are gone would hold their rows for ever; those of another job are kept."""
    table = tables.create("id bigint, name text")
    sink = exactly_once(tables, table)
    other = sink.create_writer(SimpleSinkContext(attempt=f"other-{table}-1-0-1", job_id=f"other-{table}"))
    other.write_chunk([(9, "of another")], None)
    of_another, _ = prepared(other)
    state = []
    for subtask in range(3):
        gone = sink.create_writer(SimpleSinkContext(subtask, 3, f"{table}-1-0-11", job_id=table))
        state += prepared(gone)[1]
        gone.write_chunk([(subtask, "x")], None)
        prepared(gone, 2)
        gone.close()
    assert len(tables.prepared(table)) == 4

    left = sink.restore_writer(SimpleSinkContext(0, 1, f"{table}-1-1-12", job_id=table, is_restored=True), state)

    assert tables.prepared(table) == [of_another[0].name]
    for writer in (left, other):
        writer.close()
    committer = sink.create_committer()
    assert committer is not None
    committer.abort(of_another)
    assert not tables.prepared(table)
    with pytest.raises(TransactionLostError, match="was rolled back before it could be committed"):
        committer.commit(of_another)


def test_rows_that_the_transaction_before_holds_wait_for_its_commit(tables: Tables) -> None:
    """An update of a row that was updated before the checkpoint would wait for a lock, and its checkpoint for it."""
    table = tables.create()
    guarantee = DeliveryGuarantee.EXACTLY_ONCE
    once = sink_of(tables, table, key_columns=["id"], batch_size=1, delivery_guarantee=guarantee)
    writer = once.create_writer(SimpleSinkContext(job_id=table))
    committer = once.create_committer()
    assert committer is not None
    for number in range(3):
        writer.write_chunk([(1, str(number))], None)
        committables, _ = prepared(writer, number)
        writer.write_chunk([(1, f"{number} and more")], None)
        committer.commit(committables)
        writer.notify_checkpoint_complete(number)

    assert tables.rows(table) == [(1, "2")]
    writer.close()


def test_without_prepared_transactions_the_user_is_told() -> None:
    """A job would run for an interval, and fail at each checkpoint."""
    with PostgresServer(prepared_transactions=0) as server:
        tables = Tables(server.url)
        table = tables.create()
        with pytest.raises(ConfigurationError, match=r"set max_prepared_transactions in[^*]*write_ahead_log=True"):
            exactly_once(tables, table).validate()
        tables.connection.close()
