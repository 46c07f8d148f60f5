"""Write rows in batches, at least once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from penstock.api.sink import SinkContext
from penstock.common.types.record_fields import fields_of
from penstock.connectors.base.batch_writer import BatchWriter
from penstock.connectors.base.execution import Execution
from penstock.connectors.sql.database import VALUE_ERRORS, SqlDatabase, SqlError, TransientSqlError, sqlalchemy
from penstock.connectors.sql.sink.column_values import Convert, conversions_of, keep_numbers, without_numpy
from penstock.connectors.sql.sink.statements import RowStatements, Values, statements_for


class SqlWriter(BatchWriter):
    """Write each batch in one transaction. After a lost connection, write it again over another."""

    def __init__(
        self,
        database: SqlDatabase,
        table: str,
        columns: tuple[str, ...],
        key_columns: tuple[str, ...],
        execution: Execution,
        context: SinkContext,
    ) -> None:
        super().__init__(execution, context)
        self._database = database
        self._table = table
        self._columns = columns
        self._key_columns = key_columns
        self._statements: RowStatements | None = None
        self._conversions: dict[str, Convert] = {}
        self._types: dict[str, Any] = {}
        self._connection: Any = None

    def encode(self, values: list[Any]) -> list[Any]:
        columns = self._columns
        return [dict(zip(columns, fields_of(value, columns), strict=True)) for value in values]

    def send(self, batch: list[Any]) -> None:
        package = sqlalchemy()
        try:
            self._connect()
            with self._connection.begin():
                self._write(batch)
        except (package.exc.SQLAlchemyError, TransientSqlError, *VALUE_ERRORS) as error:
            failed = error if isinstance(error, SqlError) else self._database.translated(error)
            if isinstance(failed, TransientSqlError):
                self.close()
                raise failed from None
            row, reason = self._first_refused(batch) or (None, error)
            refused = "a row of a batch" if row is None else f"the row {row!r}"
            place = "" if row is None else self._place_in(row)
            raise self._database.translated(reason, f" refused {refused} for {self._table}{place}") from None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlalchemy().exc.SQLAlchemyError):
                connection.close()

    def _connect(self) -> None:
        if self._connection is not None:
            return
        engine = self._database.engine()
        if self._statements is None:
            table = self._database.table(self._table)
            dialect = engine.dialect.name
            self._conversions = conversions_of(table, dialect, self._columns)
            keep_numbers(table, dialect)
            self._statements = statements_for(table, dialect, self._columns, self._key_columns)
            self._types = {name: table.columns[name].type for name in self._columns}
        self._connection = engine.connect()

    def _write(self, rows: Sequence[Values]) -> None:
        assert self._statements is not None
        rows = without_numpy(rows)
        if self._conversions:
            rows = [self._converted(row) for row in rows]
        self._statements.write(self._connection, rows)

    def _converted(self, row: Values) -> Values:
        converted = dict(row)
        for name, convert in self._conversions.items():
            try:
                converted[name] = convert(row[name])
            except (ValueError, ArithmeticError) as error:
                raise ValueError(f"column {name}: {type(error).__name__}: {error}") from None
        return converted

    def _first_refused(self, rows: Sequence[Values]) -> tuple[Values, Exception] | None:
        """Try the rows one by one, in a transaction that is rolled back."""
        error_class = (sqlalchemy().exc.SQLAlchemyError, *VALUE_ERRORS)
        with contextlib.suppress(*error_class):
            transaction = self._connection.begin()
            try:
                for row in rows:
                    try:
                        self._write([row])
                    except error_class as error:
                        return row, error
            finally:
                transaction.rollback()
        return None

    def _place_in(self, row: Values) -> str:
        """Name the column whose type refuses its value, by the database's own cast.

        Return an empty text without one.
        """
        package = sqlalchemy()
        for name, value in row.items():
            kind = self._types[name]
            with contextlib.suppress(package.exc.CompileError), self._connection.begin() as transaction:
                try:
                    self._connection.execute(package.select(package.cast(package.literal(value, kind), kind)))
                except (package.exc.DBAPIError, package.exc.StatementError, *VALUE_ERRORS):
                    return f": the column '{name}' does not accept {value!r}"
                finally:
                    transaction.rollback()
        return ""
