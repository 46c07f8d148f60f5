"""Write batches of columns: one statement inserts all rows of a batch, whose columns are arrays.

    INSERT INTO "t" ("id", "name") SELECT "id", "name" FROM unnest($1::int8[], $2::text[]) AS new ("id", "name") …

The server converts an element as it converts the value that psycopg sends for it: texts as they are written, others by
an assignment. What the statement cannot write, the statement for rows writes or refuses: it names the row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import python_values
from penstock.common.columns.typed_values import reader_of
from penstock.connectors.postgres.connection import PostgresError, TransientPostgresError, quoted, quoted_table
from penstock.connectors.postgres.sink.arrays import TEXT, array_type, encoded
from penstock.connectors.postgres.sink.session import Session
from penstock.connectors.postgres.sink.statement import InsertParts, Statement

_log = logging.getLogger(__name__)
_BATCH_BYTES = 64 * 1024 * 1024
"""The size of a batch that is written at once: the server closes a connection on which a message exceeds 1 GiB."""
_TYPES = """WITH RECURSIVE kinds AS (
        SELECT attname, atttypid AS kind FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0
        UNION ALL SELECT attname, typbasetype FROM kinds JOIN pg_type ON oid = kind WHERE typbasetype <> 0
    )
    SELECT attname, format_type(kind, -1) FROM kinds JOIN pg_type ON oid = kind WHERE typbasetype = 0"""
"""The types of columns, under their domains and without lengths: an explicit cast would cut texts to a length."""


def can_write(statement: Statement, columns: RecordColumns) -> bool:
    """Return whether batches of these columns can be written as their records are."""
    if statement.parts is None or statement.columns is None:
        return False
    declared = None if columns.row_type is None else columns.row_type.get_field_types()
    for name in statement.columns:
        if name not in columns.names:
            return False
        position = columns.names.index(name)
        kind = columns.schema.field(position).type
        if array_type(kind) is None:
            return False
        # Records have other values than the column, such as Instants.
        if declared is not None and reader_of(kind, declared[position]) is not python_values:
            return False
    return True


class ColumnStatement:
    """The statement for batches, and those that wait until they are written together."""

    def __init__(self, statement: Statement, batch_bytes: int = _BATCH_BYTES) -> None:
        """`statement`: one that `can_write` these batches. `batch_bytes`: the size of those that `take` returns."""
        assert statement.parts is not None and statement.columns is not None
        self.rows = 0
        """The number of rows that wait."""
        self._parts = statement.parts
        self._columns = statement.columns
        self._batch_bytes = batch_bytes
        self._waiting: list[pyarrow.RecordBatch] = []
        self._sql: dict[pyarrow.Schema, str] = {}
        self._is_logged = False

    def add(self, batch: pyarrow.RecordBatch) -> None:
        """Append a batch to those that wait."""
        self._waiting.append(batch.select(self._columns))
        self.rows += batch.num_rows

    def take(self, size: int) -> list[pyarrow.RecordBatch]:
        """Return the rows that wait, in batches of at most `size`, and forget them.

        Rows with large fields are in smaller batches.
        """
        waiting, self._waiting, self.rows = self._waiting, [], 0
        if not waiting:
            return []
        # Not joined: the texts of a column may have at most 2 GiB.
        rows = pyarrow.Table.from_batches(waiting)
        tables = [rows.slice(start, size) for start in range(0, rows.num_rows, size)]
        return [_joined(part) for table in tables for part in parts_of(table, self._batch_bytes)]

    def write(self, session: Session, batch: pyarrow.RecordBatch) -> None:
        """Write all rows or none, of each key the last one. Raise PostgresError, which names a refused row."""
        if session.is_utf8:
            try:
                sent = last_of_keys(batch, self._parts.key_columns) if self._parts.updates else batch
                session.write_arrays(self._sql_of(session, batch.schema), [encoded(column) for column in sent.columns])
                return
            except TransientPostgresError:
                raise
            except (PostgresError, pyarrow.ArrowInvalid) as error:
                self._log(error)
        session.write(list(zip(*map(python_values, batch.columns), strict=True)))

    def _sql_of(self, session: Session, schema: pyarrow.Schema) -> str:
        if (sql := self._sql.get(schema)) is None:
            kinds = dict(session.execute(_TYPES, quoted_table(self._parts.table).replace("%%", "%")))
            sql = self._sql[schema] = insert_arrays(self._parts, schema, kinds)
        return sql

    def _log(self, error: Exception) -> None:
        if not self._is_logged:
            self._is_logged = True
            _log.info("a batch of columns is written row by row, and so are all of which this is true: %s", error)


def insert_arrays(parts: InsertParts, schema: pyarrow.Schema, kinds: dict[str, str]) -> str:
    """Return the statement, with a parameter for each column. `kinds`: of the table's columns, by name.

    Raise PostgresError for a column that only rows can write.
    """
    names, arrays, values = [], [], []
    for field in schema:
        array = array_type(field.type)
        assert array is not None
        name = quoted(field.name)
        if kinds.get(field.name) == "money" and arrow.is_integer(field.type):
            # The server assigns int8 to money, but not int2, as which psycopg sends small integers of rows.
            raise PostgresError(f"the column {field.name!r} of money gets integers as rows have them")
        cast = array.cast
        if array is TEXT and kinds.get(field.name, "text") != "text":
            cast = kinds[field.name].replace("%", "%%")
        names.append(name)
        arrays.append(f"%b::{array.name}[]")
        values.append(name if cast is None else f"{name}::{cast}")
    source = f"SELECT {', '.join(values)} FROM unnest({', '.join(arrays)}) AS new ({', '.join(names)})"
    return f"{parts.before_rows} {source}{parts.after_rows}"


def parts_of(rows: pyarrow.Table, bytes_max: int) -> Iterator[pyarrow.Table]:
    """Yield rows, in order, in parts of at most this size or of one row."""
    if rows.nbytes <= bytes_max or rows.num_rows <= 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from parts_of(rows.slice(0, half), bytes_max)
    yield from parts_of(rows.slice(half), bytes_max)


def _joined(rows: pyarrow.Table) -> pyarrow.RecordBatch:
    [batch] = rows.combine_chunks().to_batches()
    return batch


def last_of_keys(batch: pyarrow.RecordBatch, key_columns: Sequence[str]) -> pyarrow.RecordBatch:
    """Return the last row of each key, in order. A statement may update a row only once.

    Rows with a null in their key are all different, as in a unique index.
    """
    keys = {str(number): _plain(batch.column(name)) for number, name in enumerate(key_columns)}
    rows = pyarrow.table({**keys, "row": _numbers(batch.num_rows)})
    has_null = None
    for column in keys.values():
        if column.null_count:
            is_null = column.is_null()
            has_null = is_null if has_null is None else compute.or_(has_null, is_null)
    complete = rows if has_null is None else rows.filter(compute.invert(has_null))
    last = complete.group_by(list(keys), use_threads=False).aggregate([("row", "max")]).column("row_max")
    if len(last) == complete.num_rows:
        return batch
    kept = [*last.chunks, *([] if has_null is None else rows.filter(has_null).column("row").chunks)]
    positions = pyarrow.chunked_array(kept, pyarrow.int64())
    return batch.take(positions.take(compute.sort_indices(positions)).combine_chunks())


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    return column.dictionary_decode() if arrow.is_dictionary(column.type) else column


def _numbers(count: int) -> pyarrow.Array:
    return pyarrow.array(numpy.arange(count, dtype=numpy.int64))
