"""A table in PostgreSQL's catalog: its captured columns, the order in which it is read, and its replica identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.split import Key
from penstock.connectors.postgres.connection import quoted

# By name, because these columns of the view are missing before version 15.
_TABLES = """
SELECT n.nspname, c.relname, c.relreplident::text, c.relkind::text,
    coalesce(
        (SELECT array_agg(name) FROM jsonb_array_elements_text(to_jsonb(p) -> 'attnames') AS name),
        (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute
         WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '')
    ),
    to_jsonb(p) ->> 'rowfilter',
    (SELECT array_agg(ARRAY[a.attname::text, format_type(a.atttypid, a.atttypmod),
        CASE WHEN a.attcollation <> 0 THEN a.attcollation::regcollation::text ELSE '' END] ORDER BY k.position)
     FROM pg_index i, unnest(i.indkey) WITH ORDINALITY AS k(number, position), pg_attribute a
     WHERE i.indrelid = c.oid AND k.position <= i.indnkeyatts AND a.attrelid = c.oid AND a.attnum = k.number
       AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
"""
_PUBLISHED = _TABLES + (
    "JOIN pg_publication_tables p ON p.schemaname = n.nspname AND p.tablename = c.relname WHERE p.pubname = %s "
    "ORDER BY 1, 2"
)
_NAMED = _TABLES + "CROSS JOIN (SELECT) AS p WHERE c.oid = to_regclass(%s)"
_FULL, _NOTHING = "f", "n"
_TABLE, _PARTITIONED = "r", "p"


class KeyColumn(msgspec.Struct, frozen=True):
    """A column of a key. `type`: as SQL; `collation`: as SQL, or empty."""

    name: str
    type: str
    collation: str

    def value(self, text: str) -> str:
        """Return a text literal as SQL for a value of the column."""
        collation = f" COLLATE {self.collation}" if self.collation else ""
        return f"{text}::{self.type}{collation}"


class CapturedTable(msgspec.Struct, frozen=True):
    """A captured table.

    `identity`: REPLICA IDENTITY, as in pg_class. `condition`: of the publication, as SQL, or None.
    """

    schema: str
    name: str
    identity: str
    is_partitioned: bool
    columns: tuple[str, ...]
    condition: str | None
    key: tuple[KeyColumn, ...]

    @property
    def full_name(self) -> str:
        """Return the name with the schema and a dot, as in changes."""
        return f"{self.schema}.{self.name}"

    @property
    def sql(self) -> str:
        """Return the name as SQL."""
        return f"{_plain(self.schema)}.{_plain(self.name)}"

    def check_changes(self) -> None:
        """Raise SourceError if PostgreSQL would refuse updates and deletes once the table is in a publication."""
        if self.identity == _NOTHING or (self.identity != _FULL and not self.key):
            raise SourceError(
                f"{self.full_name} has no replica identity: PostgreSQL could not identify updated and deleted rows, "
                "and would refuse updates and deletes once the table is in a publication. Add a primary key, or "
                f"ALTER TABLE {self.sql} REPLICA IDENTITY FULL"
            )

    def check_rows(self) -> None:
        """Raise SourceError if the rows cannot be read in the order of a key."""
        if not self.key:
            raise SourceError(
                f"{self.full_name} needs a primary key, by which its rows are read at the start: add one, or read "
                "only its changes, with StartupOptions.latest()"
            )

    def rows(self, after: Key | None, session: Session) -> str:
        """Return the statement for all rows after a key, in its order. The values of the key come first, as texts."""
        key = ", ".join(f"t.{_plain(column.name)}" for column in self.key)
        texts = ", ".join(f"t.{_plain(column.name)}::text" for column in self.key)
        wanted = ", ".join(map(_plain, self.columns))
        conditions = [f"({self.condition})"] if self.condition is not None else []
        if after is not None:
            conditions.append(f"({key}) > ({self._values(after, session)})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        # Tables that inherit from it are separate members of the publication.
        only = "" if self.is_partitioned else "ONLY "
        return f"SELECT {texts}, {wanted} FROM {only}{self.sql} AS t{where} ORDER BY {key}"

    def precedes(self, key: Key, bound: Key, session: Session) -> str:
        """Return the statement that tells whether a key is at most the bound."""
        return f"SELECT ({self._values(key, session)}) <= ({self._values(bound, session)})"

    def _values(self, key: Key, session: Session) -> str:
        return ", ".join(column.value(session.literal(text)) for column, text in zip(self.key, key, strict=True))


def published_tables(session: Session, publication: str) -> list[CapturedTable]:
    """Return the tables of a publication, without partitions if it publishes by their root."""
    return [_table(row) for row in session.execute(_PUBLISHED, publication)]


def named_table(session: Session, name: str) -> CapturedTable:
    """Return the table with this name, which may begin with a schema and a dot. Raise SourceError if it is missing."""
    for row in session.execute(_NAMED, ".".join(map(_plain, name.split(".")))):
        if row[3] not in (_TABLE, _PARTITIONED):
            raise SourceError(f"{name} is not a table: only tables have changes")
        return _table(row)
    raise SourceError(f"the table {name} does not exist, or this user may not see it")


def _table(row: Sequence[Any]) -> CapturedTable:
    schema, name, identity, kind, columns, condition, key = row
    key_columns = tuple(KeyColumn(*column) for column in key or ())
    return CapturedTable(
        schema=schema,
        name=name,
        identity=identity,
        is_partitioned=kind == _PARTITIONED,
        columns=tuple(columns or ()),
        condition=condition,
        key=key_columns,
    )


def _plain(name: str) -> str:
    # These statements are sent without parameters, so percent signs need no escape.
    return quoted(name).replace("%%", "%")
