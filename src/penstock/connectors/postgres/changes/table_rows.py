"""Read the rows of one table in one snapshot, from a key on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.captured_relation import unreadable
from penstock.connectors.postgres.changes.captured_table import CapturedTable
from penstock.connectors.postgres.changes.change import Change, ChangeKind
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.split import ChangesSplit, Key


class Fetched(msgspec.Struct):
    """Changes in order. `position_after(n)` returns the split after the first n of them, or after all known ones."""

    changes: list[Change]
    position_after: Callable[[int], ChangesSplit]


def rows_of(table: CapturedTable, split: ChangesSplit, session: Session, fetch_size: int) -> Iterator[Fetched]:
    """Yield the unread rows of the first table of the split.

    The table is locked against changes of its columns and TRUNCATE, which remove the rows of earlier snapshots.
    """
    with session.connection.transaction():
        # The first query takes the snapshot; LOCK does not count as one.
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        session.execute(f"LOCK TABLE {table.sql} IN ACCESS SHARE MODE")
        ((snapshot, seen_lsn),) = session.execute(
            "SELECT pg_current_snapshot()::text, (pg_current_wal_insert_lsn() - '0/0')::bigint"
        )
        begun = split.began(snapshot, seen_lsn)
        session.execute(f"DECLARE rows_of_table NO SCROLL CURSOR FOR {table.rows(split.resumed_at, session)}")
        width, names = len(table.key), table.columns
        kind, name = ChangeKind.INSERT, table.full_name
        while rows := _fetched(name, session, fetch_size):
            changes = [
                Change(
                    kind=kind,
                    table=name,
                    before=None,
                    after=dict(zip(names, row[width:], strict=True)),
                    lsn=split.lsn,
                    time_ms=split.began_ms,
                    is_snapshot=True,
                )
                for row in rows
            ]
            keys = [row[:width] for row in rows]
            yield Fetched(changes, _position_after(begun, keys))
        whole = begun.reached(None)
        yield Fetched([], lambda _: whole)


def _fetched(name: str, session: Session, fetch_size: int) -> list[tuple[Any, ...]]:
    try:
        return session.execute(f"FETCH FORWARD {fetch_size} FROM rows_of_table")
    except SourceError as error:
        raise unreadable(name, str(error)) from None


def _position_after(begun: ChangesSplit, keys: list[tuple[Any, ...]]) -> Callable[[int], ChangesSplit]:
    def behind(count: int) -> ChangesSplit:
        key: Key = keys[count - 1]
        return begun.reached(key)

    return behind
