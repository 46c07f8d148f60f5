"""Reads rows on a thread of its own, a batch at a time. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.user_calls import RAISED
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import (
    Database,
    psycopg,
    translated,
)
from penstock.connectors.postgres.source.split import PostgresSplit
from penstock.connectors.postgres.source.table import Table

_log = logging.getLogger(__name__)

_BATCHES_MAX = 2
"""How many wait for the reader at most, beside the one that is being fetched."""
_CLOSE_S = 5.0


class Fetched(msgspec.Struct):
    """Records, the value of the column for each, and whether the rows of the last value are all there."""

    records: list[Any]
    keys: list[Any]
    is_whole: bool = False
    is_last: bool = False


class Fetcher:
    """Fetches one split. `notify` is called when there is something to take, or an error.

    `poll_interval_s`: look for new rows that often, without an end; None: end with the rows that are there. A
    connection that is lost is made again, and reading goes on at the row where it was.
    """

    def __init__(
        self,
        database: Database,
        table: Table,
        split: PostgresSplit,
        fetch_size: int,
        max_retries: int,
        poll_interval_s: float | None,
        notify: Callable[[], None],
    ) -> None:
        self._database = database
        self._table = table
        self._split = split
        self._fetch_size = fetch_size
        self._max_retries = max_retries
        self._poll_interval_s = poll_interval_s
        self._notify = notify
        self._package = psycopg()
        self._connection: Any = None
        self._fetched: deque[Fetched] = deque()
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="penstock-postgres", daemon=True)
        self._thread.start()

    def take(self) -> Fetched | None:
        """What was fetched next; None: nothing now. Raises SourceError for what has ended the thread."""
        with self._changed:
            if self._fetched:
                self._changed.notify()
                return self._fetched.popleft()
            if self._error is not None:
                raise SourceError(str(self._error)) from self._error
            return None

    def close(self) -> None:
        """End the thread, whatever the server does for it at present."""
        with self._changed:
            self._closing = True
            self._changed.notify()
            connection = self._connection
        if connection is not None:
            with contextlib.suppress(self._package.Error):
                connection.cancel_safe(timeout=1.0)
        # It may wait for a server that does not answer, or for the next try; it ends after that by itself.
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            while not self._closing:
                # Each time that something was read, tries are counted anew.
                retried(self._read_on, self._max_retries)
                if self._poll_interval_s is None:
                    self._add(Fetched([], [], is_last=True))
                    return
                self._pause(self._poll_interval_s)
        except RAISED as error:
            if not self._closing:
                self._error = error if isinstance(error, Exception) else SourceError(repr(error))
                self._notify()
        finally:
            if self._connection is not None:
                self._connection.close()

    def _read_on(self) -> None:
        """All rows from the position on that are there now."""
        try:
            if self._connection is None:
                self._connection = self._database.connect("penstock source")
            upto = None
            if self._poll_interval_s is not None:
                upto = self._settled()
                if upto is None:
                    return
            for batch in self._batches(upto):
                self._add(batch)
                if self._closing:
                    return
            if upto is not None:
                self._split = PostgresSplit(self._split.index, upto, None, None)
                self._add(Fetched([], [upto], is_whole=True))
        except self._package.Error as error:
            text = f"PostgreSQL at {self._database}: {self._database.hide(str(error).strip())}"
            failed = translated(error, text)
            connection, self._connection = self._connection, None
            connection.close()
            raise failed from None

    def _batches(self, upto: Any) -> Iterator[Fetched]:
        sql, parameters = self._table.rows(self._split, upto)
        with self._connection.transaction(), self._connection.cursor("penstock") as cursor:
            cursor.execute(sql, parameters)
            make = self._table.maker([column.name for column in cursor.description[1:]])
            while rows := cursor.fetchmany(self._fetch_size):
                keys = [row[0] for row in rows]
                self._split = self._split.after(keys)
                yield Fetched([make(row[1:]) for row in rows], keys)

    def _settled(self) -> Any:
        """The greatest value at present, when all transactions that could still add a lesser one have ended.

        A value may be taken from a sequence before another and be committed after it.
        """
        ((newest,),) = self._ask(*self._table.newest(self._split))
        if newest is None or (newest == self._split.start and self._split.skip is None):
            return None
        ((running,),) = self._ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        while not self._closing:
            ((oldest,),) = self._ask("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            if oldest >= running:
                return newest
            assert self._poll_interval_s is not None
            self._pause(self._poll_interval_s)
        return None

    def _ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._connection.execute(sql, parameters).fetchall()
        return rows

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if not self._closing:
                self._changed.wait(seconds)

    def _add(self, fetched: Fetched) -> None:
        with self._changed:
            while len(self._fetched) >= _BATCHES_MAX and not self._closing:
                self._changed.wait()
            self._fetched.append(fetched)
        self._notify()
