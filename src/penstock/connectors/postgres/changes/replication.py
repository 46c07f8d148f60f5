"""A session of PostgreSQL's streaming replication protocol, which sends the changes of a slot.

psycopg does not support the protocol, but its libpq has what is needed: after START_REPLICATION both sides copy (COPY
BOTH). Source: PostgreSQL docs, "Streaming Replication Protocol".
"""

from __future__ import annotations

from struct import Struct

from penstock.common.time.wall_clock import now_ms
from penstock.connectors.postgres.changes.pgoutput import milliseconds
from penstock.connectors.postgres.changes.session import Session
from penstock.connectors.postgres.connection import Database

_XLOG_DATA = Struct("!cQQQ")
_KEEPALIVE = Struct("!cQQB")
_STATUS = Struct("!cQQQQB")
_TIMEOUT_MS = 60_000
"""The server ends the session after this time without a status."""
_DATA_FROM = _XLOG_DATA.size


class ReplicationStream:
    """The changes of a slot, from a position on.

    Methods raise PostgresError. Only the constructor waits for the server.

    `server_lsn`: the last position of the server's log that it reported. `wants_reply`: whether it requested a status.
    """

    def __init__(self, database: Database, application_name: str, slot: str, publication: str, lsn: int) -> None:
        self._session = Session(database, application_name, replication="database")
        self._package = self._session.package
        self._libpq = self._session.connection.pgconn
        self.server_lsn = lsn
        self.wants_reply = False
        # The value is a list, in which the name is quoted.
        names = self._session.literal('"' + publication.replace('"', '""') + '"')
        start = f"START_REPLICATION SLOT {slot} LOGICAL {text_of(lsn)} (proto_version '1', publication_names {names})"
        try:
            self._session.execute(f"SET wal_sender_timeout = {_TIMEOUT_MS}")
            result = self._libpq.exec_(start.encode())
            if result.status != self._package.pq.ExecStatus.COPY_BOTH:
                raise self._session.failed(self._package.errors.error_from_result(result))
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the file descriptor of the socket. It is readable if there may be a message to `receive`."""
        number: int = self._libpq.socket
        return number

    def fetch(self) -> None:
        """Read the data that has arrived at the socket."""
        try:
            self._libpq.consume_input()
        except self._package.Error as error:
            raise self._session.failed(error) from None

    def receive(self) -> bytes | None:
        """Return the next message of the output plugin, b"" for one without data, or None if there is none yet."""
        try:
            size, data = self._libpq.get_copy_data(1)
        except self._package.Error as error:
            raise self._session.failed(error) from None
        if size == 0:
            return None
        if size < 0:
            raise self._ended()
        if data[:1] == b"w":
            return bytes(data[_DATA_FROM:])
        _, lsn, _, wants_reply = _KEEPALIVE.unpack(data)
        self.server_lsn = max(self.server_lsn, lsn)
        self.wants_reply = self.wants_reply or bool(wants_reply)
        return b""

    def send_status(self, received: int, confirmed: int) -> None:
        """Report the received position, and the confirmed one, before which the server may delete changes."""
        self.wants_reply = False
        now_us = (now_ms() - milliseconds(0)) * 1000
        try:
            self._libpq.put_copy_data(_STATUS.pack(b"r", received, confirmed, confirmed, now_us, 0))
            self._libpq.flush()
        except self._package.Error as error:
            raise self._session.failed(error) from None

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def _ended(self) -> Exception:
        result = self._libpq.get_result()
        if result is not None and result.status == self._package.pq.ExecStatus.FATAL_ERROR:
            return self._session.failed(self._package.errors.error_from_result(result))
        return self._session.failed(self._package.OperationalError("the server ended the replication"))


def text_of(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
