"""What "Coming from Flink SQL" says: each row of its tables has a test here, or names one that is elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from tests.table.in_process import environment
from tests.table.listed_tables import Tables, inserts
from tests.table.table_tests import need_planner

from penstock.table import StreamTableEnvironment
from penstock.table.expressions import col, row_interval
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import parse
from penstock.table.planner.errors import SqlError, UnsupportedPlanError
from penstock.table.udf import udaf
from penstock.table.window import Tumble

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coming-from" / "flink-sql.md").read_text(encoding="utf-8")
REFUSALS = (SqlError, UnsupportedPlanError)
KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:1'"
MISTAKES = "tests/table/test_newcomers_mistakes.py"
ELSEWHERE = {
    "nanoseconds": f"{MISTAKES}::test_times_with_nanoseconds_are_collected_without_them",
    "a result that is read twice": f"{MISTAKES}::test_rows_that_have_been_read_are_not_an_empty_set",
    "None for a type that is NOT NULL": f"{MISTAKES}::test_none_is_no_value_of_a_type_that_is_not_null",
    "a misspelled option of tables in SET": f"{MISTAKES}::test_a_remedy_is_named",
    "values that are not read": "tests/table/test_formats.py::test_columns_that_are_not_read_are_not_converted",
    "temporal joins and time to live": "tests/table/test_joins.py::test_rows_join_the_version_of_their_time",
    "late versions of a deleted row": (
        "tests/unit/table/test_timed_joins_beside_plain_loops.py::test_a_temporal_join_gives_what_a_plain_loop_gives"
    ),
    "equal rows of joins and time to live": (
        "tests/unit/table/test_joins_beside_plain_loops.py::test_a_join_gives_what_a_plain_loop_gives"
    ),
    "order within a bundle": "tests/table/test_mini_batch.py::test_each_key_gives_one_change_per_bundle",
    "joins of several tables": "tests/table/test_joins.py::test_several_inputs_in_one_join",
    "asynchronous lookups": "tests/table/test_joins.py::test_a_cache_asks_once_for_each_key",
    "NaN in MIN, MAX and ORDER BY": "tests/table/test_not_a_number.py::test_nan_is_the_greatest_number_in_windows_too",
    "a result that was 0.0 and is -0.0": (
        "tests/unit/table/test_groups_beside_plain_loops.py::test_a_result_whose_zero_changes_its_sign_is_given_again"
    ),
    "`LAST(v.c, 1) IS NULL` in MATCH_RECOGNIZE": (
        "tests/table/test_match_recognize.py::test_statements_of_flinks_tests"
    ),
}
"""Tests that are with others of their kind."""


def subjects(title: str) -> list[str]:
    """Return the first cells of the table below a heading."""
    _, _, text = PAGE.partition(f"## {title}\n")
    rows = re.findall(r"^\| (.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    return [row for row in rows if row not in ("subject", "---")]


@pytest.fixture(scope="module")
def tables() -> StreamTableEnvironment:
    need_planner()
    made = StreamTableEnvironment.create(environment(1))
    made.execute_sql("CREATE TABLE t (k STRING, n INT, p AS PROCTIME()) WITH ('connector' = 'datagen')")
    return made


REFUSED: dict[str, list[str]] = {
    "OVER": ["SELECT SUM(n) OVER (PARTITION BY k ORDER BY p) AS s FROM t"],
    "BATCH": ["SET 'execution.runtime-mode' = 'BATCH'"],
    "other aggregates": [
        f"SELECT {one} AS a FROM t"
        for one in ("ARRAY_AGG(n)", "JSON_OBJECTAGG(KEY k VALUE n)", "JSON_ARRAYAGG(n)", "PERCENTILE(n, 0.5)",
                    "BITMAP_BUILD_AGG(n)")
    ],
    "Java": ["ADD JAR 'x.jar'", "CREATE FUNCTION f AS 'org.example.F'"],
    "CREATE TABLE AS": ["CREATE TABLE u WITH ('connector' = 'print') AS SELECT k FROM t"],
    "other objects": [
        "CREATE MODEL m INPUT (a INT) OUTPUT (b INT) WITH ('provider' = 'x')",
        "CREATE MATERIALIZED TABLE m AS SELECT k FROM t",
        "CALL p()",
        "LOAD MODULE core",
    ],
    "process table functions": ["SELECT * FROM TO_CHANGELOG(input => TABLE t)"],
    "VECTOR_SEARCH, ML_PREDICT": ["SELECT * FROM ML_PREDICT(TABLE t, MODEL m, DESCRIPTOR(n))"],
    "formats of changes": [f"WITH ({KAFKA}, 'format' = 'debezium-json')", f"WITH ({KAFKA}, 'format' = 'canal-json')"],
    "other formats": ["WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'orc')"],
    "other connectors": ["WITH ('connector' = 'elasticsearch-7')", "WITH ('connector' = 'hbase-2.2')"],
    "other databases": ["WITH ('connector' = 'jdbc', 'table-name' = 'a', 'url' = 'jdbc:mysql://localhost/x')"],
    "catalogs": ["CREATE CATALOG c WITH ('type' = 'hive')"],
    "windows that fire early or late": [
        "SET 'table.exec.emit.early-fire.enabled' = 'true'", "SET 'table.exec.emit.allow-lateness' = '1 min'"
    ],
    "SOURCE_WATERMARK()": ["WITH ('connector' = 'datagen')"],
}  # fmt: skip
"""Statements, or WITH of a table that is read."""


@pytest.mark.parametrize("subject", sorted(REFUSED))
def test_what_is_not_there_is_refused(tables: StreamTableEnvironment, subject: str) -> None:
    """A user would find out when the job runs, or never."""
    for number, statement in enumerate(REFUSED[subject]):
        sql = statement
        if statement.startswith("WITH"):
            watermark = ", WATERMARK FOR made AS SOURCE_WATERMARK()" if subject.startswith("SOURCE") else ""
            name = f"{re.sub('[^a-z]', '', subject.lower())}_{number}"
            tables.execute_sql(f"CREATE TABLE {name} (k STRING, made TIMESTAMP(3){watermark}) {statement}")
            sql = f"SELECT k FROM {name}"
        with pytest.raises(REFUSALS) as raised:
            tables.execute_sql(sql)
        assert "org.apache" not in str(raised.value)


def aggregates_in_python(tables: StreamTableEnvironment) -> None:
    with pytest.raises(ImportError, match="to_data_stream"):
        from penstock.table import AggregateFunction  # noqa: F401
    with pytest.raises(NotImplementedError, match="to_data_stream"):
        udaf(lambda values: sum(values), result_type="INT")


def asynchronous_functions(tables: StreamTableEnvironment) -> None:
    with pytest.raises(ImportError, match="AsyncDataStream"):
        from penstock.table import AsyncScalarFunction  # noqa: F401


def windows_of_rows(tables: StreamTableEnvironment) -> None:
    with pytest.raises(ValueError, match="Windows of a number of rows are not supported"):
        tables.from_path("t").window(Tumble.over(row_interval(10)).on(col("p")).alias("w"))


def time_zone(tables: StreamTableEnvironment) -> None:
    assert tables.get_config().get_local_timezone() == "UTC"
    (row,) = tables.execute_sql("SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING) AS t").collect()
    assert row.t == "1970-01-01 00:00:00.000"


def temporary_tables(tables: StreamTableEnvironment) -> None:
    with pytest.raises(SqlError, match="already exists"):
        tables.execute_sql("CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'datagen')")


def rows_of_datagen(tables: StreamTableEnvironment) -> None:
    found = []
    for parallelism in (1, 3):
        one = StreamTableEnvironment.create(environment(parallelism))
        one.execute_sql("CREATE TABLE d (n BIGINT, k STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '20')")
        found.append(sorted(tuple(row) for row in one.execute_sql("SELECT n, k FROM d").collect()))
    assert found[0] == found[1] and len(set(found[0])) == 20
    assert all(abs(n) < 1 << 62 for n, _ in found[0])


def print_to_the_program(tables: StreamTableEnvironment) -> None:
    tables.execute_sql("CREATE TABLE e (k STRING) WITH ('connector' = 'print', 'standard-error' = 'true')")
    with pytest.raises(SqlError, match="standard-error is not supported"):
        tables.execute_sql("INSERT INTO e SELECT k FROM t")


def filters(tables: StreamTableEnvironment) -> None:
    plan = tables.explain_sql("SELECT k FROM t WHERE n > 3")
    assert "filter=[" not in plan and "where=[(n > 3)]" in plan


def distinct_values_and_time_to_live(tables: StreamTableEnvironment) -> None:
    listed = Tables({"table.exec.state.ttl": "12 ms"}, parallelism=1)
    # A row each 5 ms: the key stays, and 1 comes again after 40.
    listed.create("d", "n INT", inserts([(1,), *[(2,)] * 7, (1,)]))
    listed.listed.halves["d"] = 9
    changes = listed.insert("o", "n BIGINT", "SELECT COUNT(DISTINCT n) FROM d")
    assert changes[-1][1] == (2,)


def variances(tables: StreamTableEnvironment) -> None:
    query = "SELECT VAR_POP(n) AS v FROM (VALUES (1e16), (1e16), (1e16 + 2)) AS t(n)"
    rows = list(tables.execute_sql(query).collect())
    assert rows[-1].v == pytest.approx(8 / 9, rel=1e-15)


def maps(tables: StreamTableEnvironment) -> None:
    tables.execute_sql("CREATE TABLE m (m MAP<STRING, INT>) WITH ('connector' = 'blackhole')")
    with pytest.raises(Exception, match=r"(?i)null|map"):
        list(tables.execute_sql("SELECT MAP[NULLIF(k, k), n] AS m FROM (VALUES ('a', 1)) AS v(k, n)").collect())


def years(tables: StreamTableEnvironment) -> None:
    kind = arrow_type(parse("TIMESTAMP(9)"))
    assert pyarrow.scalar(datetime(2262, 1, 1), kind).as_py() is not None
    with pytest.raises((pyarrow.ArrowInvalid, OverflowError)):
        pyarrow.scalar(datetime(2263, 1, 1), kind)
    assert pyarrow.scalar(datetime(9999, 1, 1), arrow_type(parse("TIMESTAMP(6)"))).as_py().year == 9999


def options_of_upsert_kafka(tables: StreamTableEnvironment) -> None:
    tables.execute_sql(
        f"""CREATE TABLE u (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
        {KAFKA.replace("kafka", "upsert-kafka", 1)}, 'key.format' = 'json', 'value.format' = 'json',
        'sink.buffer-flush.max-rows' = '100', 'sink.buffer-flush.interval' = '1 s')"""
    )
    assert "This can't be" not in tables.explain_sql("INSERT INTO u SELECT k, COUNT(*) FROM t GROUP BY k")


HERE: dict[str, Callable[[StreamTableEnvironment], None]] = {
    "aggregates in Python": aggregates_in_python,
    "asynchronous functions": asynchronous_functions,
    "windows of rows": windows_of_rows,
    "time zone": time_zone,
    "temporary tables": temporary_tables,
    "rows of datagen": rows_of_datagen,
    "print": print_to_the_program,
    "filters": filters,
    "distinct values and time to live": distinct_values_and_time_to_live,
    "VAR_POP and the like": variances,
    "maps": maps,
    "years of TIMESTAMP(7) to (9)": years,
    "options of upsert-kafka": options_of_upsert_kafka,
}


@pytest.mark.parametrize("subject", sorted(HERE))
def test_what_is_different_is_as_the_page_says(tables: StreamTableEnvironment, subject: str) -> None:
    """The page would promise a difference that is gone, or hide another one."""
    HERE[subject](tables)


def test_every_row_of_the_page_has_a_test() -> None:
    """A difference that nobody checks becomes a rumor."""
    assert sorted(subjects("Not there") + subjects("Different")) == sorted({*REFUSED, *HERE, *ELSEWHERE})
    assert not set(_missing_tests())


def _missing_tests() -> Iterator[str]:
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        tree: Any = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            yield place
