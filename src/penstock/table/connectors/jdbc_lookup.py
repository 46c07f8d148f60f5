"""Looks up rows of a table of PostgreSQL: one query for all keys of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import types as arrow

from penstock.connectors.base.retries import retried
from penstock.connectors.postgres.connection import Database, psycopg, quoted, quoted_table, translated
from penstock.table.connectors.jdbc_scan import column_of
from penstock.table.connectors.lookup import Found, TableLookup

_SESSION = "penstock lookup"
_TYPES = {
    pyarrow.bool_(): "boolean",
    pyarrow.int8(): "smallint",
    pyarrow.int16(): "smallint",
    pyarrow.int32(): "integer",
    pyarrow.int64(): "bigint",
    pyarrow.float32(): "real",
    pyarrow.float64(): "double precision",
    pyarrow.date32(): "date",
    pyarrow.binary(): "bytea",
}


class JdbcLookup(TableLookup):
    """Finds rows by the values of columns. A lost connection is opened again, `max_retries` times."""

    def __init__(
        self, database: Database, table: str, *, keys: pyarrow.Schema, columns: pyarrow.Schema, max_retries: int
    ) -> None:
        self._database = database
        self._table = table
        self._columns = columns
        self._max_retries = max_retries
        given = ", ".join(f"k{at}" for at in range(len(keys)))
        arrays = ", ".join(f"%s::{_type_of(field.type)}[]" for field in keys)
        same = " AND ".join(f"t.{quoted(field.name)} = k.k{at}" for at, field in enumerate(keys))
        wanted = ", ".join(["k.place", *(f"t.{quoted(field.name)}" for field in columns)])
        # By their place in the table: the rows of a key have the same order in each query.
        self._sql = (
            f"SELECT {wanted} FROM unnest({arrays}) WITH ORDINALITY AS k({given}, place) "
            f"JOIN {quoted_table(table)} AS t ON {same} ORDER BY k.place"
        )
        # A column may be both.
        all_columns = ", ".join(f"t.{quoted(field.name)}" for field in [*keys, *columns])
        self._all_sql = f"SELECT {all_columns} FROM {quoted_table(table)} AS t"
        self._keys = keys
        self._connection: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_connection": None}

    def open(self) -> None:
        """Connect."""
        self._connection = self._database.connect(_SESSION)

    def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            self._connection.close()

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        """Return the rows of keys. Raises PostgresError."""
        values = [column.to_pylist() for column in keys.columns]
        rows = retried(lambda: self._query(self._sql, values), self._max_retries)
        places, *columns = zip(*rows, strict=True) if rows else [()] * (1 + len(self._columns))
        return Found(numpy.array(places, numpy.int64) - 1, _batch(columns, self._columns))

    def load(self) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch]:
        """Return the keys and the columns of all rows. Raises PostgresError."""
        rows = retried(lambda: self._query(self._all_sql, []), self._max_retries)
        columns = list(zip(*rows, strict=True)) if rows else [()] * (len(self._keys) + len(self._columns))
        count = len(self._keys)
        return _batch(columns[:count], self._keys), _batch(columns[count:], self._columns)

    def _query(self, sql: str, values: list[Any]) -> list[Any]:
        try:
            if self._connection is None or self._connection.closed:
                self.open()
            found: list[Any] = self._connection.execute(sql, values).fetchall()
            return found
        except psycopg().Error as error:
            text = self._database.hide(str(error).strip())
            raise translated(error, f"cannot look up {self._table} at {self._database}: {text}") from None


def _batch(columns: Sequence[Sequence[Any]], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    arrays = [column_of(field.type)(column) for field, column in zip(schema, columns, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _type_of(kind: pyarrow.DataType) -> str:
    if kind in _TYPES:
        return _TYPES[kind]
    if arrow.is_decimal(kind):
        return "numeric"
    if arrow.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamptz"
    return "time" if arrow.is_time(kind) else "text"
