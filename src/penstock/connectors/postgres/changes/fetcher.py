"""Reads rows, then changes, on a thread of its own. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable

from penstock.common.errors import SourceError
from penstock.common.user_calls import RAISED
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.changes.capture import Capture
from penstock.connectors.postgres.changes.captured_table import CapturedTable
from penstock.connectors.postgres.changes.handover import Handover
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.slot import Attempt, slot_for
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.changes.streaming import Progress, Streaming
from penstock.connectors.postgres.changes.table_rows import Fetched, rows_of
from penstock.connectors.postgres.connection import TransientPostgresError

_log = logging.getLogger(__name__)

_CLOSE_S = 5.0
_PAUSE_S = 1.0


class Fetcher:
    """Fetches from a position on. `notify` is called when there is something to take, or an error.

    A connection that is lost is made again, and reading goes on where it was.
    """

    def __init__(
        self, capture: Capture, split: ChangesSplit, fetch_size: int, max_retries: int, notify: Callable[[], None]
    ) -> None:
        self._capture = capture
        self._split = split
        self._fetch_size = fetch_size
        self._max_retries = max_retries
        self._attempt = Attempt(split.job)
        self._progress = Progress(confirmed_lsn=split.lsn, server_lsn=split.lsn)
        self._handover: Handover[Fetched] = Handover(notify)
        self._session: Session | None = None
        """While rows are read, and a statement may take long."""
        self._thread = threading.Thread(target=self._run, name="penstock-postgres-changes", daemon=True)
        self._thread.start()

    def take(self) -> Fetched | None:
        """What was fetched next; None: nothing now. Raises SourceError for what has ended the thread."""
        return self._handover.take()

    def confirm(self, lsn: int) -> None:
        """Nothing that was committed before this is asked for again."""
        self._progress.confirmed_lsn = max(self._progress.confirmed_lsn, lsn)
        self._handover.ring()

    def pending_bytes(self, lsn: int) -> int:
        """How much of the server's log is behind a position, as far as it is known."""
        return max(0, self._progress.server_lsn - lsn)

    def close(self) -> None:
        """Confirm what is to be confirmed, and end the thread."""
        self._handover.close()
        session = self._session
        if session is not None:
            session.cancel()
        # It may wait for a server that does not answer; it ends after that by itself.
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        try:
            while not self._handover.is_closing:
                retried(self._read_on, self._max_retries, self._pause)
        except RAISED as error:
            self._handover.fail(error)
        finally:
            self._handover.end()

    def _read_on(self) -> None:
        """Rows that are still to be read, then changes; until a connection is lost, or to the close."""
        before = self._split
        try:
            with contextlib.closing(Session(self._capture.database, "penstock changes")) as session:
                self._attempt.began(session)
                # Before rows are emitted that are not of use without the changes.
                slot_for(session, self._capture.slot, self._split)
                tables = {table.full_name: table for table in self._capture.tables_of(session)}
                self._session = session
                while self._split.tables and not self._handover.is_closing:
                    self._read_rows(tables, session)
                self._session = None
                if not self._handover.is_closing:
                    self._read_changes(tables, session)
        except TransientPostgresError as error:
            if self._split is before:
                raise
            # Something was read, so tries are counted anew. A later attempt that has ended the session comes first.
            _log.warning("the connection is made again: %s", error)
            self._pause(_PAUSE_S)

    def _read_rows(self, tables: dict[str, CapturedTable], session: Session) -> None:
        name = self._split.tables[0]
        if name not in tables:
            raise SourceError(f"{name}, which is to be read, is in the publication no more")
        try:
            for fetched in rows_of(tables[name], self._split, session, self._fetch_size):
                self._put(fetched)
                while not (self._handover.has_room or self._handover.is_closing):
                    self._handover.wait(None, None)
                if self._handover.is_closing:
                    return
        except session.package.Error as error:
            raise session.failed(error) from None

    def _read_changes(self, tables: dict[str, CapturedTable], session: Session) -> None:
        self._attempt.take_over(session, slot_for(session, self._capture.slot, self._split))
        streaming = Streaming(self._capture, self._attempt.session_name, self._split, tables, session, self._progress)
        with contextlib.closing(streaming):
            while not self._handover.is_closing:
                has_room = self._handover.has_room
                if self._handover.wait(streaming.stream if has_room else None, streaming.pause_s(has_room)):
                    streaming.stream.fetch()
                if self._handover.has_room and (fetched := streaming.receive()) is not None:
                    self._put(fetched)
                streaming.keep_in_touch()
            # What was confirmed last.
            streaming.keep_in_touch()

    def _put(self, fetched: Fetched) -> None:
        self._split = fetched.position_behind(len(fetched.changes))
        self._handover.put(fetched)

    def _pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._handover.is_closing and (left_s := until_s - time.monotonic()) > 0:
            self._handover.wait(None, left_s)
