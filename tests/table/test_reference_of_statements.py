"""The page of statements: each row is executed, or refused, as it says; and what is listed is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.table.in_process import environment
from tests.table.table_tests import need_planner

from penstock.table import StreamTableEnvironment
from penstock.table.connectors.listed_options import connector_options
from penstock.table.connectors.table_connector import built_in_connectors
from penstock.table.planner.errors import SqlError, UnsupportedPlanError

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
STATEMENTS = (REFERENCE / "sql-statements.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([A-Z].*?)` \| (.*?) ?\|$", re.MULTILINE)
PLANNED = ("INSERT", "SELECT", "WITH", "EXECUTE STATEMENT")


def test_every_statement_is_executed_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader would type what the page shows, and get an error; or leave out what works."""
    need_planner()
    (tmp_path / "my_functions.py").write_text(
        "from penstock.table.udf import udf\n\n\n@udf(result_type='STRING')\ndef grade(price):\n    return 'high'\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    tables = StreamTableEnvironment.create(environment(1))
    rows = ROW.findall(STATEMENTS)
    assert len(rows) > 60
    wrong = []
    for statement, note in rows:
        if statement.startswith("EXECUTE PLAN"):
            # Its table has no end: that it is read and built is tested elsewhere.
            continue
        error = _error(tables, statement)
        if (error is not None) != note.startswith("refused"):
            wrong.append(f"{statement}: {error}")
    assert not wrong


def _error(tables: StreamTableEnvironment, statement: str) -> str | None:
    try:
        if statement.startswith(PLANNED):
            text = tables.explain_sql(statement)
            return text if "This can't be executed" in text else None
        tables.execute_sql(statement.replace("COMPILE AND EXECUTE", "COMPILE"))
    except (SqlError, UnsupportedPlanError, ValueError) as error:
        return str(error)
    return None


def test_every_connector_has_its_options_in_the_reference() -> None:
    """A user would not find an option, and take it for missing."""
    assert sorted(connector_options()) == built_in_connectors()
    page = (REFERENCE / "table-connectors.md").read_text(encoding="utf-8")
    missing = [name for name in connector_options() if f"`{name}`" not in page]
    missing += [one.key for options in connector_options().values() for one in options if f"`{one.key}`" not in page]
    assert not missing


def test_every_option_of_tables_is_in_the_reference() -> None:
    """An option that the code reads would be one that no user knows."""
    source = Path(__file__).parents[2] / "src" / "penstock" / "table"
    texts = [file.read_text(encoding="utf-8") for file in source.rglob("*.py")]
    read = {key for text in texts for key in re.findall(r'"(table\.[a-z]+[a-z.-]+)"', text)}
    known = read - {"table.sql-dialect", "table.builtin-"}
    assert known and not {key for key in known if f"`{key}`" not in STATEMENTS}
