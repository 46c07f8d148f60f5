"""A session of a sink, which writes rows in batches, and names a refused row."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from penstock.connectors.postgres.connection import (
    Database,
    PostgresError,
    TransientPostgresError,
    psycopg,
    translated,
)
from penstock.connectors.postgres.sink.array_parameters import EncodedArray, array_dumper

_ADVICE = {
    "55P03": "Another session has locked the row or the table: pg_locks and pg_stat_activity show it, for example an "
    "ALTER TABLE. With EXACTLY_ONCE it may be a prepared transaction of this sink, which locks its rows "
    "until its checkpoint is complete: rows of one key must come from one subtask (key_by the key), and checkpoints "
    "must not overlap",
    "53400": "Increase max_prepared_transactions of the server: each subtask of each sink needs two",
}
"""By SQLSTATE."""


class Session:
    """A connection, and the statement that writes rows. Methods raise PostgresError.

    They raise TransientPostgresError if another try may succeed in another session.
    """

    def __init__(self, database: Database, name: str, sql: str = "", **settings: str) -> None:
        """`settings`: of the connection, with libpq's names."""
        self._database = database
        self._sql = sql
        self._package = psycopg()
        self._connection = database.connect(name, **settings)
        # psycopg has no default conversion of dicts. Here only JSON columns accept dicts.
        self._connection.adapters.register_dumper(dict, self._package.types.json.JsonDumper)
        self._connection.adapters.register_dumper(EncodedArray, array_dumper())
        self._cursor = self._connection.cursor()

    @property
    def is_utf8(self) -> bool:
        """Whether texts are sent in UTF-8, as those of Arrow are."""
        return bool(self._connection.info.encoding == "utf-8")

    def write(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write all of the rows or none. The error names a refused row.

        The rows are sent in a pipeline: the server answers once for many rows. Within a transaction there is a
        savepoint.
        """
        try:
            with self._connection.transaction():
                self._cursor.executemany(self._sql, rows)
        except self._package.Error as error:
            failed = self._failed(error)
            if isinstance(failed, TransientPostgresError):
                raise failed from None
            row, reason = self._first_refused(rows) or (None, error)
            raise self._failed(reason, "a row of a batch" if row is None else f"the row {tuple(row)!r}") from None

    def write_arrays(self, sql: str, arrays: Sequence[EncodedArray]) -> None:
        """Write the rows of these columns, all or none. Within a transaction there is a savepoint."""
        try:
            with self._connection.transaction():
                self._cursor.execute(sql, arrays)
        except self._package.Error as error:
            raise self._failed(error) from None

    def execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, or []."""
        try:
            cursor = self._connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []
        except self._package.Error as error:
            raise self._failed(error) from None

    def end_prepared(self, name: str, *, commit: bool) -> bool:
        """Commit or roll back a prepared transaction. Return False if it does not exist."""
        action = "COMMIT" if commit else "ROLLBACK"
        try:
            self._connection.execute(f"{action} PREPARED {self.quoted(name)}")
        except self._package.errors.UndefinedObject:
            return False
        except self._package.errors.ObjectNotInPrerequisiteState as error:
            # Another process is ending it.
            raise TransientPostgresError(str(self._failed(error))) from None
        except self._package.Error as error:
            raise self._failed(error) from None
        return True

    def quoted(self, text: str) -> str:
        """Return a text as a SQL literal, for statements without parameters."""
        literal: str = self._package.sql.Literal(text).as_string(self._connection)
        return literal

    def close(self) -> None:
        """Close the connection. The server rolls back an open transaction."""
        self._connection.close()

    def _failed(self, error: Any, refused: str | None = None) -> PostgresError:
        text = self._database.hide(str(error).strip())
        if refused is not None:
            return PostgresError(f"PostgreSQL at {self._database} refused {refused}: {text}\nin {self._sql}")
        advice = _ADVICE.get(error.sqlstate or "")
        return translated(error, f"PostgreSQL at {self._database}: {text}" + (f"\n{advice}" if advice else ""))

    def _first_refused(self, rows: Sequence[Sequence[Any]]) -> tuple[Sequence[Any], Exception] | None:
        """Try the rows one by one, in a transaction that is rolled back."""
        # An error of the server itself is not caused by a row: then no row is named.
        with contextlib.suppress(self._package.Error), self._connection.transaction(force_rollback=True):
            for row in rows:
                try:
                    self._cursor.execute(self._sql, row)
                except self._package.Error as error:
                    return row, error
        return None
