"""Changes as those who read them use them: applied to a copy of the tables."""

from __future__ import annotations

import uuid
from typing import Any

from tests.connectors.driven import SourceInTest
from tests.connectors.postgres_tables import Tables

from penstock.datastream.connectors.postgres import (
    Change,
    ChangeKind,
    PostgresChangeSource,
)


def changes_of(tables: Tables, *names: str, **settings: Any) -> PostgresChangeSource:
    """A source of these tables, with a slot of its own."""
    slot = f"s{uuid.uuid4().hex[:12]}"
    # A server that starts again, or has not noticed yet that a reader has gone, may take its time on a busy machine.
    common = {"url": tables.url, "slot_name": slot, "tables": names, "fetch_size": 3, "max_retries": 30}
    return PostgresChangeSource(**{**common, **settings})


class Copy:
    """Tables rebuilt from their changes. A change that does not fit the rows is an error: it is a duplicate, or an
    earlier one was lost."""

    def __init__(self, **keys: tuple[str, ...]) -> None:
        """`keys`: by table, the columns of its key."""
        self.keys = keys
        self.rows: dict[str, dict[Any, dict[str, Any]]] = {table: {} for table in keys}

    def apply(self, change: Change) -> None:
        table = change.table.rpartition(".")[2]
        rows, key = self.rows[table], self.keys[table]

        def key_of(row: dict[str, Any] | None) -> Any:
            assert row is not None
            return tuple(row[name] for name in key)

        if change.kind is ChangeKind.TRUNCATE:
            rows.clear()
            return
        before = None
        if change.kind is not ChangeKind.INSERT:
            before = rows.pop(key_of(change.before))
        if change.kind is not ChangeKind.DELETE:
            after = {name: before[name] for name in change.unchanged} if before else {}
            after |= change.after or {}
            assert key_of(after) not in rows, f"there is one already: {change}"
            rows[key_of(after)] = after

    def values(self, table: str) -> list[tuple[Any, ...]]:
        """As a query has them."""
        return sorted(tuple(row.values()) for row in self.rows[table].values())


def read_until(run: SourceInTest, table: str, key: Any, most: int | None = None) -> list[Change]:
    """All changes up to and with the one by which a row with this id comes, or `most` of them."""
    changes: list[Change] = []
    while most is None or len(changes) < most:
        (change,) = run.values(1)
        changes.append(change)
        if change.table == f"public.{table}" and change.after is not None and change.after["id"] == key:
            break
    return changes


def afters(changes: list[Change]) -> list[dict[str, Any]]:
    """The rows that are there after them."""
    return [change.after for change in changes if change.after is not None]
