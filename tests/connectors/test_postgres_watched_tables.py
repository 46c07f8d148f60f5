"""A PostgresChangeSource that can no longer see one of its tables, or sees another one under its name."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.postgres_changes import afters, changes_of
from tests.connectors.postgres_tables import Tables

from penstock.common.errors import InputLostError
from penstock.common.stored import value
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.datastream.connectors.postgres import PostgresChangeSource, StartupOptions

pytestmark = pytest.mark.connectors

MADE_AGAIN = "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY)"
SWAPPED = (
    "CREATE TABLE {t}_new (id int PRIMARY KEY); ALTER TABLE {t} RENAME TO {t}_old; ALTER TABLE {t}_new RENAME TO {t}"
)
REMOVED = "ALTER PUBLICATION {p} DROP TABLE {t}"
ADDED = "ALTER PUBLICATION {p} ADD TABLE {t}"
PUBLISHED_AGAIN = "DROP PUBLICATION {p}; CREATE PUBLICATION {p} FOR TABLE {t}, {other}"
ANOTHER = "is another table"
LOST = [
    (MADE_AGAIN, ANOTHER), (f"{MADE_AGAIN}; {ADDED}", ANOTHER), (SWAPPED, ANOTHER), (f"{SWAPPED}; {ADDED}", ANOTHER),
    (f"{REMOVED}; {ADDED}", "removed from the publication '.*' and added again"),
    (PUBLISHED_AGAIN, "removed from the publication '.*' and added again"),
    ("DROP PUBLICATION {p}", "the publication '.*' was dropped"),
    ("ALTER PUBLICATION {p} SET (publish = 'insert')", "no longer publishes update and delete and truncate of"),
]  # fmt: skip
LOST_BY_NAME = [
    (REMOVED, "was removed from the publication"), ("DROP TABLE {t}", "was dropped or renamed"),
    ("ALTER TABLE {t} RENAME TO {t}_old", "was dropped or renamed"),
]  # fmt: skip


class Followed:
    """Two tables with a row each, of a publication, and a source of them."""

    def __init__(self, captured: Tables, is_named: bool, publication: str = "FOR TABLE {t}, {other}") -> None:
        self._captured = captured
        self.table, self.other = (captured.create("id int PRIMARY KEY") for _ in range(2))
        self.publication = f"p_{self.table}"
        self.execute(f"CREATE PUBLICATION {{p}} {publication}")
        self.execute("INSERT INTO {t} VALUES (1); INSERT INTO {other} VALUES (1)")
        named = changes_of(captured, self.table, self.other, publication_name=self.publication)
        self.source = named if is_named else self.of_publication()

    def of_publication(self, **settings: Any) -> PostgresChangeSource:
        slot = f"s_{self.table}"
        return PostgresChangeSource(
            url=self._captured.url, slot_name=slot, publication_name=self.publication, **settings
        )

    def execute(self, sql: str) -> None:
        self._captured.execute(sql.format(t=self.table, other=self.other, p=self.publication))


@pytest.mark.parametrize(
    ("is_named", "sql", "told"),
    [(is_named, *case) for is_named in (True, False) for case in LOST] + [(True, *case) for case in LOST_BY_NAME],
)
def test_a_table_out_of_sight_is_an_error(captured: Tables, is_named: bool, sql: str, told: str) -> None:
    """A migration would drop and create the table again, and the healthy job would read no changes forever."""
    followed = Followed(captured, is_named)
    run = SourceInTest(followed.source)
    run.values(2)
    state = run.snapshot()
    run.close()
    followed.execute(sql)
    again = SourceInTest(followed.source, state=state)
    with pytest.raises(InputLostError, match=f"{told}.*start the job without its state"):
        again.values(1)
    again.close()
    followed.execute("DROP PUBLICATION IF EXISTS {p}")


def test_a_table_that_is_lost_while_another_is_read(captured: Tables) -> None:
    """A job that runs would notice at its next restart only."""
    followed = Followed(captured, is_named=True)
    first, last = sorted((followed.table, followed.other))
    captured.execute(f"INSERT INTO {last} SELECT n FROM generate_series(2, 40) AS n")
    source = changes_of(captured, first, last, publication_name=followed.publication, fetch_size=1)
    run = SourceInTest(source)
    run.values(2, max_records=1)
    captured.execute(MADE_AGAIN.format(t=first))
    with pytest.raises(InputLostError, match=f"public.{first} is another table than the watched one"):
        run.values(100)
    run.close()
    followed.execute("DROP PUBLICATION {p}")


@pytest.mark.parametrize(
    ("publication", "sql", "told", "table"),
    [
        ("FOR TABLE {t}, {other}", REMOVED, "is no longer in the publication", "{other}"),
        ("FOR TABLE {t}, {other}", "DROP TABLE {t}", "is no longer in the publication", "{other}"),
        ("FOR TABLE {t}, {other}", "ALTER TABLE {t} RENAME TO {t}_new", "", "{t}_new"),
        ("FOR TABLE {t}, {other}", "ALTER TABLE {t} REPLICA IDENTITY FULL", "", "{t}"),
        ("FOR TABLE {t}, {other}", "ALTER PUBLICATION {p} SET TABLE {t}, {other}", "", "{t}"),
        ("FOR TABLES IN SCHEMA public", MADE_AGAIN, "another table than before", "{t}"),
        ("FOR ALL TABLES", MADE_AGAIN, "another table than before", "{t}"),
    ],
)
def test_a_publication_that_is_read_whole_may_change(
    captured: Tables, publication: str, sql: str, told: str, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A job would fail for a table that its users have taken out, or that is seen as before."""
    followed = Followed(captured, False, publication)
    source = followed.of_publication(startup_options=StartupOptions.latest())
    run = SourceInTest(source)
    followed.execute("INSERT INTO {other} VALUES (2)")
    run.values(1)
    state = run.snapshot()
    run.close()
    followed.execute(sql)
    with caplog.at_level(logging.WARNING):
        again = SourceInTest(source, state=state)
        name = table.format(t=followed.table, other=followed.other)
        captured.execute(f"INSERT INTO {name} VALUES (7)")
        while (change := again.values(1)[0]).after != {"id": 7}:
            pass
        again.close()
    assert change.table == f"public.{name}"
    warnings = [record.getMessage() for record in caplog.records if "watched" in record.name]
    assert [told in warning for warning in warnings] == ([True] if told else [])
    followed.execute("DROP PUBLICATION {p}")


def test_a_state_of_an_earlier_version(captured: Tables) -> None:
    """A savepoint that knows of no tables would not be restored, or its job be blind for their end."""
    followed = Followed(captured, is_named=True)
    run = SourceInTest(followed.source)
    run.values(2)
    enumerator, ((split,),) = run.snapshot()
    run.close()
    old = value("postgres-changes-split", 1, *msgspec.structs.astuple(split)[:7])
    assert isinstance(old, ChangesSplit) and not old.watched
    again = SourceInTest(followed.source, state=(enumerator, [[old]]))
    followed.execute("INSERT INTO {t} VALUES (2)")
    assert afters(again.values(1)) == [{"id": 2}]
    _, ((split,),) = again.snapshot()
    again.close()
    assert [table.name for table in split.watched] == sorted(
        f"public.{one}" for one in (followed.table, followed.other)
    )
    followed.execute("DROP PUBLICATION {p}")
