"""Writes a changelog into a table of PostgreSQL: the newest row of each key. Source: Flink's JDBC connector."""

from __future__ import annotations

from typing import Any

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import Database, psycopg, quoted, quoted_table, translated
from penstock.connectors.postgres.sink.statement import insert_into
from penstock.table.operators.changelog import DELETE, UPDATE_BEFORE
from penstock.table.operators.table_columns import KIND

_SESSION = "penstock sink"
_REMOVED = (UPDATE_BEFORE, DELETE)
"""Behind UPDATE_BEFORE the new row follows, unless the query has filtered it."""


class JdbcUpserts(Sink[Any]):
    """Inserts, updates and deletes rows by their key, at least once: a change that is written twice has one effect.

    Changes wait until there are `batch_size`, or for `interval_ms` (0: until the next checkpoint). Of those with one
    key only the last is written.
    """

    def __init__(
        self,
        database: Database,
        table: str,
        *,
        columns: tuple[str, ...],
        keys: tuple[str, ...],
        batch_size: int,
        interval_ms: int,
        max_retries: int,
    ) -> None:
        self.database = database
        self.table = table
        self.columns = columns
        self.keys = keys
        self.batch_size = batch_size
        self.interval_ms = interval_ms
        self.max_retries = max_retries

    def describe(self) -> str:
        return f"{self.table} at {self.database}"

    def validate(self) -> None:
        """Raise PostgresError if the server refuses the statements."""
        writer = _Writer(self, None)
        try:
            writer.check()
        finally:
            writer.close()

    def takes_columns(self, columns: RecordColumns) -> bool:
        return True

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return _Writer(self, context)

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        return _Writer(self, context)


class _Writer(SinkWriter[Any]):
    def __init__(self, sink: JdbcUpserts, context: SinkContext | None) -> None:
        self._sink = sink
        self._context = context
        self._upsert = insert_into(sink.table, sink.columns, sink.keys)
        same = " AND ".join(f"{quoted(name)} = %s" for name in sink.keys)
        self._delete = f"DELETE FROM {quoted_table(sink.table)} WHERE {same}"
        self._key_places = [sink.columns.index(name) for name in sink.keys]
        self._changes: dict[tuple[Any, ...], tuple[Any, ...] | None] = {}
        """The newest row of each key; None: it is deleted."""
        self._since_ms: int | None = None
        self._connection: Any = None

    def check(self) -> None:
        """Let the server parse the statement."""
        self._run(lambda connection: connection.execute(f"PREPARE penstock_check AS {self._upsert.numbered()}"))

    def write(self, value: Any, timestamp: int | None) -> None:
        raise NotImplementedError("a table has columns only")

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        kinds = batch.column(KIND).to_pylist()
        rows = zip(*(batch.column(name).to_pylist() for name in self._sink.columns), strict=True)
        for kind, row in zip(kinds, rows, strict=True):
            key = tuple(row[place] for place in self._key_places)
            # Behind the others of the batch: of one key the last one counts.
            self._changes.pop(key, None)
            self._changes[key] = None if kind in _REMOVED else row
            if len(self._changes) >= self._sink.batch_size:
                self._flush()
        if self._changes and self._since_ms is None and self._context is not None:
            self._since_ms = self._context.now_ms()

    def wake_at_ms(self) -> int | None:
        if self._since_ms is None or not self._sink.interval_ms:
            return None
        return self._since_ms + self._sink.interval_ms

    def on_wake(self, now_ms: int) -> None:
        self._flush()

    def flush(self, end_of_input: bool) -> None:
        self._flush()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _flush(self) -> None:
        self._since_ms = None
        if not self._changes:
            return
        rows = [row for row in self._changes.values() if row is not None]
        gone = [key for key, row in self._changes.items() if row is None]

        def write(connection: Any) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                if gone:
                    cursor.executemany(self._delete, gone)
                if rows:
                    cursor.executemany(self._upsert.sql, rows)

        retried(lambda: self._run(write), self._sink.max_retries)
        self._changes = {}

    def _run(self, call: Any) -> None:
        database = self._sink.database
        try:
            if self._connection is None or self._connection.closed:
                self._connection = database.connect(_SESSION)
            call(self._connection)
        except psycopg().Error as error:
            if self._connection is not None and self._connection.broken:
                self._connection.close()
            text = database.hide(str(error).strip())
            raise translated(error, f"cannot write to {self._sink.table} at {database}: {text}") from None
