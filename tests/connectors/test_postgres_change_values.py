"""The rows in changes of PostgreSQL: values, large ones, and columns that come and go."""

from __future__ import annotations

import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.postgres_changes import afters, changes_of
from tests.connectors.postgres_tables import Tables

from penstock.common.errors import SourceError
from penstock.common.types import RowKind

pytestmark = pytest.mark.connectors

TYPES = {
    "smallint": ("7", "-7"),
    "bigint": ("9007199254740993", "0"),
    "numeric": ("1.50", "'NaN'"),
    "numeric(8, 2)": ("12345.6", "0"),
    "real": ("0.1", "'-Infinity'"),
    "float8": ("0.1::float8 + 0.2::float8", "1e300"),
    "boolean": ("true", "false"),
    "text": ("'ä€😀\"'''", "''"),
    "varchar(9)": (r"E'a\tb\n'", "'%s'"),
    "char(4)": ("'ab'", "''"),
    "bytea": (r"'\x00ff5c'", "''"),
    "date": ("'0001-01-01'", "'9999-12-31'"),
    "time": ("'23:59:59.999999'", "'00:00'"),
    "timestamp": ("'2013-01-01 05:15:00.123456'", "'1969-12-31 23:59:59'"),
    "timestamptz": ("'2013-01-01 05:15:00+05:30'", "'2013-07-01 00:00-08'"),
    "interval": ("'1 year -2 days 03:04:05.6'", "'-1 second'"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "NULL"),
    "json": ("""'{"a": [1, 2.5, null]}'""", "'null'"),
    "jsonb": ("""'{"b": {"c": "ä"}}'""", "'[]'"),
    "inet": ("'192.168.0.1'", "'::1/64'"),
    "int[]": ("'{1, NULL, 3}'", "'{}'"),
    "text[]": (r"""'{"a,b", "\\\""}'""", "'{{a}, {b}}'"),
    "int4range": ("'[1, 5)'", "'empty'"),
    "oid": ("4000000000", "0"),
    "money": ("'1.50'", "'0'"),
    "point": ("'(1, 2)'", "NULL"),
    "mood": ("'sad'", "'glad'"),
    "positive": ("5", "6"),
    "small_list": ("'{1, 2}'", "'{}'"),
}
"""Type -> two values, as SQL. The last three are made below: an enumeration, a domain of a domain, one of an array."""


def test_values_of_all_kinds(captured: Tables) -> None:
    """A value would be another one, or of another type, when it comes by a change than when it was there before."""
    captured.execute("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN some_number AS int")
    captured.execute("CREATE DOMAIN positive AS some_number CHECK (VALUE > 0); CREATE DOMAIN small_list AS int[]")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    table = captured.create(f"id int PRIMARY KEY, {columns}")

    def insert() -> None:
        for which in (0, 1):
            values = ", ".join(pair[which] for pair in TYPES.values())
            captured.execute(f"INSERT INTO {table} VALUES ({which}, {values})")
        captured.execute(f"INSERT INTO {table} VALUES (2)")

    insert()
    run = SourceInTest(changes_of(captured, table))
    there = afters(run.values(3))
    captured.execute(f"DELETE FROM {table}")
    insert()
    came = afters(run.values(6))
    run.close()
    captured.execute("SET timezone = 'UTC'")

    assert list(map(repr, came)) == list(map(repr, there))
    assert [repr(tuple(row.values())) for row in came] == list(map(repr, captured.rows(table)))


def test_large_values_that_an_update_leaves_alone(captured: Tables) -> None:
    """PostgreSQL does not send them again: they would be taken for NULL."""
    large = "id int PRIMARY KEY, name text, story text"
    partly, fully = captured.create(large), captured.create(large)
    captured.execute(f"ALTER TABLE {fully} REPLICA IDENTITY FULL")
    for table in (partly, fully):
        captured.execute(f"ALTER TABLE {table} ALTER story SET STORAGE EXTERNAL")
        captured.execute(f"INSERT INTO {table} VALUES (1, 'a', repeat('x', 20000))")
    run = SourceInTest(changes_of(captured, partly, fully))
    run.values(2)
    for table in (partly, fully):
        captured.execute(f"UPDATE {table} SET name = 'b'")
        captured.execute(f"UPDATE {table} SET story = NULL")
        captured.execute(f"DELETE FROM {table}")
    changes = run.values(6)
    run.close()

    story = "x" * 20000
    assert [(change.before, change.after, change.unchanged) for change in changes] == [
        ({"id": 1}, {"id": 1, "name": "b"}, ("story",)),
        ({"id": 1}, {"id": 1, "name": "b", "story": None}, ()),
        ({"id": 1}, None, ()),
        ({"id": 1, "name": "a", "story": story}, {"id": 1, "name": "b", "story": story}, ()),
        ({"id": 1, "name": "b", "story": story}, {"id": 1, "name": "b", "story": None}, ()),
        ({"id": 1, "name": "b", "story": None}, None, ()),
    ]
    rows = changes[3].rows()
    assert [row.get_row_kind() for row in rows] == [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER]
    assert rows[1].name == "b"


def test_columns_that_are_added_changed_and_dropped(captured: Tables) -> None:
    """Values would be under other columns' names, or of the type before."""
    table = captured.create("id int PRIMARY KEY, n int")
    captured.execute(f"INSERT INTO {table} VALUES (0, 0)")
    run = SourceInTest(changes_of(captured, table))
    run.values(1)
    for sql in (
        "INSERT INTO {} VALUES (1, 1)",
        "ALTER TABLE {} ADD COLUMN name text DEFAULT 'new'",
        "UPDATE {} SET n = 2 WHERE id = 0",
        "ALTER TABLE {} ALTER n TYPE text USING n || '!'",
        "INSERT INTO {} VALUES (3, '3')",
        "ALTER TABLE {} DROP COLUMN n",
        "ALTER TABLE {} RENAME name TO title",
        "UPDATE {} SET title = 'x', id = 9 WHERE id = 3",
    ):
        captured.execute(sql.format(table))
    changes = run.values(4)
    run.close()

    assert [(change.before, change.after) for change in changes] == [
        (None, {"id": 1, "n": 1}),
        ({"id": 0}, {"id": 0, "n": 2, "name": "new"}),
        (None, {"id": 3, "n": "3", "name": "new"}),
        ({"id": 3}, {"id": 9, "title": "x"}),
    ]


def test_what_the_publication_leaves_out(captured: Tables) -> None:
    """Rows that were there would have more columns, or be more, than those that come."""
    table = captured.create("id int PRIMARY KEY, name text, secret text, twice int GENERATED ALWAYS AS (id * 2) STORED")
    part = captured.create("id int, at int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at")
    captured.execute(f"CREATE TABLE {part}_1 PARTITION OF {part} FOR VALUES FROM (0) TO (10)")
    captured.execute(f"CREATE TABLE {part}_2 PARTITION OF {part} FOR VALUES FROM (10) TO (20)")
    captured.execute(
        f"CREATE PUBLICATION odd_ones FOR TABLE {table} (id, name) WHERE (id % 2 = 1), {part} "
        "WITH (publish_via_partition_root = true)"
    )
    captured.execute(f"INSERT INTO {table} SELECT n, 'a', 's' FROM generate_series(1, 4) AS n")
    captured.execute(f"INSERT INTO {part} VALUES (1, 5), (2, 15)")
    source = changes_of(captured, table, part, publication_name="odd_ones")
    source.validate()
    run = SourceInTest(source)
    there = run.values(4)
    captured.execute(f"INSERT INTO {table} SELECT n, 'a', 's' FROM generate_series(5, 6) AS n")
    captured.execute(f"UPDATE {table} SET id = 10 WHERE id = 1")
    captured.execute(f"INSERT INTO {part} VALUES (3, 6)")
    captured.execute(f"UPDATE {part} SET at = 16 WHERE id = 1")
    came = run.values(5)
    run.close()

    assert [(change.after, change.table == f"public.{part}") for change in there] == [
        ({"id": 1, "name": "a"}, False),
        ({"id": 3, "name": "a"}, False),
        ({"id": 1, "at": 5}, True),
        ({"id": 2, "at": 15}, True),
    ]
    assert [(change.before, change.after) for change in came] == [
        (None, {"id": 5, "name": "a"}),
        ({"id": 1}, None),
        (None, {"id": 3, "at": 6}),
        ({"id": 1, "at": 5}, None),
        (None, {"id": 1, "at": 16}),
    ]


def test_a_value_that_python_has_not(captured: Tables) -> None:
    """The job would fail with a traceback that names neither the table nor the value."""
    table = captured.create("id int PRIMARY KEY, day date")
    captured.execute(f"INSERT INTO {table} VALUES (1, '2013-01-01')")
    run = SourceInTest(changes_of(captured, table))
    run.values(1)
    captured.execute(f"INSERT INTO {table} VALUES (2, 'infinity')")
    unread = f"cannot read a row of public.{table}: the column 'day' has 'infinity' in a row with id = '2': "
    with pytest.raises(SourceError, match=unread):
        run.values(1)
    run.close()
    run = SourceInTest(changes_of(captured, table))
    with pytest.raises(SourceError, match=unread):
        run.values(2)
    run.close()
