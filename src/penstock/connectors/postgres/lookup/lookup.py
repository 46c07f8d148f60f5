"""PostgresLookup: an asynchronous function that joins records with rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from penstock.common.types import Row
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.keyed_lookup import KeyedLookup
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.postgres.connection import (
    Database,
    PostgresError,
    checked_url,
    psycopg,
    quoted,
    quoted_table,
    translated,
)


class PostgresLookup(KeyedLookup, HasFormerBuilder):
    """Join each record with the rows of a table that have its key: `(record, row)`, or `(record, None)` without rows.

    Keys that arrive during a query wait for the next query, which includes all of them, so a subtask needs one
    connection.
    """

    def __init__(
        self,
        *,
        url: str,
        table: str,
        key_column: str,
        key_selector: Callable[[Any], Hashable],
        columns: Sequence[str] | None = None,
        user_name: str | None = None,
        password: str | None = None,
        cache_max_rows: int | None = None,
        cache_expire_after_write_ms: int | None = None,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the database, `postgresql://host:5432/database`, with libpq's parameters after a `?`.
        * `table`: the table or view, after a schema and a dot if necessary.
        * `key_column`: the column that is compared with the key of a record. It needs an index.
        * `key_selector`: the function that returns the key of a record, or None to skip the lookup.
        * `columns`: the columns of a row. Default: all.
        * `user_name`, `password`: the user who connects. Default: from url, environment and password file.
        * `cache_max_rows`, `cache_expire_after_write_ms`: cache the rows of this many keys for this time, also of keys
          without rows. Default: no cache. Source: Flink docs, "JDBC", `lookup.partial-cache.max-rows` and
          `lookup.partial-cache.expire-after-write`.
        * `max_retries`: how often a query is repeated while the server is unavailable before the job fails.
        """
        super().__init__(
            key_selector,
            max_rows=cache_max_rows,
            expire_after_write_ms=cache_expire_after_write_ms,
            max_retries=max_retries,
        )
        self._database = Database(checked_url(url), user_name, password)
        key = f"t.{quoted(checked_text('key_column', key_column))}"
        names = () if columns is None else checked_names("columns", columns)
        wanted = ", ".join(f"t.{quoted(name)}" for name in names) or "t.*"
        self._sql = (
            f"SELECT {key}, {wanted} FROM {quoted_table(checked_text('table', table))} AS t WHERE {key} = ANY(%s)"
        )

    def open(self, runtime_context: Any) -> None:
        """Prepare the cache. The first query connects, in the event loop."""
        super().open(runtime_context)
        self._connection: Any = None

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # The event loop has ended, so the connection cannot be closed by it.
            connection.pgconn.finish()

    async def query(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        """Return the rows of these keys, by one statement."""
        package = psycopg()
        try:
            if self._connection is None:
                self._connection = await self._database.connect_async("penstock lookup")
            cursor = await self._connection.execute(self._sql, (keys,))
            named = Row(*(column.name for column in cursor.description[1:]))
            found: dict[Hashable, list[Any]] = {key: [] for key in keys}
            for key, *values in await cursor.fetchall():
                if key not in found:
                    raise PostgresError(
                        f"PostgreSQL returned the key {key!r}, which was not requested: the key column must "
                        "have values that equal those of the records, for example text instead of char(n)"
                    )
                found[key].append(named(*values))
            return found
        except package.Error as error:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()
            text = self._database.hide(str(error).strip())
            raise translated(error, f"PostgreSQL at {self._database}: {text}\nin {self._sql}") from None
