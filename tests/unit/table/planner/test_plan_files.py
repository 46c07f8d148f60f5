"""COMPILE PLAN and EXECUTE PLAN: which file, which statement."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.table.planner.errors import SqlError
from penstock.table.planner.plan_files import plan_statement


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("EXECUTE PLAN '/a/b.json'", (Path("/a/b.json"), None, True, True)),
        ("EXECUTE PLAN 'file:///a/b%20c.json'", (Path("/a/b c.json"), None, True, True)),
        ("COMPILE PLAN 'p' FOR INSERT INTO t", (Path("p"), " " * 21 + "INSERT INTO t", False, False)),
        ("COMPILE PLAN 'p'\nIF NOT EXISTS FOR INSERT", (Path("p"), " " * 16 + "\n" + " " * 18 + "INSERT", True, False)),
        (
            "/* x */ compile and execute plan 'p' for statement set begin end",
            (Path("p"), " " * 33 + "EXECUTE statement set begin end", True, True),
        ),
    ],
)
def test_the_parts(sql: str, expected: object) -> None:
    """Another statement would be planned, or another file be written."""
    assert plan_statement(sql) == expected


@pytest.mark.parametrize(
    "sql", ["SELECT 'COMPILE PLAN'", "EXECUTE STATEMENT SET BEGIN END", "CREATE TABLE plan (a INT)"]
)
def test_other_statements(sql: str) -> None:
    """A query would write a file."""
    assert plan_statement(sql) is None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("COMPILE PLAN 'p'", "expected COMPILE PLAN 'file' FOR INSERT"),
        ("EXECUTE PLAN 'p' FOR INSERT INTO t", "expected EXECUTE PLAN 'file', got"),
        ("EXECUTE PLAN 's3://b/p.json'", "s3://b/p.json is not in a file of this machine"),
    ],
)
def test_what_is_refused(sql: str, message: str) -> None:
    """A part of the statement would be ignored."""
    with pytest.raises(SqlError, match=message):
        plan_statement(sql)
