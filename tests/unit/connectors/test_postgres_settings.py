"""Settings of the PostgreSQL connector: statements, ranges, names, and what is shown of an address."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest

from penstock.common.errors import ConfigurationError
from penstock.common.typeinfo import Types
from penstock.connectors.base.key_range import KeyRange, splits_between
from penstock.connectors.postgres.connection import Database, checked_url
from penstock.connectors.postgres.sink.statement import insert_into, with_question_marks
from penstock.connectors.postgres.sink.transactions import TransactionNames
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink, PostgresSource
from penstock.testing.conformance.sink import SimpleSinkContext

pytest.importorskip("psycopg", reason="pip install 'penstock-streams[postgres]'")
URL = "postgresql://ada:wonder%40land@db.example:5433/flights?sslmode=require"


@pytest.mark.parametrize(
    ("sql", "converted"),
    [
        ("INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (%s, %s)"),
        (
            "UPDATE t SET a = ? WHERE b LIKE '?%' AND c = \"d?\"",
            "UPDATE t SET a = %s WHERE b LIKE '?%%' AND c = \"d?\"",
        ),
        ("SELECT ? -- what?\n, '''?'", "SELECT %s -- what?\n, '''?'"),
        ("SELECT /* ? */ ?, E'\\'?', $x$ ? $x$", "SELECT /* ? */ %s, E'\\'?', $x$ ? $x$"),
        ("UPDATE t SET a = b ?? 'key', c = c % ?", "UPDATE t SET a = b ? 'key', c = c %% %s"),
    ],
)
def test_question_marks_become_parameters(sql: str, converted: str) -> None:
    """A question mark in a text would be taken for a value."""
    assert with_question_marks(sql).sql == converted


def test_statements_of_tables() -> None:
    """A name with a capital letter or a quotation mark would be another name, or another statement."""
    statement = insert_into("a.B", ("id", 'x"y', "n%"), ("id",))

    assert statement.sql == (
        'INSERT INTO "a"."B" ("id", "x""y", "n%%") VALUES (%s, %s, %s) ON CONFLICT ("id") '
        'DO UPDATE SET "x""y" = EXCLUDED."x""y", "n%%" = EXCLUDED."n%%"'
    )
    assert statement.numbered().startswith('INSERT INTO "a"."B" ("id", "x""y", "n%") VALUES ($1, $2, $3)')
    assert insert_into("t", ("id",), ("id",)).sql.endswith('ON CONFLICT ("id") DO NOTHING')
    with pytest.raises(ValueError, match="key columns must be among the columns"):
        insert_into("t", ("id",), ("key",))


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0, 100),
        (7, 7),
        (-3, 2**40),
        (0.5, 1.25),
        (Decimal("0.5"), Decimal("99.5")),
        (datetime.date(2013, 1, 1), datetime.date(2013, 1, 3)),
        (datetime.datetime(2013, 1, 1), datetime.datetime(2013, 12, 31)),
        (Decimal("-1e300"), Decimal("1e300")),
        (Decimal("1e-300"), Decimal("1e300")),
        (-1.7e308, 1.7e308),
        (0, 10**400),
        (Decimal("-1e400"), Decimal("1e400")),
        (1, 2.5),
    ],
)
def test_ranges_have_no_gaps(first: Any, last: Any) -> None:
    """Rows between two ranges would not be read; those below or above, added since, are in the first and the last."""
    splits = splits_between(first, last, 4)

    assert (splits[0].start, splits[-1].stop) == (None, None)
    assert [one.stop for one in splits[:-1]] == [one.start for one in splits[1:]]
    assert all(first < one.start <= last for one in splits[1:])
    assert splits_between(None, None, 4) == []


@pytest.mark.parametrize("number", [float, Decimal])
@pytest.mark.parametrize("odd", ["nan", "inf", "-inf"])
def test_numbers_without_an_end_are_one_range(number: Any, odd: str) -> None:
    """A column with NaN would end the job with an error of Python's decimals, or rows would be in no range."""
    one, other = number(odd), number(3)
    for first, last in ((one, other), (other, one), (one, one)):
        assert splits_between(first, last, 4) == [KeyRange(0)]


def test_huge_numbers_are_divided() -> None:
    """A single subtask would read all rows, because the length of the range is not a finite float."""
    assert len(splits_between(-1.7e308, 1.7e308, 4)) == len(splits_between(Decimal("-1e300"), Decimal("1e300"), 4)) == 4


def test_a_position_counts_the_rows_of_a_value() -> None:
    """Where many rows have one value, a restart would read some again, or skip some."""
    begun = KeyRange(0, None, 9)
    within = begun.after([1, 2, 2])
    assert within == KeyRange(0, 2, 9, 2)
    assert within.after([2]) == KeyRange(0, 2, 9, 3)
    assert within.after([2, 3]) == KeyRange(0, 3, 9, 1)
    assert KeyRange(0, 2, None, None).after([3]) == KeyRange(0, 3, None, 1)
    for nan in (float("nan"), Decimal("NaN")):
        assert KeyRange(0, 1.0, None, 1).after([2.0, nan, nan]).skip == 2
        assert KeyRange(0, nan, None, 2).after([nan]).skip == 3, "rows would come twice after a restart"


def test_the_password_is_not_shown() -> None:
    """It would be in logs, plans and reports of errors."""
    database = Database(URL)
    assert str(database) == "db.example:5433/flights"
    shown = [repr(database), str(database), database.hide("FATAL: wonder@land is wrong")]
    sink = PostgresSink(url=URL, table="t", columns=["a"])
    source = PostgresSource(url=URL, table="t", partition_column="a")
    shown += [repr(sink), sink.describe(), repr(source), source.describe()]
    with pytest.raises(ConfigurationError) as failed:
        str(Database("postgresql://ada:wonder@land/flights?mode=wonderful"))
    shown.append(str(failed.value))
    assert str(Database("postgresql://ada:wonder@land@db.example/flights")) == "db.example:5432/flights"

    assert not [text for text in shown if "wonder" in text]
    assert pickle.loads(pickle.dumps(sink)).describe() == sink.describe()


@pytest.mark.parametrize(
    ("parameters", "settings"),
    [
        ("ApplicationName=shop&loginTimeout=5", {"application_name": "shop", "connect_timeout": "5"}),
        ("currentSchema=a b,public", {"options": r"-c search_path=a\ b,public"}),
        ("currentSchema=s&options=-c%20jit=off", {"options": "-c jit=off -c search_path=s"}),
        ("options=-c%20jit=off&currentSchema=s", {"options": "-c jit=off -c search_path=s"}),
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl=true&sslmode=require", {"sslmode": "require"}),
        ("sslmode=require&ssl=true", {"sslmode": "require"}),
        ("reWriteBatchedInserts=true&stringtype=unspecified", {}),
        ("targetServerType=preferSecondary&tcpKeepAlive=true", {"target_session_attrs": "prefer-standby"}),
        ("user=ada&password=x%26y", {"user": "ada", "password": "x&y"}),
    ],
)
def test_parameters_of_jdbc(parameters: str, settings: dict[str, str]) -> None:
    """A program of Flink's would have to be changed, and would not be told how."""
    found = Database(f"jdbc:postgresql://db.example:5433/flights?{parameters}")._settings()
    assert settings.items() <= found.items() and found["host"] == "db.example" and found["dbname"] == "flights"
    assert not {"ssl", "currentSchema", "stringtype"} & found.keys()


def test_a_parameter_that_nobody_knows_is_named() -> None:
    """The message would speak of special characters, and the user would look at the password."""
    with pytest.raises(ConfigurationError, match="which has the unknown parameter 'nope'") as failed:
        str(Database("jdbc:postgresql://h/d?nope=wonder&sslmode=require"))
    assert "wonder" not in str(failed.value)
    # A password with a question mark.
    assert str(Database("jdbc:postgresql://ada:x?wonder=1@h/d")) == "h:5432/d"
    with pytest.raises(ConfigurationError) as failed:
        str(Database("jdbc:postgresql://ada:x?wonder=1@h/d?nope=1"))
    assert "wonder" not in str(failed.value)


def test_other_databases_are_refused() -> None:
    """A program for MySQL would fail when its first row comes, and with a riddle."""
    assert checked_url("jdbc:postgresql://h/d") and checked_url("host=h dbname=d")
    for url in ("jdbc:mysql://h/d", "mysql://h/d", "jdbc:derby:memory:d"):
        with pytest.raises(ValueError, match="the url must begin with"):
            checked_url(url)
    with pytest.raises(ValueError, match="driver_name must be"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_driver_name("com.mysql.cj.jdbc.Driver")


def test_options_and_their_defaults() -> None:
    """A program of PyFlink would behave otherwise; a mistake would show when rows come."""
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (5000, 0, 3)
    connection = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://h/d").build()
    with pytest.raises(ValueError, match=r"has 1 \? for values, but the type has 2 fields"):
        JdbcSink.sink("INSERT INTO t VALUES (?)", Types.ROW([Types.INT(), Types.INT()]), connection)
    for wrong, told in (
        ({}, "either a table or a statement, got neither"),
        ({"table": "t", "columns": ["a"], "statement": "?"}, "either a table or a statement, got both"),
        (
            {"statement": "INSERT INTO t VALUES (?)", "columns": ["a"]},
            r"are for a table, not for a statement, got \['a'\]",
        ),
        ({"table": "t", "columns": "ab"}, "columns must be a list of str, got 'ab'"),
        ({"table": "t", "columns": ["a"], "batch_size": 0}, "batch_size must be an int of at least 1, got 0"),
        ({"delivery_guarantee": DeliveryGuarantee.NONE}, "AT_LEAST_ONCE or EXACTLY_ONCE, got"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            PostgresSink(url=URL, **wrong)
    for columns, got in (({}, "neither"), ({"partition_column": "a", "incremental_column": "b"}, "both")):
        with pytest.raises(ValueError, match=f"either partition_column or incremental_column, got {got}"):
            PostgresSource(url=URL, table="t", **columns)


def test_names_of_transactions() -> None:
    """PostgreSQL refuses long ones; and a successor would roll back what is of another, or of itself."""
    uid = "a very long uid of a sink, in words " * 10
    context = SimpleSinkContext(3, 4, f"{'f' * 12}-2-5-{'a' * 32}", job_id="f" * 32, operator_id=uid)
    names = TransactionNames.of(context)

    assert len(names.transaction(10**9).encode()) < 200
    assert len(names.session.encode()) <= 63
    own = names.transaction(0)
    assert not names.is_of_earlier_attempt(own) and not names.is_of_earlier_attempt(names.session)
    for attempt, former in (("2-4", True), ("1-9", True), ("2-6", False), ("3-0", False)):
        other = TransactionNames.of(
            SimpleSinkContext(0, 4, f"{'f' * 12}-{attempt}-b", job_id="f" * 32, operator_id=uid)
        )
        assert names.is_of_earlier_attempt(other.transaction(7)) == former
        assert names.is_of_earlier_attempt(other.session) == former
