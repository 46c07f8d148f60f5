"""Read rows, then changes, on a thread. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping

import msgspec

from penstock.common.errors import SourceError
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.postgres.changes.capture import Capture
from penstock.connectors.postgres.changes.captured_table import CapturedTable
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.slot import Attempt, slot_for
from penstock.connectors.postgres.changes.split import ChangesSplit
from penstock.connectors.postgres.changes.streaming import Progress, Streaming
from penstock.connectors.postgres.changes.table_rows import Fetched, rows_of

_BATCHES_MAX = 4
"""The most batches that wait for the reader."""


class Fetcher(SplitFetcher[Fetched]):
    """Fetch from a position on. `notify` is called when there is a batch to take, or an error.

    After a lost connection, reconnect and continue at the same position.
    """

    def __init__(
        self, capture: Capture, split: ChangesSplit, fetch_size: int, max_retries: int, notify: Callable[[], None]
    ) -> None:
        super().__init__("penstock-postgres-changes", _BATCHES_MAX, notify, max_retries)
        self._capture = capture
        self._split = split
        self._fetch_size = fetch_size
        self._attempt = Attempt(split.job)
        self._progress = Progress(confirmed_lsn=split.lsn, server_lsn=split.lsn)
        self._steps: Generator[None, None, None] | None = None
        """The reading over the present connection."""
        self._reading_rows: Session | None = None
        """The session, while a statement may take long."""
        self._streaming: Streaming | None = None
        self.start()

    def confirm(self, lsn: int) -> None:
        """Confirm that earlier commits are not needed again."""

        def confirm() -> None:
            self._progress.confirmed_lsn = max(self._progress.confirmed_lsn, lsn)
            if self._streaming is not None:
                self._streaming.keep_in_touch()

        self.handover.submit(confirm)

    def pending_bytes(self, lsn: int) -> int:
        """Return how much of the server's log lies after a position, as far as known."""
        return max(0, self._progress.server_lsn - lsn)

    def fetch(self) -> None:
        if self._steps is None:
            self._steps = self._read_all()
        next(self._steps)

    def wait_for_room(self) -> None:
        if self._streaming is None:
            super().wait_for_room()
        else:
            self.handover.wait(timeout_s=self._streaming.pause_s(False))
            self._streaming.keep_in_touch()

    def interrupt(self) -> None:
        session = self._reading_rows
        if session is not None:
            session.cancel()

    def disconnect(self) -> None:
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def _read_all(self) -> Generator[None, None, None]:
        """Read the remaining rows, one batch per step; then changes, without an end."""
        with contextlib.closing(Session(self._capture.database, "penstock changes")) as session:
            self._attempt.began(session)
            # Checked before rows are emitted, which are useless without the changes.
            slot_for(session, self._capture.slot, self._split)
            names = [table.name for table in self._split.watched]
            watched = self._capture.watched(session, names, self._split.watched)
            tables = {table.full_name: table for table in self._capture.tables_of(session)}
            # A state of an earlier version does not have this list.
            watched = watched or self._capture.watched(session, tables, ())
            self._split = msgspec.structs.replace(self._split, watched=watched)
            self._reading_rows = session
            try:
                while self._split.tables:
                    yield from self._read_rows(tables, session)
            finally:
                self._reading_rows = None
            yield from self._read_changes(tables, session)

    def _read_rows(self, tables: Mapping[str, CapturedTable], session: Session) -> Generator[None, None, None]:
        name = self._split.tables[0]
        if name not in tables:
            raise SourceError(f"{name}, whose rows are not all read, is no longer in the publication")
        try:
            for fetched in rows_of(tables[name], self._split, session, self._fetch_size):
                self._put(fetched)
                yield
        except session.package.Error as error:
            raise session.failed(error) from None

    def _read_changes(self, tables: dict[str, CapturedTable], session: Session) -> Generator[None, None, None]:
        self._attempt.take_over(session, slot_for(session, self._capture.slot, self._split))
        streaming = Streaming(
            capture=self._capture,
            name=self._attempt.session_name,
            start=self._split,
            tables=tables,
            session=session,
            progress=self._progress,
        )
        with contextlib.closing(streaming):
            self._streaming = streaming
            try:
                while True:
                    if self.handover.wait(streaming.stream, streaming.pause_s(True)):
                        streaming.stream.fetch()
                    if (fetched := streaming.receive()) is not None:
                        self._put(fetched)
                    streaming.keep_in_touch()
                    yield
            finally:
                self._streaming = None

    def _put(self, fetched: Fetched) -> None:
        self._split = fetched.position_after(len(fetched.changes))
        self.handover.put(fetched)
