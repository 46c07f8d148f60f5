"""Sessions in which texts of values have one form: in rows, in changes, and in keys of the state."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.postgres.connection import Database, psycopg, translated, unreadable_value

_SETTINGS = {
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
    # A reader that the job slows down is not a client that forgot its transaction.
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
_FIRST_OWN_OID = 16_384
"""Types with smaller OIDs are PostgreSQL's own."""
_LOST_AFTER_MS = "60000"
_CANCEL_S = 1.0


class Session:
    """A connection in autocommit. Methods raise PostgresError."""

    def __init__(self, database: Database, application_name: str, **settings: str) -> None:
        """`settings`: of the connection, with libpq's names."""
        self._database = database
        self.package = psycopg()
        # Detects a cut connection, because sent data is not acknowledged.
        self.connection = database.connect(application_name, tcp_user_timeout=_LOST_AFTER_MS, **settings)
        values = ", ".join(f"({self.literal(name)}, {self.literal(value)})" for name, value in _SETTINGS.items())
        # Set those that this version of the server has.
        self.execute(
            f"SELECT set_config(s.name, v.value, false) FROM (VALUES {values}) AS v (name, value) "
            "JOIN pg_settings s ON lower(s.name) = v.name"
        )

    def execute(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, or []. Raise SourceError for an unreadable value."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []
        except self.package.DataError as error:
            if (place := unreadable_value(cursor)) is None:
                raise self.failed(error) from None
            raise SourceError(f"{place}: {error}") from None
        except self.package.Error as error:
            raise self.failed(error) from None

    def failed(self, error: Any) -> Exception:
        """Return the error that replaces an error of psycopg."""
        return translated(error, f"PostgreSQL at {self._database}: {self._database.hide(str(error).strip())}")

    def literal(self, text: str) -> str:
        """Return a text as a SQL literal, for statements without parameters."""
        literal: str = self.package.sql.Literal(text).as_string(self.connection)
        return literal

    def loader(self, type_oids: Sequence[int]) -> Callable[[Sequence[bytes | None]], Sequence[Any]]:
        """Return a converter from texts of these types to Python's values.

        It raises DataError, for example after 9999.
        """
        transformer = self.package.adapt.Transformer(self.connection)
        transformer.set_loader_types(self._base_types(type_oids), self.package.pq.Format.TEXT)
        load: Callable[[Sequence[bytes | None]], Sequence[Any]] = transformer.load_sequence
        return load

    def cancel(self) -> None:
        """Cancel the running statement. Called by another thread."""
        with contextlib.suppress(self.package.Error):
            self.connection.cancel_safe(timeout=_CANCEL_S)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _base_types(self, type_oids: Sequence[int]) -> list[int]:
        """Replace domains by their base types, as in results of queries."""
        if max(type_oids, default=0) < _FIRST_OWN_OID:
            return list(type_oids)
        bases = dict(self.execute("SELECT oid::bigint, typbasetype::bigint FROM pg_type WHERE typtype = 'd'"))

        def base_of(type_oid: int) -> int:
            return base_of(bases[type_oid]) if type_oid in bases else type_oid

        return [base_of(type_oid) for type_oid in type_oids]
