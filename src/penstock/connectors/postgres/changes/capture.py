"""The capture of tables by a publication and a slot: its requirements, and how to create them."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection

import msgspec

from penstock.common.errors import InputLostError, SourceError
from penstock.connectors.postgres.changes.captured_table import (
    CapturedTable,
    named_table,
    published_tables,
)
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.slot import create_slot, find_slot
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.changes.startup import StartupMode
from penstock.connectors.postgres.changes.watched_tables import WatchedTable, watched_tables
from penstock.connectors.postgres.connection import Database, PostgresError, quoted

_log = logging.getLogger(__name__)

_NAME = "penstock changes"
_OLDEST = 140_000
_PAUSE_S = 0.05
_LOG_EACH_S = 10.0
_STAYS_PREPARED_S = 1.0
"""A transaction that is still prepared after this time will probably stay so."""


class Capture(msgspec.Struct, frozen=True):
    """What to capture. `tables`: as the user named them; None: all of an existing publication."""

    database: Database
    slot: str
    publication: str
    tables: tuple[str, ...] | None
    mode: StartupMode

    def check(self) -> None:
        """Raise SourceError for unmet requirements, PostgresError if the server is unavailable."""
        session = Session(self.database, _NAME)
        try:
            self._check_server(session)
            slot = find_slot(session, self.slot)
            if slot is None and self.mode is StartupMode.COMMITTED:
                raise SourceError(f"the slot '{self.slot}', from which the job would continue, does not exist")
            is_published = self._is_published(session)
            if slot is not None and not is_published:
                raise SourceError(
                    f"the slot '{self.slot}' exists without the publication '{self.publication}', so PostgreSQL "
                    f"cannot read the slot's changes: SELECT pg_drop_replication_slot('{self.slot}')"
                )
            for table in self.tables_of(session):
                if self.mode is StartupMode.INITIAL:
                    table.check_rows()
                    session.execute(f"{table.rows(None, session)} LIMIT 0")
        finally:
            session.close()
        self._check_right()

    def begin(self) -> ChangesSplit:
        """Create missing objects, and return where a job without state begins. Waits for open transactions."""
        session = Session(self.database, _NAME)
        try:
            tables = self.tables_of(session)
            if not self._is_published(session):
                self._publish(session, tables)
            found = find_slot(session, self.slot)
            slot = found or create_slot(session, self.slot)
            ((end_lsn, now_ms),) = session.execute(
                "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, "
                "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
            )
            job = secrets.token_hex(8)
            names = tuple(one.full_name for one in tables)
            watched = self.watched(session, names, ())
            if self.mode is StartupMode.INITIAL:
                _settle(session)
                return ChangesSplit(job, now_ms, slot.confirmed_lsn, tables=names, watched=watched)
            skips = self.mode is StartupMode.LATEST and found is not None
            return ChangesSplit(job, now_ms, end_lsn if skips else slot.confirmed_lsn, watched=watched)
        finally:
            session.close()

    def tables_of(self, session: Session) -> list[CapturedTable]:
        """Return the captured tables. Raise SourceError if a table cannot be captured."""
        named = None
        if self.tables is not None:
            # A table may have been named twice, with its schema and without.
            found = [named_table(session, name) for name in self.tables]
            named = list({table.full_name: table for table in found}.values())
        if not self._is_published(session):
            if named is None:
                raise SourceError(
                    f"the publication '{self.publication}' does not exist: set `tables` to have it created"
                )
            for table in named:
                table.check_changes()
            return named
        published = {table.full_name: table for table in published_tables(session, self.publication)}
        if named is None:
            return list(published.values())
        missing = [table.sql for table in named if table.full_name not in published]
        if missing:
            raise SourceError(
                f"the publication '{self.publication}' lacks {', '.join(missing)}: "
                f"ALTER PUBLICATION {quoted(self.publication)} ADD TABLE {', '.join(missing)}"
            )
        return [published[table.full_name] for table in named]

    def watched(
        self, session: Session, names: Collection[str], before: Collection[WatchedTable]
    ) -> tuple[WatchedTable, ...]:
        """Return the present state of the tables `names`, after a check of those in `before`. Raise InputLostError."""
        if not self._is_published(session):
            # PostgreSQL 18 reports no error, and sends no changes.
            raise InputLostError(
                f"the publication '{self.publication}' was dropped, and changes since then are lost: start the job "
                "without its state, and it begins with the present rows"
            )
        return watched_tables(session, self.publication, None if self.tables is None else names, before)

    def _check_server(self, session: Session) -> None:
        if session.connection.info.server_version < _OLDEST:
            raise SourceError(f"PostgreSQL at {self.database} must have version 14 or later")
        ((level, is_standby, slots_max),) = session.execute(
            "SELECT current_setting('wal_level'), pg_is_in_recovery(), current_setting('max_replication_slots')::int"
        )
        if is_standby:
            raise SourceError(f"PostgreSQL at {self.database} is a standby: connect to the primary")
        if level != "logical":
            raise SourceError(
                f"PostgreSQL at {self.database} does not log the changes of rows: wal_level must be logical, got "
                f"{level}. ALTER SYSTEM SET wal_level = logical, and restart the server"
            )
        ((used,),) = session.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name <> %s", self.slot)
        if used >= slots_max:
            raise SourceError(
                f"all {slots_max} replication slots are in use: drop one, or increase max_replication_slots"
            )

    def _check_right(self) -> None:
        """Check the right by using it, because hosted servers grant it in different ways."""
        try:
            Session(self.database, _NAME, replication="database").close()
        except PostgresError as error:
            raise SourceError(
                f"{error}\nThe source needs a user with the right to replicate (ALTER ROLE … REPLICATION), and a free "
                "sender (max_wal_senders)"
            ) from error

    def _is_published(self, session: Session) -> bool:
        return bool(session.execute("SELECT FROM pg_publication WHERE pubname = %s", self.publication))

    def _publish(self, session: Session, tables: list[CapturedTable]) -> None:
        names = ", ".join(table.sql for table in tables)
        name = quoted(self.publication).replace("%%", "%")
        _log.info("creating the publication '%s' for %s", self.publication, names)
        session.execute(f"CREATE PUBLICATION {name} FOR TABLE {names} WITH (publish_via_partition_root = true)")


def _settle(session: Session) -> None:
    """Wait until all present writing transactions have ended.

    Such a transaction may have been committed before the changes of the slot begin, and be invisible to others for
    another moment: it would be neither in the changes nor in the rows. A transaction that stays prepared is not about
    to be committed: it may wait for this job, whose sink prepared it in an earlier attempt.
    """
    began_s = logged_s = time.monotonic()
    awaited = _running(session)
    while awaited := awaited & _running(session):
        now_s = time.monotonic()
        if now_s - began_s > _STAYS_PREPARED_S:
            prepared = {xid for (xid,) in session.execute("SELECT transaction::text::bigint FROM pg_prepared_xacts")}
            awaited = frozenset(xid for xid in awaited if xid % 2**32 not in prepared)
        if now_s - logged_s > _LOG_EACH_S:
            logged_s = now_s
            _log.warning("waiting for the end of the transactions %s", sorted(awaited))
        time.sleep(_PAUSE_S)


def _running(session: Session) -> frozenset[int]:
    """Return the transactions that are writing at present."""
    return frozenset(xid for (xid,) in session.execute("SELECT pg_snapshot_xip(pg_current_snapshot())::text::bigint"))
