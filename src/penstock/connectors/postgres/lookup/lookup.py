"""PostgresLookup: an asynchronous function that joins records with rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from penstock.common.types import Row
from penstock.connectors.base.keyed_lookup import KeyedLookup
from penstock.connectors.base.options import checked_at_least
from penstock.connectors.postgres.connection import (
    Database,
    PostgresError,
    checked_url,
    psycopg,
    quoted,
    quoted_table,
    translated,
)


class PostgresLookup(KeyedLookup):
    """Joins each record with the rows of a table that have its key: `(record, row)`, or `(record, None)` without any.

    Keys that are asked for while a query runs go by the next one, all together, so a subtask has one connection. Made
    by `PostgresLookup.builder()`.
    """

    def __init__(
        self,
        database: Database,
        sql: str,
        key_selector: Callable[[Any], Hashable],
        cache: tuple[int, float],
        max_retries: int,
    ) -> None:
        super().__init__(key_selector, cache, max_retries)
        self._database = database
        self._sql = sql

    @staticmethod
    def builder() -> PostgresLookupBuilder:
        """Start to build one."""
        return PostgresLookupBuilder()

    def open(self, runtime_context: Any) -> None:
        """Begin without a connection: the first query makes it, in the event loop."""
        super().open(runtime_context)
        self._connection: Any = None

    def close(self) -> None:
        """End the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # The event loop has ended.
            connection.pgconn.finish()

    async def query(self, keys: list[Hashable]) -> dict[Hashable, list[Any]]:
        """The rows of these keys, by one statement."""
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
                        f"PostgreSQL has found the key {key!r} for one that was written otherwise: the key column must "
                        "have values that are equal to those of the records, text and not char(n) for example"
                    )
                found[key].append(named(*values))
            return found
        except package.Error as error:
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()
            text = self._database.hide(str(error).strip())
            raise translated(error, f"PostgreSQL at {self._database}: {text}\nin {self._sql}") from None


class PostgresLookupBuilder:
    """Settings of a PostgresLookup. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._table: str | None = None
        self._key_column: str | None = None
        self._columns: Sequence[str] = ()
        self._key_selector: Callable[[Any], Hashable] | None = None
        self._cache = (0, 0.0)
        self._max_retries = 3

    def set_url(self, url: str) -> PostgresLookupBuilder:
        """Set the database: `postgresql://host:5432/database`, with libpq's parameters after a `?`."""
        self._url = checked_url(url)
        return self

    def set_user_name(self, user_name: str) -> PostgresLookupBuilder:
        """Set who connects. Default: as libpq has it, by url, environment (PGUSER) or the user of the process."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> PostgresLookupBuilder:
        """Set the password. Default: as libpq has it, by url, environment (PGPASSWORD) or password file."""
        self._password = password
        return self

    def set_table(self, table: str) -> PostgresLookupBuilder:
        """Set the table or view, with a schema and a dot before it if need be."""
        self._table = table
        return self

    def set_key_column(self, key_column: str) -> PostgresLookupBuilder:
        """Set the column that is compared with the key of a record. It needs an index."""
        self._key_column = key_column
        return self

    def set_columns(self, *columns: str) -> PostgresLookupBuilder:
        """Set which columns a row has. Default: all."""
        self._columns = columns
        return self

    def set_key_selector(self, key_selector: Callable[[Any], Hashable]) -> PostgresLookupBuilder:
        """Set the function that gives the key of a record; for None nothing is looked up."""
        self._key_selector = key_selector
        return self

    def set_cache(self, max_rows: int, expire_after_write_ms: int) -> PostgresLookupBuilder:
        """Keep the rows of so many keys for so long; also that there are none. Default: no cache.

        Source: Flink docs, "JDBC", `lookup.partial-cache.max-rows` and `lookup.partial-cache.expire-after-write`.
        """
        max_rows = checked_at_least("max_rows", max_rows, 1)
        self._cache = max_rows, checked_at_least("expire_after_write_ms", expire_after_write_ms, 1) / 1000
        return self

    def set_max_retries(self, max_retries: int) -> PostgresLookupBuilder:
        """Set how often a server that is away is asked again before the job fails. Default: 3."""
        self._max_retries = checked_at_least("max_retries", max_retries, 0)
        return self

    def build(self) -> PostgresLookup:
        """Create the function. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a PostgresLookup needs a database: set_url('postgresql://host:5432/database')")
        if self._table is None or self._key_column is None or self._key_selector is None:
            raise ValueError("a PostgresLookup needs set_table, set_key_column and set_key_selector")
        key = f"t.{quoted(self._key_column)}"
        wanted = ", ".join(f"t.{quoted(name)}" for name in self._columns) or "t.*"
        sql = f"SELECT {key}, {wanted} FROM {quoted_table(self._table)} AS t WHERE {key} = ANY(%s)"
        database = Database(self._url, self._user_name, self._password)
        return PostgresLookup(database, sql, self._key_selector, self._cache, self._max_retries)
