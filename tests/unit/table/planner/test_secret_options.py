"""Options that are secrets become references; the program that has the statements has the values."""

from __future__ import annotations

import pickle

import pytest

from penstock.table.planner.errors import SqlError
from penstock.table.planner.secret_options import SecretOptions


@pytest.fixture
def secrets() -> SecretOptions:
    return SecretOptions()


@pytest.mark.parametrize(
    ("sql", "hidden"),
    [
        (
            "CREATE TABLE orders (a INT) WITH ('connector' = 'jdbc', 'password'='hun''ter2', 'username' = 'me')",
            "CREATE TABLE orders (a INT) WITH ('connector' = 'jdbc', 'password'='${secret:orders:password}', "
            "'username' = 'me')",
        ),
        (
            "-- TABLE x\nCREATE TEMPORARY TABLE IF NOT EXISTS a.`b c` (x INT)\n"
            "WITH ('Secret.Key' /* ' */ =\n 'hun''ter2')",
            "-- TABLE x\nCREATE TEMPORARY TABLE IF NOT EXISTS a.`b c` (x INT)\n"
            "WITH ('Secret.Key' /* ' */ =\n '${secret:a.bc:Secret.Key}')",
        ),
        ("ALTER TABLE t SET ('api-key' = 'hun''ter2')", "ALTER TABLE t SET ('api-key' = '${secret:t:api-key}')"),
        ("SET 'x.token' = 'hun''ter2'", "SET 'x.token' = '${secret:SET:x.token}'"),
        (
            "SELECT * FROM a.t /*+ OPTIONS('password' = 'hun''ter2', 'x' = 'y') */ AS b",
            "SELECT * FROM a.t /*+ OPTIONS('password' = '${secret:a.t:password}', 'x' = 'y') */ AS b",
        ),
        (
            "CREATE CATALOG c WITH ('type' = 'x', 'password' = 'hun''ter2')",
            "CREATE CATALOG c WITH ('type' = 'x', 'password' = '${secret:c:password}')",
        ),
        (
            "CREATE TABLE b WITH ('password' = 'hun''ter2') LIKE a (EXCLUDING OPTIONS)",
            "CREATE TABLE b WITH ('password' = '${secret:b:password}') LIKE a (EXCLUDING OPTIONS)",
        ),
        (
            "CREATE TABLE a WITH ('password' = 'hun''ter2') AS SELECT 'password' = 'b' FROM t",
            "CREATE TABLE a WITH ('password' = '${secret:a:password}') AS SELECT 'password' = 'b' FROM t",
        ),
    ],
)
def test_a_secret_becomes_a_reference(secrets: SecretOptions, sql: str, hidden: str) -> None:
    """Passwords would be in plans, checkpoints and EXPLAIN."""
    assert secrets.hide(sql) == hidden
    key, reference = hidden.split("'${")[0].split("'")[-2], "${" + hidden.split("'${")[1].split("'")[0]
    assert secrets.resolve({key: reference, "other": "1"}) == {key: "hun'ter2", "other": "1"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password", "x"),
        ("properties.sasl.jaas.config", "x"),
        ("properties.ssl.keystore.password", "x"),
        ("value.avro-confluent.basic-auth.user-info", "x"),
        ("url", "jdbc:postgresql://me:hunter2@host/db"),
        ("properties.x", "a password='hunter2'"),
    ],
)
def test_what_is_a_secret(secrets: SecretOptions, key: str, value: str) -> None:
    """An option of a client would be stored with its password."""
    assert secrets.hide_option("t", key, value) == f"${{secret:t:{key}}}"


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 'tokens', 'username' = 'me')",
        "SELECT 'password' = 'x' FROM t WHERE password = 'x'",
        "INSERT INTO t VALUES ('password', '=', 'x')",
        "CREATE TABLE t (a INT) WITH ('password' = '${secret:t:password}')",
    ],
)
def test_the_rest_stays(secrets: SecretOptions, sql: str) -> None:
    """A query would compare other values, and EXPLAIN would not show the options."""
    assert secrets.hide(sql) == sql


def test_the_same_statements_give_the_same_references() -> None:
    """A job could not be restored by its program: its plan has references that the program does not know."""
    statements = ["CREATE TABLE t WITH ('password' = '{}1')", "CREATE TABLE t WITH ('password' = '{}2')"]
    first, second = SecretOptions(), SecretOptions()
    stored = [first.hide(sql.format("old")) for sql in (*statements, statements[0])]
    assert stored == [second.hide(sql.format("new")) for sql in (*statements, statements[0])]
    assert stored[1] == "CREATE TABLE t WITH ('password' = '${secret:t:password#2}')"
    assert second.resolve({"a": "${secret:t:password}", "b": "${secret:t:password#2}"}) == {"a": "new1", "b": "new2"}


def test_a_plan_without_its_program(secrets: SecretOptions) -> None:
    """A connector would log in with the text of a reference."""
    with pytest.raises(
        SqlError, match=r"'password' is a secret, .* has no statement with t:password. Create the table"
    ):
        secrets.resolve({"password": "${secret:t:password}"})


def test_secrets_are_not_stored(secrets: SecretOptions) -> None:
    """A checkpoint or a log would have them."""
    secrets.hide("CREATE TABLE t WITH ('password' = 'hunter2')")
    assert repr(secrets) == "SecretOptions(['t:password'])"
    with pytest.raises(TypeError, match="secrets are not stored"):
        pickle.dumps(secrets)


def test_a_hint_behind_a_long_text() -> None:
    """The table before a hint was looked for from each place of the text on: 16,000 letters took 6 s, these hours."""
    one, long = SecretOptions(), "x" * 300_000
    hidden = one.hide(f"SELECT '{long}' FROM `my db` . orders /*+ OPTIONS('password' = 'hunter2') */")
    assert (
        hidden
        == f"SELECT '{long}' FROM `my db` . orders /*+ OPTIONS('password' = '${{secret:mydb.orders:password}}') */"
    )
