"""Scripts of statements: what they print, where their errors are, which jobs they leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.table.in_process import environment

from penstock.common import Configuration
from penstock.common.types import Row, RowKind
from penstock.table import StreamTableEnvironment
from penstock.table.logical_types import INT
from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import shared_process
from penstock.table.result_printer import ResultMode, print_rows
from penstock.table.sql_script import SqlScript

QUERY = "SELECT s, COUNT(*) AS n FROM (VALUES ('a'), ('b'), ('a')) AS v(s) GROUP BY s"


@pytest.fixture(scope="module")
def tables() -> StreamTableEnvironment:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")
    return StreamTableEnvironment.create(environment(1))


def printed(
    tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str], text: str, mode: ResultMode | None = None
) -> list[str]:
    """Run a script, and return the lines that it prints."""
    SqlScript(tables, "x.sql", mode, announce=lambda line: None).run(text)
    return capsys.readouterr().out.splitlines()


def test_a_query_is_a_table_a_changelog_or_json(
    tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table has only the rows that are left, the others each change."""
    table = printed(tables, capsys, QUERY)
    assert [line.split() for line in table[3:5]] in (
        [["|", "b", "|", "1", "|"], ["|", "a", "|", "2", "|"]],
        [["|", "a", "|", "2", "|"], ["|", "b", "|", "1", "|"]],
    )
    assert table[-1] == "2 rows in set"
    changes = printed(tables, capsys, QUERY, ResultMode.CHANGELOG)
    assert [line.split()[1] for line in changes if line.startswith(("| +", "| -"))].count("-U") == 1
    assert printed(tables, capsys, f"SET 'sql-client.execution.result-mode' = 'tableau'; {QUERY}")[1:] == changes
    tables.get_config().set("sql-client.execution.result-mode", "table")
    lines = [json.loads(line) for line in printed(tables, capsys, QUERY, ResultMode.JSON)]
    assert sorted(line["op"] for line in lines) == ["+I", "+I", "+U", "-U"]
    assert {"op": "+U", "row": {"s": "a", "n": 2}} in lines


def test_a_table_shows_what_is_there_at_ctrl_c(capsys: pytest.CaptureFixture[str]) -> None:
    """A query without an end would never show its table."""

    def rows() -> object:
        for kind, number in ((RowKind.INSERT, 1), (RowKind.INSERT, 1), (RowKind.DELETE, 1), (RowKind.INSERT, 2)):
            row = Row(number)
            row.set_row_kind(kind)
            yield row
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        print_rows(rows(), ["n"], [INT], mode=ResultMode.TABLE, is_changelog=True, zone="UTC")  # type: ignore[arg-type]
    assert [line for line in capsys.readouterr().out.splitlines() if line[:1] == "|"] == ["| n |", "| 1 |", "| 2 |"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT nope FROM (VALUES (1)) AS v(n)", "line 1, column 8"),
        ("-- a\nSHOW TABLES;\n\n  SELECT\n    nope FROM (VALUES (1)) AS v(n);", "line 5, column 5"),
        ("SHOW TABLES; SELECT nope FROM (VALUES (1)) AS v(n)", "line 1, column 21"),
        ("SHOW TABLES;\nUPDATE t SET n = 1", "line 2"),
    ],
)
def test_errors_have_the_places_of_the_script(tables: StreamTableEnvironment, text: str, place: str) -> None:
    """In a long script the user would search for the statement."""
    with pytest.raises(SqlError) as raised:
        SqlScript(tables, "x.sql").run(text)
    message = str(raised.value)
    assert message.startswith(f"x.sql, {place}:")
    assert "org.apache" not in message


def test_insertions_are_jobs_and_a_set_is_one(
    tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set would read its sources once for each insertion."""
    announced: list[str] = []
    script = SqlScript(tables, "x.sql", announce=announced.append)
    script.run(
        """CREATE TABLE sink_of_script (n INT) WITH ('connector' = 'blackhole');
        INSERT INTO sink_of_script VALUES (1);
        BEGIN STATEMENT SET; INSERT INTO sink_of_script VALUES (1); INSERT INTO sink_of_script VALUES (2); END;
        QUIT; SELECT nonsense"""
    )
    script.wait()
    assert len(announced) == 2 and "INSERT INTO sink_of_script VALUES (1)" in announced[0]
    assert list(script.running()) == []


def test_options_are_set_and_reset(tables: StreamTableEnvironment) -> None:
    """A later statement would be planned by options that are gone."""
    config = tables.get_config()
    config.set("parallelism.default", "1")
    tables.execute_sql("SET 'table.exec.state.ttl' = '1 h'")
    tables.execute_sql("SET 'pipeline.name' = 'x'")
    tables.execute_sql("RESET 'table.exec.state.ttl'")
    assert config.get("table.exec.state.ttl", None) is None
    assert (config.get("pipeline.name", None), config.get("parallelism.default", None)) == ("x", "1")
    tables.execute_sql("RESET")
    assert config.get("pipeline.name", None) is config.get("parallelism.default", None) is None


@pytest.mark.parametrize("statement", ["UPDATE t SET n = 1", "DELETE FROM t", "CALL p()", "SHOW PROCEDURES"])
def test_statements_that_are_refused_name_no_java_class(tables: StreamTableEnvironment, statement: str) -> None:
    """A user of SQL would have to know interfaces of Flink."""
    with pytest.raises(SqlError, match="is not supported: ") as raised:
        tables.execute_sql(statement)
    assert "org." not in str(raised.value) and "class" not in str(raised.value)


def test_a_file_is_read_from_the_terminal(tmp_path: Path) -> None:
    """Errors of the command's arguments come before anything starts."""
    from typer.testing import CliRunner

    from penstock.service.cli.main import app

    runner = CliRunner()
    for arguments, reason in (
        (["sql"], "-f FILE"),
        (["sql", "-f", str(tmp_path / "nope.sql")], "cannot read"),
        (["sql", "-e", "SELECT 1", "-o", "xml"], "expected one of table, changelog, json"),
        (["sql", "-e", "SELECT 1", "-d"], "only a cluster"),
    ):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 2
        assert reason in " ".join(result.output.split())


def test_the_configuration_of_an_environment_is_its_options(tables: StreamTableEnvironment) -> None:
    """Programs for PyFlink that set options by `get_config().get_configuration()` would set nothing."""
    config = tables.get_config()
    config.get_configuration().set_string("table.exec.state.ttl", "1 h").set_boolean("table.dml-sync", False)
    assert (config.get("table.exec.state.ttl", None), config.get("table.dml-sync", None)) == ("1 h", "false")
    more = Configuration()
    more.set_string("pipeline.name", "x")
    config.add_configuration(more)
    assert config.get("pipeline.name", None) == "x"
    tables.execute_sql("RESET")
    assert config.get_configuration().get_string("table.exec.state.ttl", "none") == "none"


def test_what_is_reset_has_no_effect_on_later_plans(tables: StreamTableEnvironment) -> None:
    """Planning remembers options: queries would go on in mini-batches, after RESET, or after an error of SET."""
    query = "SELECT a, COUNT(*) AS n FROM (VALUES (1)) AS v(a) GROUP BY a"
    assert "LocalGroupAggregate" not in tables.explain_sql(query)
    tables.execute_sql("SET 'table.exec.mini-batch.enabled' = 'true'")
    with pytest.raises(SqlError, match="MiniBatch Latency"):
        tables.explain_sql(query)
    for option, value in (("allow-latency", "1 s"), ("size", "10")):
        tables.execute_sql(f"SET 'table.exec.mini-batch.{option}' = '{value}'")
    assert "LocalGroupAggregate" in tables.explain_sql(query)
    tables.execute_sql("RESET 'table.exec.mini-batch.enabled'")
    assert "LocalGroupAggregate" not in tables.explain_sql(query)
    tables.execute_sql("RESET")


def test_what_is_reset_has_no_effect_on_later_jobs(tables: StreamTableEnvironment) -> None:
    """The first job would leave its options to all later ones: a savepoint to start from, or a number of subtasks."""
    env = environment(1)
    env.configure({"pipeline.name": "of the program"})
    tables = StreamTableEnvironment.create(env)
    query = "SELECT a, COUNT(*) AS n FROM (VALUES (1)) AS v(a) GROUP BY a"
    before = env.configuration_of_job().to_dict()
    for key, value in {"parallelism.default": "2", "pipeline.name": "q", "execution.attached": "true"}.items():
        tables.execute_sql(f"SET '{key}' = '{value}'")
    assert len(list(tables.execute_sql(query).collect())) == 1
    assert "with 2 subtasks" in tables.explain_sql(query)
    tables.execute_sql("RESET")
    assert "with 2 subtasks" not in tables.explain_sql(query)
    assert env.configuration_of_job().to_dict() == before | {"execution.runtime-mode": "STREAMING"}


def test_plans_and_statements_are_printed_without_a_frame(
    tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of a text in a cell would break the frame, which is as wide as all of them together."""
    lines = printed(tables, capsys, f"EXPLAIN {QUERY}")
    assert lines[0] == "== Abstract Syntax Tree ==" and not [line for line in lines if line.startswith(("+--", "|"))]
    tables.execute_sql("CREATE TABLE IF NOT EXISTS shown (n INT) WITH ('connector' = 'print')")
    lines = printed(tables, capsys, "SHOW CREATE TABLE shown")
    assert lines[0].startswith("CREATE TABLE") and lines[-1] == ")"


def test_numbers_that_json_does_not_have_are_texts(
    tables: StreamTableEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line with NaN is not JSON: other programs can't read it."""
    query = "SELECT CAST(s AS DOUBLE) AS d FROM (VALUES ('NaN'), ('Infinity'), ('-Infinity')) AS v(s)"
    lines = printed(tables, capsys, query, ResultMode.JSON)
    found = [json.loads(line, parse_constant=lambda name: pytest.fail(name))["row"]["d"] for line in lines]
    assert found == ["NaN", "Infinity", "-Infinity"]


def test_a_cluster_gives_no_rows_of_queries() -> None:
    """The error would be about methods of DataStreams."""
    tables = StreamTableEnvironment.create(environment(1))
    tables.execute_sql("SET 'execution.target' = 'remote'")
    with pytest.raises(SqlError, match="write INSERT INTO a table"):
        tables.execute_sql(QUERY)
