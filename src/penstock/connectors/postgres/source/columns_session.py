"""Read ranges of a table as columns by ADBC, where it has the values of psycopg, which reads what ADBC does not."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Generator
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.common.doors.extras import ADBC
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.table_source import Fetched
from penstock.connectors.postgres.connection import PostgresError
from penstock.connectors.postgres.source.adbc import AdbcQuery, is_installed
from penstock.connectors.postgres.source.dialect import SESSION, PostgresTable, PostgresTableSession
from penstock.connectors.postgres.source.exact_arrays import ExactArrays

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

_log = logging.getLogger(__name__)


def session_of(table: PostgresTable, fetch_size: int) -> PostgresTableSession:
    """Return a session that reads batches of columns, with ADBC if it is installed."""
    if is_installed() and table.as_columns is not None:
        return PostgresColumnsSession(table, table.as_columns, fetch_size)
    _advise(table.name)
    return PostgresTableSession(table, fetch_size)


@lru_cache(maxsize=64)
def _advise(table: str) -> None:
    """Log the advice once for a table: each of its ranges has a session."""
    _log.info("%s is read as columns by psycopg. ADBC may read it faster: pip install '%s'", table, ADBC)


class PostgresColumnsSession(PostgresTableSession):
    """Read ranges of a table, in the order and with the positions of records.

    Whatever ADBC fails to read, psycopg reads from the same position, or refuses: so errors are those of psycopg.
    """

    def __init__(self, table: PostgresTable, columns: RecordColumns, fetch_size: int) -> None:
        super().__init__(table, fetch_size)
        self._columns = columns
        self._query_now: AdbcQuery | None = None
        self._is_interrupted = False
        self._has_failed = False
        """Whether ADBC has failed on this connection."""

    def read(self, part: KeyRange) -> Generator[Fetched, None, None]:
        if not self._has_failed:
            with self._errors():
                found = self._found(part)
            if found is not None:
                part, is_read = yield from self._by_adbc(part, *found)
                if is_read:
                    return
        yield from super().read(part)

    def interrupt(self) -> None:
        self._is_interrupted = True
        super().interrupt()
        query = self._query_now
        if query is not None:
            # It may wait for the server, unlike the reader.
            threading.Thread(target=query.cancel, name="penstock-cancel", daemon=True).start()

    def close(self, batches: Generator[Fetched, None, None] | None) -> None:
        super().close(batches)
        # Another connection is another chance.
        self._has_failed = False

    def _found(self, part: KeyRange) -> tuple[str, ExactArrays] | None:
        """Return the query of a range as ADBC takes it, and its columns; None if psycopg must read them."""
        self._connect()
        assert self._order is not None
        sql, parameters = self._table.rows(part, self._order)
        info = self._connection.info
        # Arrow has texts in UTF-8, and the server converts none of a database without an encoding.
        if info.encoding != "utf-8" or info.parameter_status("server_encoding") == "SQL_ASCII":
            return None
        described = self._connection.execute(f"{sql} LIMIT 0", parameters).description
        arrays = ExactArrays.of([column.type_code for column in described], self._columns)
        if arrays is None:
            return None
        # COPY takes no parameters.
        text = self._package.ClientCursor(self._connection).mogrify(sql, parameters)
        return text, arrays

    def _by_adbc(
        self, part: KeyRange, sql: str, arrays: ExactArrays
    ) -> Generator[Fetched, None, tuple[KeyRange, bool]]:
        """Yield the rows from a position on. Return the position behind the last ones, and whether they are all."""
        connection, self._connection = self._connection, None
        connection.close()
        query = self._query_now = AdbcQuery(self._table.database, SESSION, sql)
        try:
            with contextlib.closing(query.batches()) as batches:
                for found in batches:
                    if found.num_rows:
                        fetched = Fetched(arrays.batch(found), arrays.keys(found))
                        part = fetched.behind(part)
                        yield fetched
            return part, True
        # The driver's errors have no common class: it raises those of Python and of Arrow, too.
        except Exception as error:
            self._give_up(error)
            return part, False
        finally:
            self._query_now = None

    def _give_up(self, error: Exception) -> None:
        text = self._table.database.hide(str(error).strip())
        if self._is_interrupted:
            raise PostgresError(f"the reading of {self._table.name} was interrupted: {text}") from None
        self._has_failed = True
        _log.warning("%s is read by psycopg from here on, because ADBC has failed: %s", self._table.name, text)
