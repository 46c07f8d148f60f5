"""How far a PostgresChangeSource has come: which rows were read in which snapshot, and then how many changes.

Rows are read range by range of the key, each range in a snapshot of its own (one, unless the job was restarted
meanwhile). A transaction is either in the snapshot of a range, then its changes of these rows are read with them; or it
is not, then they are emitted when it comes in the changes, all of which are kept since the slot was made.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.postgres.changes.watched_tables import WatchedTable

Key = tuple[str, ...]
"""The values of a table's key as texts, as PostgreSQL writes them."""


class PostgresSnapshot(NamedTuple):
    """Which transactions a reader sees: `pg_current_snapshot()`. Numbers have their epochs."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def of(cls, text: str) -> PostgresSnapshot:
        """From PostgreSQL's text, `xmin:xmax:running,…`."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(map(int, running.split(",") if running else ())))

    def has(self, xid: int) -> bool:
        """Whether it sees what this transaction did, which was committed. `xid`: 32 bits, without its epoch."""
        # Numbers that exist at a time are less than 2^31 apart.
        whole = self.xmax + (xid - self.xmax + 2**31) % 2**32 - 2**31
        return whole < self.xmin or (whole < self.xmax and whole not in self.running)


@stored_as("postgres-rows-read")
class RowsRead(msgspec.Struct, frozen=True):
    """The rows of a table behind those of the range before, up to and with a key, and the snapshot they are of.

    `upto` None: up to the last one.
    """

    table: str
    upto: Key | None
    snapshot: str


@stored_as("postgres-changes-split")
class ChangesSplit(msgspec.Struct, frozen=True):
    """The only split.

    `job`: distinguishes those who use a slot. `began_ms`: when it began. `lsn`: all transactions that were committed
    before it were emitted, and `done` changes of the one that was committed there. `tables`: to be read first; of the
    first one a part was read, if it is the last of `read`. `seen_lsn`: what is committed there or later is in none of
    the snapshots. `watched`: the tables, as they were when they were last looked at.
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
        """There is one."""
        return "changes"

    def began(self, snapshot: str, seen_lsn: int) -> ChangesSplit:
        """The first of the tables is read on in this snapshot."""
        table, read = self.tables[0], self.read
        bounds = [(), *(part.upto for part in read if part.table == table)]
        if len(bounds) > 1 and bounds[-1] == bounds[-2]:
            # Nothing was read in the snapshot before.
            read = read[:-1]
        return msgspec.structs.replace(self, read=(*read, RowsRead(table, bounds[-1], snapshot)), seen_lsn=seen_lsn)

    def reached(self, key: Key | None) -> ChangesSplit:
        """It was read up to this key; None: whole."""
        last = self.read[-1]
        part = RowsRead(last.table, key, last.snapshot)
        tables = self.tables if key is not None else self.tables[1:]
        return msgspec.structs.replace(self, read=(*self.read[:-1], part), tables=tables)

    @property
    def resumed_at(self) -> Key | None:
        """Up to which key the first of the tables was read; None: nothing of it."""
        last = self.read[-1] if self.read else None
        return last.upto or None if last is not None and last.table == self.tables[0] else None

    def at(self, lsn: int, done: int) -> ChangesSplit:
        """The position in the changes. What the snapshots have seen is forgotten as soon as it matters no more."""
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
