"""The position of a PostgresChangeSource: which rows were read in which snapshot, and then how many changes.

Rows are read range by range of the key, each range in a snapshot of its own (only one, unless the job was restarted
meanwhile). If the snapshot of a range includes a transaction, its changes of these rows are read with them. If not,
they are emitted when they arrive as changes, all of which the slot retains since its creation.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.postgres.changes.watched_tables import WatchedTable

Key = tuple[str, ...]
"""The values of a table's key as texts, as PostgreSQL writes them."""


class PostgresSnapshot(NamedTuple):
    """The transactions that a reader sees: `pg_current_snapshot()`. Numbers include their epochs."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> PostgresSnapshot:
        """Parse PostgreSQL's text, `xmin:xmax:running,…`."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, running.split(",") if running else ())))

    def has(self, xid: int) -> bool:
        """Return whether the snapshot includes this committed transaction. `xid`: 32 bits, without its epoch."""
        # Numbers that exist at the same time are less than 2^31 apart.
        whole = self.xmax + (xid - self.xmax + 2**31) % 2**32 - 2**31
        return whole < self.xmin or (whole < self.xmax and whole not in self.running)


@stored_as("postgres-rows-read")
class RowsRead(msgspec.Struct, frozen=True):
    """The rows of a table after those of the previous range, up to and including a key, and their snapshot.

    `upto` None: up to the last row.
    """

    table: str
    upto: Key | None
    snapshot: str


@stored_as("postgres-changes-split")
class ChangesSplit(msgspec.Struct, frozen=True):
    """The only split.

    `job`: distinguishes the users of a slot. `began_ms`: when the job began. `lsn`: all transactions committed before
    it were emitted, and `done` changes of the one committed there. `tables`: to read first; a part of the first one was
    read if it is the last in `read`. `seen_lsn`: no snapshot includes commits at or after it. `watched`: the tables at
    the last check.
    """

    job: str
    began_ms: int
    lsn: int
    done: int = 0
    tables: tuple[str, ...] = ()
    read: tuple[RowsRead, ...] = ()
    seen_lsn: int = 0
    watched: tuple[WatchedTable, ...] = ()

    @property
    def split_id(self) -> str:
        """Return a constant: there is only one split."""
        return "changes"

    def began(self, snapshot: str, seen_lsn: int) -> ChangesSplit:
        """Return the position at which the first of the tables is continued in this snapshot."""
        table, read = self.tables[0], self.read
        bounds = [(), *(part.upto for part in read if part.table == table)]
        if len(bounds) > 1 and bounds[-1] == bounds[-2]:
            # No rows were read in the previous snapshot.
            read = read[:-1]
        return msgspec.structs.replace(self, read=(*read, RowsRead(table, bounds[-1], snapshot)), seen_lsn=seen_lsn)

    def reached(self, key: Key | None) -> ChangesSplit:
        """Return the position after this key; None: after the whole table."""
        last = self.read[-1]
        part = RowsRead(last.table, key, last.snapshot)
        tables = self.tables if key is not None else self.tables[1:]
        return msgspec.structs.replace(self, read=(*self.read[:-1], part), tables=tables)

    @property
    def resumed_at(self) -> Key | None:
        """Return the key up to which the first of the tables was read, or None."""
        last = self.read[-1] if self.read else None
        return last.upto or None if last is not None and last.table == self.tables[0] else None

    def at(self, lsn: int, done: int) -> ChangesSplit:
        """Return the position in the changes. The read ranges are dropped as soon as they have no effect."""
        read = self.read if lsn < self.seen_lsn else ()
        return ChangesSplit(
            job=self.job,
            began_ms=self.began_ms,
            lsn=lsn,
            done=done,
            tables=self.tables,
            read=read,
            seen_lsn=self.seen_lsn,
            watched=self.watched,
        )
