"""Receive the changes of a slot in batches, and confirm to the server which it may delete."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from penstock.connectors.postgres.changes.capture import Capture
from penstock.connectors.postgres.changes.captured_table import CapturedTable
from penstock.connectors.postgres.changes.replication import ReplicationStream
from penstock.connectors.postgres.changes.seen_rows import SeenRows
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.changes.split import ChangesSplit, Key
from penstock.connectors.postgres.changes.table_rows import Fetched
from penstock.connectors.postgres.changes.transactions import Tables, Transactions

_BATCH = 1000
_BATCH_BYTES = 1 << 20
_STATUS_S = 10.0
"""The longest time between two messages to the server, which ends a session after a minute without one."""
_IDLE_S = 1.0
"""The shortest time between two positions without changes, while others write to other tables."""


class Progress(msgspec.Struct):
    """The progress of one reader over all of its connections. `server_lsn`: the last known end of the server's log."""

    confirmed_lsn: int
    server_lsn: int


class Streaming:
    """Stream over one connection. `session`: another connection, for queries."""

    def __init__(
        self,
        capture: Capture,
        name: str,
        start: ChangesSplit,
        tables: Mapping[str, CapturedTable],
        session: Session,
        progress: Progress,
    ) -> None:
        def precedes(table: str, key: Key, bound: Key) -> bool:
            ((answer,),) = session.execute(tables[table].precedes(key, bound, session))
            return bool(answer)

        def key_columns(table: str) -> list[str]:
            return [column.name for column in tables[table].key]

        known = Tables(session.loader, key_columns, lambda table: capture.tables is None or table in tables)
        self._start = start
        self._capture = capture
        self._names = tables.keys()
        self._session = session
        self._progress = progress
        self._transactions = Transactions(start, SeenRows(start.read, precedes), known)
        self._has_more = False
        self._reported_lsn = start.lsn
        self._status_due_s = self._idle_due_s = 0.0
        self._sent = 0
        self.stream = ReplicationStream(
            database=capture.database,
            application_name=name,
            slot=capture.slot,
            publication=capture.publication,
            lsn=start.lsn,
        )

    def pause_s(self, has_room: bool) -> float:
        """Return how long to wait unless data arrives."""
        if has_room and self._has_more:
            return 0.0
        due_s = self._status_due_s
        if has_room and self._transactions.lsn != self._reported_lsn:
            due_s = min(due_s, self._idle_due_s)
        return max(0.0, due_s - time.monotonic())

    def receive(self) -> Fetched | None:
        """Return a batch of the received changes, or None."""
        transactions, size = self._transactions, 0
        self._has_more = True
        while len(transactions.changes) < _BATCH and size < _BATCH_BYTES:
            data = self.stream.receive()
            if data is None:
                self._has_more = False
                break
            if data:
                size += len(data)
                transactions.handle(data)
            else:
                transactions.idle_at(self.stream.server_lsn)
        if not transactions.changes:
            if transactions.lsn == self._reported_lsn or time.monotonic() < self._idle_due_s:
                return None
            self._idle_due_s = time.monotonic() + _IDLE_S
        self._reported_lsn = transactions.lsn
        changes, positions = transactions.take()
        return Fetched(changes, self._position_after(positions, (transactions.lsn, transactions.done)))

    def keep_in_touch(self) -> None:
        """Send a status if the server requested one, if there is a position to confirm, or if one is due."""
        now_s, confirmed = time.monotonic(), self._progress.confirmed_lsn
        is_due = now_s >= self._status_due_s
        if is_due or self.stream.wants_reply or confirmed > self._sent:
            self.stream.send_status(self._transactions.lsn, confirmed)
            self._sent = confirmed
        if is_due:
            self._status_due_s = now_s + _STATUS_S
            self._look_at_server()

    def _look_at_server(self) -> None:
        ((self._progress.server_lsn,),) = self._session.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        watched = self._capture.watched(self._session, self._names, self._start.watched)
        self._start = msgspec.structs.replace(self._start, watched=watched)

    def close(self) -> None:
        """Close the session."""
        self.stream.close()

    def _position_after(self, positions: list[tuple[int, int]], last: tuple[int, int]) -> Callable[[int], ChangesSplit]:
        start = self._start

        def behind(count: int) -> ChangesSplit:
            return start.at(*(positions[count - 1] if count < len(positions) else last))

        return behind
