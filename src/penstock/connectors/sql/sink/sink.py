"""SqlSink and its builder."""

from __future__ import annotations

from typing import Any

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.execution import Execution
from penstock.connectors.sql.database import SqlDatabase
from penstock.connectors.sql.sink.statements import statements_for
from penstock.connectors.sql.sink.writer import SqlWriter


class SqlSink(Sink[Any]):
    """Writes rows to a table of any database that SQLAlchemy speaks to. Made by `SqlSink.builder()`.

    At least once, in batches: after a failure some rows are written again, which changes nothing if they are updated by
    their key.
    """

    def __init__(
        self,
        database: SqlDatabase,
        table: str,
        columns: tuple[str, ...],
        key_columns: tuple[str, ...],
        execution: Execution,
    ) -> None:
        self._database = database
        self._table = table
        self._columns = columns
        self._key_columns = key_columns
        self._execution = execution

    @staticmethod
    def builder() -> SqlSinkBuilder:
        """Start to build one."""
        return SqlSinkBuilder()

    def describe(self) -> str:
        return f"{self._table}, {self._database}"

    def validate(self) -> None:
        """Raises SqlError if the database is away or has no such table, ConfigurationError if the columns don't fit."""
        dialect = self._database.engine().dialect.name
        statements_for(self._database.table(self._table), dialect, self._columns, self._key_columns)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return SqlWriter(self._database, self._table, self._columns, self._key_columns, self._execution, context)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        """Create one: a checkpoint waits for all rows before it, so there is no state."""
        return self.create_writer(context)


class SqlSinkBuilder:
    """Settings of a SqlSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._url: str | None = None
        self._user_name: str | None = None
        self._password: str | None = None
        self._table: str | None = None
        self._columns: tuple[str, ...] = ()
        self._key_columns: tuple[str, ...] = ()
        self._execution = Execution()

    def set_url(self, url: str) -> SqlSinkBuilder:
        """Set the database, as SQLAlchemy names it: `dialect+driver://host:port/database`."""
        self._url = url
        return self

    def set_user_name(self, user_name: str) -> SqlSinkBuilder:
        """Set who connects. Default: what the url says."""
        self._user_name = user_name
        return self

    def set_password(self, password: str) -> SqlSinkBuilder:
        """Set the password. Default: what the url says."""
        self._password = password
        return self

    def set_table(self, table: str) -> SqlSinkBuilder:
        """Set the table, with a schema and a dot before it if need be."""
        self._table = table
        return self

    def set_columns(self, *columns: str) -> SqlSinkBuilder:
        """Set the columns that are written: fields of the records by name, or all fields by position."""
        self._columns = columns
        return self

    def set_key_columns(self, *key_columns: str) -> SqlSinkBuilder:
        """Update the row with the same values of these columns, if there is one. They need a unique index."""
        self._key_columns = key_columns
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> SqlSinkBuilder:
        """Accept AT_LEAST_ONCE, which it is. Raises ValueError for another."""
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ValueError(
                "a SqlSink is AT_LEAST_ONCE: with set_key_columns a row that is written again replaces itself. "
                "EXACTLY_ONCE is PostgresSink, by prepared transactions or its write-ahead log, or a WriteAheadSink of "
                "one's own, which writes rows and a mark in one transaction: docs/how-to/own-sink.md"
            )
        if delivery_guarantee is not DeliveryGuarantee.AT_LEAST_ONCE:
            raise ValueError(f"a SqlSink is AT_LEAST_ONCE, got {delivery_guarantee!r}")
        return self

    def set_batch_size(self, batch_size: int) -> SqlSinkBuilder:
        """Set how many rows are written at once. Default: 5000."""
        self._execution = self._execution.with_batch_size(batch_size)
        return self

    def set_batch_interval_ms(self, batch_interval_ms: int) -> SqlSinkBuilder:
        """Set how long a row waits for others. Default: 0, until a batch is full or a checkpoint."""
        self._execution = self._execution.with_batch_interval_ms(batch_interval_ms)
        return self

    def set_max_retries(self, max_retries: int) -> SqlSinkBuilder:
        """Set how often a batch is tried again when the database was away or locked. Default: 3."""
        self._execution = self._execution.with_max_retries(max_retries)
        return self

    def build(self) -> SqlSink:
        """Create the sink. Raises ValueError if something necessary is missing."""
        if self._url is None:
            raise ValueError("a SqlSink needs a database: set_url('sqlite:////data/flights.db')")
        if self._table is None or not self._columns:
            raise ValueError("a SqlSink needs a table and its columns: set_table, set_columns")
        if missing := [name for name in self._key_columns if name not in self._columns]:
            raise ValueError(f"key columns are among the columns, got {missing} beside {list(self._columns)}")
        database = SqlDatabase(self._url, self._user_name, self._password)
        return SqlSink(database, self._table, self._columns, self._key_columns, self._execution)
