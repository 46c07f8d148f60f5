"""Mistakes of people who begin: each error says what is wrong, where, and what to write instead."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from tests.table.in_process import InProcess, environment
from tests.table.table_tests import need_planner

from penstock.common.errors import ProgramError
from penstock.common.job_client import JobClient
from penstock.datastream import StreamExecutionEnvironment
from penstock.service.client.executor import Submission
from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import SqlError, UnsupportedPlanError
from penstock.table.udf import udf, udtf


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
        ("SELECT UPER(k) FROM t", ["function signature UPER", "did you mean 'UPPER'"]),
        (
            "SELECT k, tiemd FROM t",
            ["Column 'tiemd' not found in any table; did you mean 'timed'? (line 1"],
        ),
        ("SELECT k FROM baer", ["Object 'baer' not found; did you mean 'bare'? (line 1, column 15)"]),
        ("SELECT zzz FROM t", ["Column 'zzz' not found in any table (line 1"]),
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


def test_times_with_nanoseconds_are_collected_without_them(tables: StreamTableEnvironment) -> None:
    """A row with them would be an error of the job: Python's times have microseconds, as PyFlink's rows have."""
    moment = "CAST(s AS TIMESTAMP(9))"
    query = f"""SELECT {moment} AS a, ARRAY[{moment}] AS b, CAST({moment} AS STRING) AS c
        FROM (VALUES ('2020-01-01 00:00:00.123456789')) AS v(s)"""
    (row,) = tables.execute_sql(query).collect()
    expected = datetime(2020, 1, 1, 0, 0, 0, 123456)
    assert list(row) == [expected, [expected], "2020-01-01 00:00:00.123456789"]


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("CAST(CAST(n + 3000 AS STRING) || '-01-01 00:00:00' AS TIMESTAMP(9))", ["'3001-01-01", "1678 to 2261"]),
        ("CAST(TIMESTAMPADD(YEAR, n + 999, made) AS TIMESTAMP(9))", ["1678 to 2261"]),
        ("CAST(made AS TIMESTAMP(9)) + INTERVAL '500' YEAR(3)", ["1678 to 2261"]),
        ("CAST(made AS TIMESTAMP(9)) + INTERVAL '99999' DAY(5) * n * 5", ["out of bounds"]),
        ("k SIMILAR TO '[a-'", ["'[a-' is not a pattern of SIMILAR TO: unclosed character class"]),
        ("(SELECT n FROM (VALUES (1), (2)) AS v(n))", ["a subquery in place of a value gives more than one row"]),
    ],
)
def test_a_value_that_does_not_exist(tables: StreamTableEnvironment, expression: str, parts: list[str]) -> None:
    """A time beyond the years of nanoseconds would be another time, and an error would show lines of our code."""
    with pytest.raises(Exception, match="operator") as raised:
        tables.execute_sql(f"SELECT {expression} AS x FROM (SELECT n - n + 1 AS n, made, k FROM t)").print()
    message = str(raised.value)
    assert not [part for part in parts if part not in message], message
    assert ".py" not in message, message


def test_a_cast_that_does_not_exist_is_refused_before_the_job(tables: StreamTableEnvironment) -> None:
    """The first row would fail, in a job that has started."""
    for cast in ("CAST(n AS TIMESTAMP(3))", "CAST(made AS BIGINT)", "TRY_CAST(k AS ARRAY<INT>)"):
        with pytest.raises(UnsupportedPlanError, match=r"(?i)the node 'calc' of the plan.*cast"):
            tables.execute_sql(f"SELECT {cast} AS x FROM t")


@pytest.mark.parametrize(
    ("statement", "parts"),
    [
        ("SELECT k FROM t WHERE k == 'a'", ['Encountered "= ="', "Write =."]),
        ("SELECT k FROM t WHERE k != 'a'", ["Bang equal", "Write <>."]),
        ("SELECT '", ["A text that begins here has no end."]),
        ("SELECT k FROM (VALUES ('a')) AS v(k) WHERE k = 1", ["implicit type conversion", "write CAST"]),
        ("SELECT k FROM t /*+ OPTION('number-of-rows' = '2') */", ["there is no hint OPTION: OPTIONS"]),
        ("SELECT MULTISET['a'] AS m", ["no operator executes this"]),
        (
            "SELECT a.k FROM t AS a JOIN t FOR SYSTEM_TIME AS OF PROCTIME() AS b ON a.k = b.k",
            ["a time attribute"],
        ),
        ("SELECT ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS r FROM t", ["condition on it", "QUALIFY"]),
        ("CREATE TABLE u WITH ('connector' = 'print') AS SELECT k FROM t", ["Write CREATE TABLE, then INSERT INTO"]),
        ("SHOW JOBS", ["penstock list"]),
        ("SELECT k FROM t /*+ OPTIONS('number-of-row' = '2') */", ["Did you mean 'number-of-rows'?"]),
        ("COMPILE PLAN 'plan.json' FOR SELECT k FROM t", ["expected COMPILE PLAN 'file' FOR INSERT"]),
        ("EXECUTE PLAN 'nope.json'", ["there is no plan nope.json: COMPILE PLAN writes one"]),
        ("EXECUTE PLAN '/'", ["the plan / can't be read: Is a directory"]),
        ("SET 'table.exec.minibatch.enabled' = 'true'", ["Did you mean 'table.exec.mini-batch.enabled'?"]),
    ],
)
def test_a_remedy_is_named(tables: StreamTableEnvironment, statement: str, parts: list[str]) -> None:
    """Flink's client would say the same in terms of its parser, or nothing."""
    with pytest.raises((SqlError, UnsupportedPlanError)) as raised:
        tables.execute_sql(statement)
    message = str(raised.value)
    assert not [part for part in parts if part not in message], message
    assert not [word for word in ("rel#", "Errno", "HintStrategy", "Graphviz") if word in message], message


def test_a_word_of_sql_is_a_name(tables: StreamTableEnvironment) -> None:
    """A number would be called a word of SQL."""
    with pytest.raises(SqlError, match='Encountered "3"') as raised:
        tables.execute_sql("SELECT TOP 3 * FROM t")
    assert "is a word of SQL" not in str(raised.value)


@pytest.mark.parametrize("option", ["table.exec.sink.not-null-enforcer", "parallelism.default"])
def test_a_wrong_value_names_no_class_of_java(tables: StreamTableEnvironment, option: str) -> None:
    """A user would look for ExecutionConfigOptions$NotNullEnforcer."""
    config = tables.get_config()
    config.set(option, "0")
    try:
        with pytest.raises(SqlError) as raised:
            tables.execute_sql("CREATE TEMPORARY VIEW w AS SELECT 1 AS n")
            tables.execute_sql("SELECT n FROM t")
        assert "Config" not in str(raised.value), raised.value
    finally:
        tables.execute_sql(f"RESET '{option}'")


def test_a_query_is_expected(tables: StreamTableEnvironment) -> None:
    """An insertion would start its job, and any other statement fail without a message."""
    for statement in ("INSERT INTO u SELECT 1", "CREATE TABLE u (n INT)", "-- all\nSHOW TABLES"):
        with pytest.raises(SqlError, match=r"a query begins with SELECT, WITH or VALUES, got .*execute_sql"):
            tables.sql_query(statement)
    assert tables.sql_query("-- all\n(VALUES (1))").to_pandas().to_numpy().tolist() == [[1]]


def test_a_table_of_what_has_no_columns(tables: StreamTableEnvironment) -> None:
    """The errors would be about attributes of lists, pickled types of streams, and a table that nobody has made."""
    import pandas

    for given, words in (
        ([1, 2], "expected a pandas.DataFrame, got"),
        (pandas.DataFrame(), "a table needs a column"),
        (pandas.DataFrame({"a": pandas.to_timedelta(["1 s"])}), r"column 'a' \(duration\[\w+\]\) has no type of SQL"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            tables.from_pandas(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda a, b: 1, "general", r"the function f\(a, b\) is called with 1 argument: missing a required argument"),
        (lambda: 1, "general", r"the function f\(\) is called with 1 argument: too many positional arguments"),
        (lambda a: a.astype(str) + "z", "pandas", "f returned a column of .* for BIGINT: Failed to parse string"),
        (lambda a: None, "pandas", "f must return a pandas.Series, got NoneType"),
    ],
)
def test_a_function_that_does_not_fit(tables: StreamTableEnvironment, function: Any, kind: Any, words: str) -> None:
    """The error would show lines of our code."""
    tables.create_temporary_function("f", udf(function, result_type="BIGINT", func_type=kind, name="f"))
    try:
        with pytest.raises(Exception, match=words) as raised:
            tables.execute_sql("SELECT f(n) AS x FROM t").print()
        assert "site-packages" not in str(raised.value) and "python_calls.py" not in str(raised.value)
    finally:
        tables.drop_temporary_function("f")


def test_a_table_function_that_returns_a_number(tables: StreamTableEnvironment) -> None:
    """The error would be that an int is not iterable, in our code."""
    tables.create_temporary_function("g", udtf(lambda n: 5, result_types="INT", name="g"))
    with pytest.raises(Exception, match="g returned 5: a table function yields rows, or returns a list") as raised:
        tables.execute_sql("SELECT x FROM t, LATERAL TABLE(g(n)) AS l(x)").print()
    assert ".py" not in str(raised.value)


class Named(InProcess):
    """Knows the name of its last job."""

    def execute(self, submission: Submission) -> JobClient:
        """Run a job."""
        self.name = submission.graph.name
        return super().execute(submission)


def test_the_job_of_a_query_is_named_as_in_flink() -> None:
    """Its name would be that of an insertion into a table that the program does not know."""
    need_planner()
    executor = Named()
    tables = StreamTableEnvironment.create(StreamExecutionEnvironment(executor=executor))
    for options, name in (({}, "collect"), ({"pipeline.name": "mine"}, "mine")):
        for key, value in options.items():
            tables.get_config().set(key, value)
        list(tables.execute_sql("SELECT n FROM (VALUES (1)) AS v(n)").collect())
        assert executor.name == name


def test_rows_that_have_been_read_are_not_an_empty_set(tables: StreamTableEnvironment) -> None:
    """A program that prints a result and then collects it would take it for empty."""
    result = tables.execute_sql("SELECT n FROM (VALUES (1), (2)) AS v(n)")
    first = next(result.collect())
    assert [*first, *(row[0] for row in result.collect())] == [1, 2]
    for read in (result.collect, result.print):
        with pytest.raises(ProgramError, match="have been read: execute the query again"):
            read()


@pytest.mark.parametrize("kind", ["general", "pandas"])
def test_none_is_no_value_of_a_type_that_is_not_null(tables: StreamTableEnvironment, kind: Any) -> None:
    """The planner relies on the type: `IS NULL` of such a function is false without looking."""

    def nothing(value: Any) -> Any:
        return None if kind == "general" else value.where(value != value)

    tables.create_temporary_function("nothing", udf(nothing, result_type="DOUBLE NOT NULL", func_type=kind))
    try:
        with pytest.raises(Exception, match="nothing returned None for DOUBLE NOT NULL, which is not nullable"):
            tables.execute_sql("SELECT nothing(CAST(n AS DOUBLE)) AS x FROM t").print()
    finally:
        tables.drop_temporary_function("nothing")
