"""Read a query by ADBC's driver for PostgreSQL: `COPY (…) TO STDOUT` in binary form, decoded outside of Python."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import pyarrow

from penstock.connectors.postgres.connection import Database

_PACKAGE = "adbc_driver_postgresql"
_BATCH = "adbc.postgresql.batch_size_hint_bytes"
_BATCH_BYTES = 1 << 20
"""The driver's own 16 MiB would delay the first rows, and three batches of a fetcher would be much memory."""
_connecting = threading.Lock()
"""The driver counts the connections of a database, and leaves it to its callers that one at a time is made."""


def is_installed() -> bool:
    """Return whether the driver is there: the extra `adbc`."""
    return find_spec(_PACKAGE) is not None


class AdbcQuery:
    """A query that is read at most once, over a connection of its own."""

    def __init__(self, database: Database, application_name: str, sql: str) -> None:
        self._database = database
        self._application_name = application_name
        self._sql = sql
        self._lock = threading.Lock()
        """Held while the query is canceled, and while its statement is closed: the driver would use freed memory."""
        self._statement: Any = None
        self._is_canceled = False

    def batches(self) -> Generator[pyarrow.RecordBatch, None, None]:
        """Connect, and yield the rows. Raises the driver's Error, OSError, or ArrowException."""
        import adbc_driver_manager

        with contextlib.ExitStack() as opened:
            with _connecting:
                database = _described(self._database.secret_conninfo(self._application_name))
                connection = opened.enter_context(adbc_driver_manager.AdbcConnection(database))
            self._statement = adbc_driver_manager.AdbcStatement(connection)
            opened.callback(self._close)
            self._statement.set_options(**{_BATCH: str(_BATCH_BYTES)})
            self._statement.set_sql_query(self._sql)
            if not self._is_canceled:
                stream, _ = self._statement.execute_query()
                yield from opened.enter_context(pyarrow.RecordBatchReader.from_stream(stream))
        if self._is_canceled:
            raise OSError("the query was canceled")

    def cancel(self) -> None:
        """Cancel the query, now or when it begins. Called by any thread; it may wait for a silent server."""
        self._is_canceled = True
        with self._lock:
            if self._statement is not None:
                # Its thread may just not have begun, or have ended.
                with contextlib.suppress(Exception):
                    self._statement.cancel()

    def _close(self) -> None:
        with self._lock:
            statement, self._statement = self._statement, None
            statement.close()


@lru_cache(maxsize=8)
def _described(conninfo: str) -> Any:
    """Return the driver's knowledge of a database's types, which takes it 25 ms to read, and no connection."""
    import adbc_driver_postgresql

    return adbc_driver_postgresql.connect(conninfo)
