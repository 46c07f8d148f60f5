"""Batches of columns in PostgreSQL's tables: what their records, written row by row, leave there."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow
import pytest
from tests.connectors.driven import prepared
from tests.connectors.postgres_tables import Tables

from penstock.api.sink import SinkWriter
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import TypeInformation, Types
from penstock.connectors.postgres.connection import Database, PostgresError
from penstock.connectors.postgres.sink.columns import ColumnStatement
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.statement import insert_into
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
RANDOM = random.Random(11)
TEXTS = [
    "",
    " ",
    "a",
    "a ",
    "é😀",
    "\\",
    "\\N",
    "\t",
    "\n",
    "\r\n",
    '"',
    "'",
    "{1,2}",
    "NULL",
    ",",
    "%s",
    "$1",
    "x" * 5000,
]
INTEGERS = [0, 1, -1, 7, 32_767, -32_768]
FLOATS = [0.0, -0.0, 0.1, -1.5, 1e-300, 1.7e308, float("nan"), float("inf"), float("-inf")]
USUAL_FLOATS = [0.0, 0.1, -1.5, 2.5, 3e4, float("nan")]
MOMENTS = [datetime(1, 1, 1), datetime(1999, 12, 31, 23, 59, 59, 999999), datetime(2000, 1, 1), datetime(9999, 12, 31)]
IN_ZONE = [moment.replace(tzinfo=UTC) for moment in MOMENTS[1:3]] + [
    datetime(2024, 3, 31, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=45)))
]
DECIMALS = [Decimal("1.5000"), Decimal("-0.0001"), Decimal(0), Decimal("9999999999.9999")]
FINE_DECIMALS = [Decimal("1E-12"), Decimal("-3E-11"), Decimal(0), Decimal(12345)]
NUMBERS = pyarrow.int64()
CASES: list[tuple[str, pyarrow.DataType, list[Any]]] = [
    ("bigint", NUMBERS, [*INTEGERS, 2**63 - 1, -(2**63)]),
    ("smallint", NUMBERS, INTEGERS),
    ("integer", pyarrow.int8(), [0, -128, 127]),
    ("integer", pyarrow.uint16(), [0, 65_535]),
    ("bigint", pyarrow.uint32(), [0, 2**32 - 1]),
    ("numeric", NUMBERS, INTEGERS),
    ("numeric(12, 3)", pyarrow.int32(), INTEGERS),
    ("text", NUMBERS, INTEGERS),
    ("double precision", NUMBERS, INTEGERS),
    ("double precision", pyarrow.float64(), FLOATS),
    ("double precision", pyarrow.float32(), [0.1, -0.0, 3e38, float("nan"), float("inf")]),
    ("real", pyarrow.float64(), USUAL_FLOATS),
    ("integer", pyarrow.float64(), [0.5, 1.5, -2.5, 7.0]),
    ("numeric(10, 2)", pyarrow.float64(), USUAL_FLOATS),
    ("text", pyarrow.float64(), USUAL_FLOATS),
    ("boolean", pyarrow.bool_(), [True, False]),
    ("text", pyarrow.bool_(), [True, False]),
    ("text", pyarrow.string(), TEXTS),
    ("text", pyarrow.large_string(), TEXTS),
    ("text", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), TEXTS),
    ("varchar(5000)", pyarrow.string(), TEXTS),
    ("char(3)", pyarrow.string(), ["", "a", "a ", "abc", "abc   "]),
    ("citext_like", pyarrow.string(), ["a", "b"]),
    ("integer", pyarrow.string(), ["1", " 2 ", "-3"]),
    ("uuid", pyarrow.string(), ["00000000-0000-0000-0000-00000000000a", "{0000000000000000000000000000000b}"]),
    ("jsonb", pyarrow.string(), ["{}", '{"a": [1, null, "é"]}', "3"]),
    ("json", pyarrow.string(), ['{ "a":1}']),
    ("color", pyarrow.string(), ["red", "green"]),
    ("date", pyarrow.string(), ["2024-02-29", "infinity"]),
    ("integer[]", pyarrow.string(), ["{1,2}", "{}"]),
    ("interval", pyarrow.string(), ["1 day", "02:00"]),
    ("bit(3)", pyarrow.string(), ["101"]),
    ("money", pyarrow.string(), ["1.50", "$1,234.05", "-$0.01"]),
    ("money", pyarrow.decimal128(14, 4), [Decimal("1.5000"), Decimal("-0.0150"), Decimal(0)]),
    ("numeric(14, 4)", pyarrow.decimal128(14, 4), DECIMALS),
    ("numeric", pyarrow.decimal128(38, 12), FINE_DECIMALS),
    ("numeric", pyarrow.decimal256(40, 12), FINE_DECIMALS),
    ("double precision", pyarrow.decimal128(14, 4), DECIMALS),
    ("bytea", pyarrow.binary(), [b"", b"\x00\xff\\", b"a" * 3000]),
    ("bytea", pyarrow.large_binary(), [b"", b"\x00"]),
    ("date", pyarrow.date32(), [date(1, 1, 1), date(2000, 1, 1), date(9999, 12, 31)]),
    ("timestamp", pyarrow.date32(), [date(1, 1, 1), date(2000, 1, 1)]),
    ("timestamp", pyarrow.timestamp("us"), MOMENTS),
    ("timestamp", pyarrow.timestamp("ms"), [moment.replace(microsecond=0) for moment in MOMENTS]),
    ("timestamp", pyarrow.timestamp("s"), [moment.replace(microsecond=0) for moment in MOMENTS]),
    ("timestamp", pyarrow.timestamp("ns"), MOMENTS[1:3]),
    ("timestamptz", pyarrow.timestamp("us"), MOMENTS),
    ("timestamptz", pyarrow.timestamp("us", "UTC"), IN_ZONE),
    ("timestamptz", pyarrow.timestamp("ms", "Asia/Kathmandu"), [m.replace(microsecond=0) for m in IN_ZONE]),
    ("timestamp", pyarrow.timestamp("us", "UTC"), IN_ZONE),
    ("date", pyarrow.timestamp("us"), MOMENTS),
    ("time", pyarrow.time64("us"), [time(), time(23, 59, 59, 999999)]),
    ("time", pyarrow.time32("s"), [time(1, 2, 3)]),
]


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    for made in (
        "CREATE DOMAIN citext_like AS varchar(3) CHECK (VALUE <> '')",
        "CREATE TYPE color AS ENUM ('red', 'green')",
    ):
        name = made.split(" ")[2]
        if not tables.execute(f"SELECT FROM pg_type WHERE typname = '{name}'"):
            tables.execute(made)
    yield tables
    tables.connection.close()


def sink_of(tables: Tables, table: str, columns: RecordColumns | pyarrow.Schema, **settings: Any) -> PostgresSink:
    return PostgresSink(url=tables.url, table=table, columns=columns.names, **settings)


def write_rows(writer: SinkWriter[Any], batch: pyarrow.RecordBatch, columns: RecordColumns) -> None:
    writer.write_chunk(columns.reader()(batch), None)


def contents(tables: Tables, table: str) -> list[str]:
    """The rows as they were written, one after the other."""
    return [row for (row,) in tables.execute(f"SELECT t::text FROM {table} AS t ORDER BY ctid")]


def written(
    tables: Tables, definition: str, batches: list[pyarrow.RecordBatch], *, on_columns: bool, **settings: Any
) -> tuple[str, list[str]]:
    """What a table has when these batches were written, or the error. Tables of one definition have one name there."""
    table = tables.create(definition)
    columns = RecordColumns(batches[0].schema)
    sink = sink_of(tables, table, columns, **settings)
    writer = sink.create_writer(SimpleSinkContext(attempt=f"a-{table}"))
    error = ""
    try:
        for batch in batches:
            if on_columns and sink.takes_columns(columns):
                writer.write_columns(batch)
            else:
                write_rows(writer, batch, columns)
        committables, _ = prepared(writer)
        committer = sink.create_committer()
        if committer is not None:
            committer.commit(committables)
    except PostgresError as failed:
        error = str(failed).replace(table, "the table")
    finally:
        writer.close()
    return error, contents(tables, table)


def assert_as_rows(tables: Tables, definition: str, batches: list[pyarrow.RecordBatch], **settings: Any) -> Any:
    of_rows = written(tables, definition, batches, on_columns=False, **settings)
    assert written(tables, definition, batches, on_columns=True, **settings) == of_rows
    return of_rows


def chosen(kind: pyarrow.DataType, values: list[Any], count: int, *, nulls: bool) -> pyarrow.Array:
    every = [*values, *RANDOM.choices([*values, None] if nulls else values, k=count)][:count]
    RANDOM.shuffle(every)
    return pyarrow.array(every, kind)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]} in {case[0]}")
def test_values_are_those_of_rows(
    tables: Tables, case: tuple[str, pyarrow.DataType, list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """A value would be another one, or refused, because a program was changed to columns."""
    column, kind, values = case
    caplog.set_level(logging.INFO, "penstock")
    for nulls in (True, False):
        whole = pyarrow.RecordBatch.from_pydict(
            {"place": pyarrow.array(range(90)), "the % value": chosen(kind, values, 90, nulls=nulls)}
        )
        # Slices: what is outside is not written, though it is in memory.
        batches = [whole.slice(3, 40), whole.slice(43, 45)]
        definition = f'place integer, "the % value" {column}'
        error, found = assert_as_rows(tables, definition, batches, batch_size=32)
        assert not error and len(found) == 85
        assert "row by row" not in caplog.text


def test_integers_in_money_are_accepted_or_refused_as_those_of_rows(tables: Tables) -> None:
    """The job would write amounts on columns that the server refuses from rows."""
    for values, is_accepted in (([7], False), ([100_000, None], True)):
        batch = pyarrow.RecordBatch.from_pydict({"n": pyarrow.array(values, NUMBERS)})
        error, found = assert_as_rows(tables, "n money", [batch])
        assert (is_accepted and not error and len(found) == 2) or "is of type money but" in error


def test_the_writer_takes_all_columns_but_some(tables: Tables) -> None:
    """A type would be written row by row, or as another value, without notice."""
    table = tables.create("value text")

    def is_taken(kind: pyarrow.DataType | TypeInformation, **settings: Any) -> bool:
        if isinstance(kind, pyarrow.DataType):
            columns = RecordColumns(pyarrow.schema([("value", kind)]))
        else:
            columns = RecordColumns(Types.ROW_NAMED(["value"], [kind]))
        return sink_of(tables, table, columns, **settings).takes_columns(columns)

    taken = [kind for _, kind, _ in CASES if is_taken(kind)]
    assert {kind for _, kind, _ in CASES} - set(taken) == {pyarrow.timestamp("ns")}
    assert not is_taken(pyarrow.uint64()) and not is_taken(pyarrow.list_(NUMBERS)) and not is_taken(pyarrow.null())
    assert is_taken(Types.SQL_TIMESTAMP()) and is_taken(Types.SQL_DATE()) and is_taken(Types.STRING())
    # Records have Decimals and Instants, the columns others.
    assert not is_taken(Types.BIG_DEC()) and not is_taken(Types.INSTANT())
    exactly_once = {"delivery_guarantee": DeliveryGuarantee.EXACTLY_ONCE}
    assert is_taken(NUMBERS, **exactly_once) and not is_taken(NUMBERS, **exactly_once, write_ahead_log=True)
    others = RecordColumns(pyarrow.schema([("other", NUMBERS)]))
    assert not PostgresSink(url=tables.url, table=table, columns=["value"]).takes_columns(others)
    assert not PostgresSink(url=tables.url, statement=f"INSERT INTO {table} VALUES (?)").takes_columns(others)


KEYS = {
    "bigint": (NUMBERS, list(range(20))),
    "text": (pyarrow.string(), [*TEXTS, "z"]),
    "varchar(9)": (pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), ["a", "b", "c"]),
    "double precision": (pyarrow.float64(), FLOATS),
    "numeric": (pyarrow.decimal128(14, 4), DECIMALS),
    "timestamptz": (pyarrow.timestamp("us", "UTC"), IN_ZONE),
    "bytea": (pyarrow.binary(), [b"", b"\x00", b"a"]),
    "boolean": (pyarrow.bool_(), [True, False]),
    # Different values of the columns are one key of the table.
    "char(2)": (pyarrow.string(), ["a", "a ", "b", "b "]),
    "date": (pyarrow.timestamp("us"), [datetime(2024, 1, 1), datetime(2024, 1, 1, 5), datetime(2024, 1, 2)]),
}


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
@pytest.mark.parametrize("key", KEYS)
def test_the_last_change_of_a_key_wins(tables: Tables, key: str, guarantee: DeliveryGuarantee) -> None:
    """A table would have an older value of a key, or the job would fail at two changes of one key in a batch."""
    kind, values = KEYS[key]
    whole = pyarrow.RecordBatch.from_pydict(
        {
            "number": pyarrow.array(range(300)),
            "key": chosen(kind, values, 300, nulls=True),
            "second": chosen(pyarrow.int32(), [1, 2], 300, nulls=False),
        }
    )
    definition = f"number integer, key {key}, second integer, UNIQUE (key, second)"
    batches = [whole.slice(start, 75) for start in range(0, 300, 75)]
    settings = {"key_columns": ["key", "second"], "batch_size": 100, "delivery_guarantee": guarantee}
    of_rows = written(tables, definition, batches, on_columns=False, **settings)
    of_columns = written(tables, definition, batches, on_columns=True, **settings)
    # An update moves a row, and rows that are superseded within a batch are not sent.
    assert (of_rows[0], sorted(of_rows[1])) == (of_columns[0], sorted(of_columns[1]))
    assert not of_rows[0] and len(of_rows[1]) < 150


def test_rows_of_which_only_the_key_is_written(tables: Tables) -> None:
    """Of two rows with one key the second would replace the first, though there is nothing to update."""
    batch = pyarrow.RecordBatch.from_pydict({"key": ["a", "a ", "b", None, "a", None]})
    error, found = assert_as_rows(tables, "key char(2) UNIQUE", [batch], key_columns=["key"])
    assert not error and found == ['("a ")', '("b ")', "()", "()"]


@pytest.mark.parametrize(
    ("definition", "values", "reason"),
    [
        ("id bigint, value text NOT NULL", ["a", None, "c"], "null value"),
        ("id bigint, value text", ["a", "b\x00", "c"], "NUL"),
        ("id bigint, value varchar(2)", ["a", "bcd", "c"], "too long"),
        ("id bigint, value citext_like", ["a", "bcde", "c"], "too long"),
        ("id bigint, value citext_like", ["a", "", "c"], "check constraint"),
        ("id bigint, value smallint", [1, 2**40, 3], "out of range"),
        ("id bigint, value integer", ["1", "x", "3"], "invalid input syntax"),
        ("id bigint, value color", ["red", "blue", "red"], "invalid input value"),
        ("id bigint, value numeric(3, 1)", [Decimal("1.0"), Decimal("100.0"), Decimal(2)], "overflow"),
        ("id bigint, value boolean", [1, None, 3], "boolean"),
        ("id bigint UNIQUE, value text", ["a", "b", "c"], "duplicate key"),
        ("id bigint, value date", [1, 2, 3], "type date"),
        ("id bigint, others text", ["a", "b", "c"], "does not exist"),
    ],
)
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_the_refused_row_is_named(
    tables: Tables, definition: str, values: list[Any], reason: str, guarantee: DeliveryGuarantee
) -> None:
    """The user would have to find the wrong row among five thousand."""
    batch = pyarrow.RecordBatch.from_pydict({"id": [1, 2, 2 if "UNIQUE" in definition else 3], "value": values})
    error, found = assert_as_rows(tables, definition, [batch], delivery_guarantee=guarantee)
    assert "the table" in error and reason in error and not found
    assert "refused" in error


def test_rows_of_declared_types(tables: Tables) -> None:
    """A program with a declared row type would write other values on columns."""
    kinds = [Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.FLOAT(), Types.BOOLEAN()]
    columns = RecordColumns(Types.ROW_NAMED(["a", "b", "c", "d", "e", "f"], kinds))
    rows = [(1, "é", datetime(2024, 1, 1), date(2024, 1, 1), 0.5, True), (None,) * 6]
    batch = columns.batch([list(values) for values in zip(*rows, strict=True)])
    found = []
    for on_columns in (True, False):
        table = tables.create("f boolean, e real, d date, c timestamp, b text, a bigint")
        sink = sink_of(tables, table, columns)
        assert sink.takes_columns(columns)
        writer = sink.create_writer(SimpleSinkContext())
        if on_columns:
            writer.write_columns(batch)
        else:
            write_rows(writer, batch, columns)
        writer.flush(True)
        writer.close()
        found.append(contents(tables, table))
    assert found[0] == found[1] == ['(t,0.5,2024-01-01,"2024-01-01 00:00:00",é,1)', "(,,,,,)"]


def test_batches_wait_for_their_interval(tables: Tables) -> None:
    """Rows of a slow stream would wait for a full batch."""
    table = tables.create()
    batch = pyarrow.RecordBatch.from_pydict({"id": [1, 2], "name": ["a", "b"]})
    writer = sink_of(tables, table, batch.schema, batch_interval_ms=200).create_writer(SimpleSinkContext())
    writer.write_columns(batch)
    assert tables.rows(table) == [] and writer.wake_at_ms() == 200
    writer.on_wake(200)
    assert tables.rows(table) == [(1, "a"), (2, "b")] and writer.wake_at_ms() is None
    writer.close()


def test_exactly_once(tables: Tables) -> None:
    """Rows of a job that fails would stay, or rows of a completed checkpoint be missing or locked."""
    table = tables.create()
    batches = [pyarrow.RecordBatch.from_pydict({"id": [1, 2], "name": [text] * 2}) for text in ("first", "second")]
    settings = {"key_columns": ["id"], "delivery_guarantee": DeliveryGuarantee.EXACTLY_ONCE, "batch_size": 1}
    sink = sink_of(tables, table, batches[0].schema, **settings)
    job = f"job-{table}"
    writer = sink.create_writer(SimpleSinkContext(job_id=job, attempt="job-1-0-11"))
    writer.write_columns(batches[0])
    first, state = prepared(writer, 1)
    assert tables.rows(table) == [] and len(tables.prepared(job)) == 1

    # The first transaction locks its rows until its checkpoint is complete: those of the second wait in memory.
    writer.write_columns(batches[1])
    committer = sink.create_committer()
    assert committer is not None
    committer.commit(first)
    assert tables.rows(table) == [(1, "first"), (2, "first")]
    writer.notify_checkpoint_complete(1)
    prepared(writer, 2)
    assert len(tables.prepared(job)) == 1
    writer.close()

    # It fails before the checkpoint is complete, and is restored from the one before.
    restored = sink.restore_writer(SimpleSinkContext(job_id=job, attempt="job-1-1-12", is_restored=True), state)
    assert tables.prepared(job) == [] and tables.rows(table) == [(1, "first"), (2, "first")]
    restored.close()


def test_large_fields_are_written_in_parts(tables: Tables) -> None:
    """The server would close the connection on which a batch of documents exceeds 1 GiB, at each restart."""
    texts = [None, "é" * 700, "", "b" * 5000, *["c" * 90] * 60]
    batch = pyarrow.RecordBatch.from_pydict({"id": range(len(texts)), "name": texts})
    table = tables.create()
    columns = ColumnStatement(insert_into(table, ["id", "name"], ["id"]), batch_bytes=2000)
    columns.add(batch.slice(0, 9))
    columns.add(batch.slice(9))
    parts = columns.take(40)
    assert pyarrow.concat_batches(parts) == batch and columns.rows == 0
    assert all(part.nbytes <= 2000 or part.num_rows == 1 for part in parts) and 5 < len(parts) < 20
    session = Session(Database(tables.url), "test", insert_into(table, ["id", "name"], ["id"]).sql)
    for part in parts:
        columns.write(session, part)
    session.close()
    assert [name for _, name in tables.rows(table)] == texts
