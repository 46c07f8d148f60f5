"""A sink to a table in any database that SQLAlchemy supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.execution import Execution
from penstock.connectors.base.former_builder import HasFormerBuilder
from penstock.connectors.base.options import checked_names, checked_text
from penstock.connectors.sql.database import SqlDatabase
from penstock.connectors.sql.sink.statements import statements_for
from penstock.connectors.sql.sink.writer import SqlWriter


class SqlSink(Sink[Any], HasFormerBuilder):
    """Write rows to a table of any database that SQLAlchemy supports.

    At least once, in batches: after a failure some rows are written again, which has no effect if they are updated by
    their key.
    """

    def __init__(
        self,
        *,
        url: str,
        table: str,
        columns: Sequence[str],
        key_columns: Sequence[str] = (),
        user_name: str | None = None,
        password: str | None = None,
        delivery_guarantee: DeliveryGuarantee = DeliveryGuarantee.AT_LEAST_ONCE,
        batch_size: int = 5000,
        batch_interval_ms: int = 0,
        max_retries: int = 3,
    ) -> None:
        """Raise TypeError or ValueError for a wrong argument.

        * `url`: the database, in SQLAlchemy's form: `dialect+driver://host:port/database`.
        * `table`: the table, after a schema and a dot if necessary.
        * `columns`: the columns that are written: fields of the records by name, or all fields by position.
        * `key_columns`: update the row with the same values of these columns, if there is one. They need a unique
          index. Default: insert every row.
        * `user_name`, `password`: the user who connects. Default: from the url.
        * `delivery_guarantee`: AT_LEAST_ONCE; others are refused.
        * `batch_size`: rows that are written together.
        * `batch_interval_ms`: how long a row waits for others. 0: until a batch is full, or for the next checkpoint.
        * `max_retries`: how often a batch is retried while the database is unavailable or locked.
        """
        _check_guarantee(delivery_guarantee)
        self._database = SqlDatabase(checked_text("url", url), user_name, password)
        self._table = checked_text("table", table)
        self._columns = checked_names("columns", columns)
        self._key_columns = checked_names("key_columns", key_columns) if key_columns else ()
        if missing := [name for name in self._key_columns if name not in self._columns]:
            raise ValueError(f"key columns must be among the columns {list(self._columns)}, got {missing}")
        self._execution = Execution.checked(batch_size, batch_interval_ms, max_retries)

    def describe(self) -> str:
        return f"{self._table}, {self._database}"

    def validate(self) -> None:
        """Raise SqlError if the database is unavailable or lacks the table, ConfigurationError for wrong columns."""
        dialect = self._database.engine().dialect.name
        statements_for(self._database.table(self._table), dialect, self._columns, self._key_columns)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return SqlWriter(
            database=self._database,
            table=self._table,
            columns=self._columns,
            key_columns=self._key_columns,
            execution=self._execution,
            context=context,
        )

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        """Create a writer: there is no state, because a checkpoint waits for all rows before it."""
        return self.create_writer(context)


def _check_guarantee(delivery_guarantee: DeliveryGuarantee) -> None:
    if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        raise ValueError(
            "the guarantee of a SqlSink must be AT_LEAST_ONCE, got EXACTLY_ONCE: with key_columns a row that is "
            "written again replaces itself. For EXACTLY_ONCE use PostgresSink, with prepared transactions or its "
            "write-ahead log, or a WriteAheadSink of your own, which writes rows and a mark in one "
            "transaction: docs/how-to/own-sink.md"
        )
    if delivery_guarantee is not DeliveryGuarantee.AT_LEAST_ONCE:
        raise ValueError(f"the guarantee of a SqlSink must be AT_LEAST_ONCE, got {delivery_guarantee!r}")
