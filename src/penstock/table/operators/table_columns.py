"""The columns of rows of SQL: types of Arrow that SQL needs, and rows that have kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import microseconds_reader
from penstock.common.types import row_factory
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import Column, as_array
from penstock.table.logical_types import LogicalType

NO_COLUMNS = "$rows"
"""The column of rows without columns, such as those of which only the number is needed."""
KIND = "$kind"
"""The column with the kinds of rows, where a source or a sink has no other place for them."""


class TableColumns(RecordColumns):
    """Columns of a schema, whose records are Rows with a kind.

    All columns may be null: the planner knows which are not. The key of an exchange may be of any type.
    """

    def __init__(self, schema: pyarrow.Schema) -> None:
        super().__init__(schema)

    @property
    def have_row_kinds(self) -> bool:
        return True

    def only(self, names: Sequence[Any]) -> TableColumns:
        return TableColumns(super().only(names).schema)

    def has_keys(self, name: str) -> bool:
        return name in self.names

    def _readers(self) -> list[Callable[[pyarrow.Array], list[Any]]]:
        return list(map(microseconds_reader, self.schema.types))

    def _record_factory(self) -> Callable[[Sequence[Any]], Any]:
        return row_factory(self.names)


def table_columns(row: LogicalType) -> TableColumns:
    """Return the columns of a row's fields."""
    fields = [pyarrow.field(name, arrow_type(one)) for name, one in zip(row.names, row.children, strict=True)] or [
        pyarrow.field(NO_COLUMNS, pyarrow.bool_())
    ]
    return TableColumns(pyarrow.schema(fields))


def width_of(columns: TableColumns) -> int:
    """Return how many columns the plan has for these: none for rows of which only the number counts."""
    return 0 if columns.names == (NO_COLUMNS,) else len(columns.names)


def columns_by_place(batch: pyarrow.RecordBatch, names: Sequence[str]) -> list[Any]:
    """Return the columns of a batch by their names, None for a column that it lacks because nothing reads it."""
    by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
    return [by_name.get(name) for name in names]


def batch_of_columns(columns: Sequence[Column], schema: pyarrow.Schema, rows: int) -> pyarrow.RecordBatch:
    """Return a batch of results: arrays, or scalars that are the same in all rows."""
    if schema.names == [NO_COLUMNS]:
        columns = [pyarrow.scalar(None, pyarrow.bool_())]
    arrays = [_fitted(as_array(one, rows), field.type) for one, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _fitted(array: Any, kind: pyarrow.DataType) -> Any:
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == kind else array.cast(kind)


def milliseconds_of(column: pyarrow.Array) -> tuple[Any, Any]:
    """Return timestamps as milliseconds (int64), and which are valid; None: all are."""
    kind = column.type
    assert pyarrow.types.is_timestamp(kind), kind
    if kind.unit != "ms":
        column = column.cast(pyarrow.timestamp("ms", kind.tz), safe=False)
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    numbers = column.view(pyarrow.int64())
    if valid is not None:
        numbers = numbers.fill_null(0)
    return numbers.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False), valid
