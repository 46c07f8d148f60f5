"""Scripts of SQL: where a statement ends, and which are refused."""

from __future__ import annotations

import pytest

from penstock.table.planner.errors import SqlError
from penstock.table.planner.statements import Statement, check_statement, split_statements


def test_semicolons_that_end_nothing() -> None:
    """A script would be cut inside of a text, a name or a comment."""
    script = """
-- no end; here
SELECT 'a;b''c;' AS `x;y` /* nor ; here */ FROM t;
;
SELECT CASE WHEN a THEN 1 END
FROM t
"""
    assert split_statements(script) == [
        Statement("-- no end; here\nSELECT 'a;b''c;' AS `x;y` /* nor ; here */ FROM t", 2),
        Statement("SELECT CASE WHEN a THEN 1 END\nFROM t", 5),
    ]


@pytest.mark.parametrize("beginning", ["EXECUTE STATEMENT SET BEGIN", "begin statement set;"])
def test_a_statement_set_is_one_statement(beginning: str) -> None:
    """Insertions of one job would be several jobs."""
    job = f"{beginning} INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t; INSERT INTO b SELECT 2; END"
    found = [one.sql for one in split_statements(f"SET 'a' = 'b'; {job}; SELECT 1;")]
    assert found == ["SET 'a' = 'b'", job, "SELECT 1"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ADD JAR 'x.jar'", "ADD JAR is not supported: functions and connectors are written in Python"),
        ("/* a */ add\n jar 'x.jar'", "ADD JAR"),
        ("REMOVE JAR 'x.jar'", "REMOVE JAR"),
        ("CREATE FUNCTION f AS 'org.F'", "functions in Java are not supported: write the function in Python"),
        ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'org.F' LANGUAGE SCALA", "functions in Scala"),
        ("CREATE FUNCTION f AS 'org.F' LANGUAGE PYTHON USING JAR 'x.jar'", "USING JAR is not supported"),
        ("CREATE OR REPLACE FUNCTION f AS 'org.F' LANGUAGE JAVA", "functions in Java"),
        ("CREATE FUNCTION f AS 'f' LANGUAGE PYTHON USING ARTIFACT 'x'", "USING ARTIFACT is not supported"),
        ("ALTER FUNCTION f AS 'org.F'", "functions in Java"),
        ("ALTER TEMPORARY SYSTEM FUNCTION f AS 'org.F' LANGUAGE SCALA", "functions in Scala"),
        ("CREATE FUNCTION IF NOT EXISTS f AS 'm.f' LANGUAGE PYTHON", "is expected as CREATE"),
    ],
)
def test_statements_that_would_load_java(sql: str, message: str) -> None:
    """SQL of others would run their Java code in the planner."""
    with pytest.raises(SqlError, match=message):
        check_statement(sql)


@pytest.mark.parametrize(
    "sql", ["SELECT 'ADD JAR' FROM t", "CREATE TABLE function (a INT)", "CREATE VIEW v AS SELECT language FROM t"]
)
def test_statements_that_look_like_these(sql: str) -> None:
    """Harmless statements would be refused."""
    check_statement(sql)
