"""Reads rows on a thread of its own, a batch at a time. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.key_range_reader import Fetched
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.postgres.connection import (
    UNREADABLE_REMEDY,
    Database,
    psycopg,
    translated,
    unreadable_value,
)
from penstock.connectors.postgres.source.table import Table

_BATCHES_MAX = 3
"""How many wait for the reader at most."""
_SESSION = "penstock source"
_LONG_WAIT_S = 60.0
_OPEN = (
    "SELECT held.pid::text, held.virtualxid FROM pg_locks AS held JOIN pg_stat_activity AS one ON one.pid = held.pid "
    "WHERE held.locktype = 'virtualxid' AND held.granted AND held.pid <> pg_backend_pid() "
    # Not those of the server itself, such as autovacuum's.
    "AND one.usesysid IS NOT NULL "
    # Nor those of such sources, which only read, and may wait for each other to be read on.
    f"AND one.application_name <> '{_SESSION}' "
    "AND one.datid = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_log = logging.getLogger(__name__)


class Fetcher(SplitFetcher[Fetched]):
    """Fetches one split. `notify` is called when there is something to take, or an error.

    `poll_interval_s`: look for new rows that often, without an end; None: end with the rows that are there. A
    connection that is lost is made again, and reading goes on at the row where it was.
    """

    def __init__(
        self,
        database: Database,
        table: Table,
        split: KeyRange,
        fetch_size: int,
        max_retries: int,
        poll_interval_s: float | None,
        notify: Callable[[], None],
    ) -> None:
        super().__init__("penstock-postgres", _BATCHES_MAX, notify, max_retries)
        self._database = database
        self._table = table
        self._split = split
        self._fetch_size = fetch_size
        self._poll_interval_s = poll_interval_s
        self._package = psycopg()
        self._connection: Any = None
        self._order: str | None = None
        self._batches: Generator[Fetched, None, None] | None = None
        """Of the query that runs."""
        self._is_read = False
        self.start()

    def fetch(self) -> None:
        if self._is_read:
            self.hold()
            return
        try:
            if self._connection is None:
                self._connection = self._database.connect(_SESSION)
            if self._order is None:
                self._order = self._table.order_of(self._ask)
            if self._batches is None:
                self._batches = self._all_rows() if self._poll_interval_s is None else self._new_rows()
            fetched = next(self._batches, None)
        except self._package.Error as error:
            text = f"{self._table.name} can't be read from PostgreSQL at {self._database}: "
            raise translated(error, text + self._database.hide(str(error).strip())) from None
        if fetched is not None:
            self.handover.put(fetched)
            return
        self._batches = None
        if self._poll_interval_s is not None:
            self.handover.pause(self._poll_interval_s)

    def interrupt(self) -> None:
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(self._package.Error):
                connection.cancel_safe(timeout=1.0)

    def disconnect(self) -> None:
        batches, self._batches = self._batches, None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        if batches is not None:
            # Its transaction has ended with the connection.
            with contextlib.suppress(self._package.Error):
                batches.close()

    def _all_rows(self) -> Generator[Fetched, None, None]:
        yield from self._rows(None)
        self._is_read = True
        yield Fetched([], [], is_last=True)

    def _new_rows(self) -> Generator[Fetched, None, None]:
        """All rows from the position on that are there now."""
        upto = self._settled()
        if upto is None:
            return
        yield from self._rows(upto)
        self._split = KeyRange(self._split.index, upto, None, None)
        yield Fetched([], [upto], is_whole=True)

    def _rows(self, upto: Any) -> Generator[Fetched, None, None]:
        assert self._order is not None
        sql, parameters = self._table.rows(self._split, self._order, upto)
        with self._connection.transaction(), self._connection.cursor("penstock") as cursor:
            cursor.execute(sql, parameters)
            make = self._table.maker([column.name for column in cursor.description[1:]])
            while rows := self._fetched(cursor):
                keys = [row[0] for row in rows]
                self._split = self._split.after(keys)
                yield Fetched([make(row[1:]) for row in rows], keys)

    def _fetched(self, cursor: Any) -> list[Any]:
        try:
            rows: list[Any] = cursor.fetchmany(self._fetch_size)
            return rows
        except self._package.DataError as error:
            if (place := unreadable_value(cursor)) is None:
                raise
            raise SourceError(f"{self._table.name} can't be read: {place}: {error}. {UNREADABLE_REMEDY}") from None

    def _settled(self) -> Any:
        """The greatest value at present, when all transactions that could still add a lesser one have ended.

        A value may be taken from a sequence before another and be committed after it. Who has taken it has perhaps
        written nothing yet, and has no xid that a snapshot could name: so all transactions that are open are waited
        for, as CREATE INDEX CONCURRENTLY does.
        """
        ((newest,),) = self._ask(*self._table.newest(self._split))
        if newest is None or (newest == self._split.start and self._split.skip is None):
            return None
        ((running,),) = self._ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        left, began_s, is_told = self._open_transactions(), time.monotonic(), False
        while not self.handover.is_closing:
            ((oldest,),) = self._ask("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            left &= self._open_transactions()
            if oldest >= running and not left:
                return newest
            if not is_told and time.monotonic() - began_s > _LONG_WAIT_S:
                is_told = True
                _log.warning(
                    "the source of %s waits for transactions that were open when its newest row was seen, and could "
                    "still add a row before it: those of the server processes %s (pg_stat_activity)",
                    self._table.name,
                    ", ".join(sorted(pid for pid, _ in left)) or "that are prepared, in pg_prepared_xacts",
                )
            assert self._poll_interval_s is not None
            self.handover.pause(self._poll_interval_s)
        return None

    def _open_transactions(self) -> set[tuple[str, str]]:
        """Those of the users of this database, but for this one, by the process of each: its number changes with it."""
        return set(self._ask(_OPEN))

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._connection.execute(sql, parameters).fetchall()
        return rows
