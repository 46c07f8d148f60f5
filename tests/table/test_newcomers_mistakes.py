"""Mistakes of people who begin: each error says what is wrong, where, and what to write instead."""

from __future__ import annotations

import pytest
from tests.table.in_process import environment
from tests.table.table_tests import need_planner

from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import SqlError, UnsupportedPlanError


@pytest.fixture(scope="module")
def tables() -> StreamTableEnvironment:
    need_planner()
    made = StreamTableEnvironment.create(environment(1))
    made.execute_sql(
        """CREATE TABLE t (k STRING, n INT, made TIMESTAMP(3), timed TIMESTAMP(3), WATERMARK FOR timed AS timed)
        WITH ('connector' = 'datagen', 'number-of-rows' = '3')"""
    )
    made.execute_sql("CREATE TABLE bare (k STRING)")
    return made


def window(function: str, time: str) -> str:
    return f"""SELECT window_start, COUNT(*) AS n
        FROM TABLE({function}(TABLE t, DESCRIPTOR({time}), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"""


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("SELECT nope FROM t", ["Column 'nope' not found", "line 1, column 8"]),
        ("SELECT UPER(k) FROM t", ["function signature UPER"]),
        (window("TUMBLE", "made"), ["TIMESTAMP(3)", "declare WATERMARK FOR", "PROCTIME()"]),
        (window("TUMBEL", "timed"), ["no table function TUMBEL"]),
        ("SELEC k FROM t", ["a statement does not begin with SELEC"]),
        (
            "SELECT a.k FROM t AS a JOIN t FOR SYSTEM_TIME AS OF a.timed AS b ON a.k = b.k",
            ["requires primary key in versioned table"],
        ),
        ("SELECT APPROX_COUNT_DISTINCT(k) FROM t", ["APPROX_COUNT_DISTINCT aggregate function does not support"]),
        ('SELECT "k" FROM t', ["names are between backquotes"]),
        ("SELECT k FROM t ORDER BY n", ["Sort on a non-time-attribute field", "add LIMIT"]),
        ("SELECT k FROM t WHERE n = 'x'", ["conversion between CHAR and INTEGER", "CAST"]),
        (window("TUMBLE", "timed").replace("'10'", "10"), ["is a text: INTERVAL '10' SECOND"]),
        (window("TUMBLE", "timed").replace("TABLE t", "t"), ["Column 't' not found", "called as TUMBLE(TABLE t, DESC"]),
        (
            window("HOP", "timed").replace("DESCRIPTOR(timed)", "timed"),
            ["Column 'timed' not found", "called as TUMBLE(TABLE t, DESCRIPTOR(column)"],
        ),
        ("SELECT k FROM t; SELECT n FROM t", ["Execute each by itself"]),
        ("-- nothing", ["there is no statement"]),
        ("SELECT * FROM bare", ["has no option 'connector'. Name its connector in WITH (...)"]),
        (
            "CREATE TABLE u (k STRING PRIMARY KEY) WITH ('connector' = 'print')",
            ["write PRIMARY KEY (...) NOT ENFORCED"],
        ),
        ("CREATE TABLE u (k TEXT) WITH ('connector' = 'print')", ["there is no type TEXT: texts are STRING"]),
        ("CREATE TABLE u (k INT) WITH (connector = 'print')", ["Expected: a text between ' and ', \")\"."]),
        ("SELECT a.k FROM t AS a JOIN t AS b ON a.n = b.k", ["conversion between INTEGER and VARCHAR", "join"]),
    ],
)
def test_a_query_with_a_mistake(tables: StreamTableEnvironment, query: str, parts: list[str]) -> None:
    """A newcomer would read rules of the planner, or a kernel of Arrow's, in place of the mistake."""
    with pytest.raises((SqlError, UnsupportedPlanError)) as raised:
        tables.execute_sql(query)
    message = str(raised.value)
    assert not [part for part in parts if part not in message], message
    assert not [word for word in ("rel#", "Rule", "$SCALAR_QUERY", "kernel", "Flink") if word in message], message


def test_a_value_that_can_not_be_computed_is_named(tables: StreamTableEnvironment) -> None:
    """The error would show the first row of a batch, and forty lines of our code."""
    values = ", ".join(f"('{one}', 1)" for one in (*range(40), "x", *range(9)))
    query = f"SELECT CAST(s AS INT) AS n FROM (VALUES {values}) AS v(s, n) WHERE s <> '3'"
    with pytest.raises(Exception, match="Invalid character") as raised:
        tables.execute_sql(query).print()
    text = str(raised.value)
    assert "Calc(select=[CAST(s AS INTEGER)" in text and "'s': 'x'" in text, text
    assert ".py" not in text and len(text.splitlines()) < 6, text
