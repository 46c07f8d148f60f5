"""Detect changes that were read with the rows: those of transactions that the snapshot of their range includes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.common.errors import SourceError
from penstock.connectors.postgres.changes.split import Key, PostgresSnapshot, RowsRead


class SeenRows:
    """The rows read of all tables. `precedes(table, key, bound)`: whether a key is at most the bound in PostgreSQL.

    It is called only for changes that some snapshots of a table include and others do not: those made while a job that
    was restarted read the table.
    """

    def __init__(self, read: Iterable[RowsRead], precedes: Callable[[str, Key, Key], bool]) -> None:
        self._precedes = precedes
        self._ranges: dict[str, list[tuple[Key | None, PostgresSnapshot]]] = {}
        for part in read:
            self._ranges.setdefault(part.table, []).append((part.upto, PostgresSnapshot.of(part.snapshot)))

    def has(self, table: str, xid: int, key: Callable[[], Key]) -> bool:
        """Return whether the rows include this transaction's change of the row with this key."""
        ranges = self._ranges.get(table, ())
        seen = [snapshot.has(xid) for _, snapshot in ranges]
        if not any(seen):
            return False
        if all(seen):
            return True
        wanted = key()
        for (upto, _), is_seen in zip(ranges, seen, strict=True):
            if upto is None or (upto and self._precedes(table, wanted, upto)):
                return is_seen
        raise AssertionError(f"the last range of {table} has an end: {ranges}")

    def has_truncate(self, table: str, xid: int) -> bool:
        """Return the same for a TRUNCATE. Raise SourceError if only some of the snapshots include it."""
        seen = {snapshot.has(xid) for _, snapshot in self._ranges.get(table, ())}
        if len(seen) > 1:
            raise SourceError(
                f"{table} was truncated after a part of it was read, and the job was restarted before the rest was: "
                "start the job again without its state"
            )
        return True in seen
