"""EXPLAIN: Flink's text, and below it the operators that execute the plan."""

from __future__ import annotations

import pytest

from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import shared_process
from penstock.table.planner.statements import explain_statement

COUNT = "INSERT INTO counts SELECT auction, COUNT(*) FROM bids GROUP BY auction"


@pytest.fixture(scope="module")
def tables() -> StreamTableEnvironment:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")
    one = StreamTableEnvironment.create()
    one.get_config().set("parallelism.default", "3")
    one.execute_sql("CREATE TABLE bids (auction INT, price INT, seen AS PROCTIME()) WITH ('connector' = 'datagen')")
    one.execute_sql("CREATE TABLE counts (auction INT, n BIGINT) WITH ('connector' = 'blackhole')")
    return one


def test_operators_exchanges_and_state_are_below_the_text_of_flink(tables: StreamTableEnvironment) -> None:
    """Users would not see which rows are shuffled by which key, and what is kept."""
    flinks, title, ours = tables.explain_sql(COUNT).partition("== Execution ==\n")
    assert "== Optimized Execution Plan ==" in flinks and title
    lines = [" ".join(line.split()) for line in ours.splitlines()]
    assert lines[0] == "1 with 3 subtasks"
    assert lines[1] == "bids gives columns"
    assert "2 with 3 subtasks, from 1 by HASH [auction]" in lines
    assert "GroupAggregate columns, state groupAggregateState" in lines


def test_operators_have_the_parallelism_of_flinks_option(tables: StreamTableEnvironment) -> None:
    """A script of Flink's would run with one subtask, or as many as the program has for its streams."""
    tables.get_config().set("table.exec.resource.default-parallelism", "2")
    try:
        ours = tables.explain_sql(COUNT).partition("== Execution ==")[2]
    finally:
        tables.get_config().set("table.exec.resource.default-parallelism", "-1")
    assert "1 with 2 subtasks" in ours and "2 with 2 subtasks, from 1 by HASH [auction]" in ours, ours


def test_the_statement_gives_the_same_text(tables: StreamTableEnvironment) -> None:
    """EXPLAIN in a script would show less than explain_sql."""
    for head in ("EXPLAIN ", "explain plan for\n", "EXPLAIN -- why\n "):
        with tables.execute_sql(head + COUNT).collect() as rows:
            assert [row[0] for row in rows] == [tables.explain_sql(COUNT)]
    with tables.execute_sql("EXPLAIN CHANGELOG_MODE, ESTIMATED_COST " + COUNT).collect() as rows:
        (row,) = rows
        assert "changelogMode=[I,UB,UA" in row[0] or "changelogMode=[I,UA" in row[0]
        assert "cumulative cost" in row[0] and "== Execution ==" in row[0]


def test_queries_and_statement_sets_are_explained(tables: StreamTableEnvironment) -> None:
    """The rows of a query go into a table that no connector knows."""
    assert "GroupAggregate" in tables.explain_sql("SELECT COUNT(*) FROM bids").partition("== Execution ==")[2]
    with tables.execute_sql(f"EXPLAIN STATEMENT SET BEGIN {COUNT}; {COUNT}; END").collect() as rows:
        assert "GroupAggregate" in next(rows)[0].partition("== Execution ==")[2]


def test_a_plan_that_cannot_be_executed_says_why(tables: StreamTableEnvironment) -> None:
    """EXPLAIN is where users look for the reason."""
    query = """SELECT * FROM bids MATCH_RECOGNIZE (ORDER BY seen MEASURES COLLECT(A.price) AS p PATTERN (A B)
        DEFINE B AS B.price > 1)"""
    ours = tables.explain_sql(query).partition("== Execution ==")[2]
    assert ours.strip().startswith("This can't be executed: the node 'match' of the plan (Match(orderBy=[seen ASC]")
    assert "the function COLLECT is not supported" in ours


def test_errors_are_at_the_place_in_the_whole_text(tables: StreamTableEnvironment) -> None:
    """A column of a statement that the user has not written leads nowhere."""
    with pytest.raises(SqlError, match="line 2, column 8"):
        tables.execute_sql("EXPLAIN\nSELECT nothing FROM bids")


@pytest.mark.parametrize("sql", ["SELECT 'EXPLAIN x'", "DESCRIBE explain", "EXPLAINS SELECT 1", "EXPLAIN"])
def test_other_statements_are_not_explained(sql: str) -> None:
    """A query with the word would be planned, and not run."""
    assert explain_statement(sql) is None
