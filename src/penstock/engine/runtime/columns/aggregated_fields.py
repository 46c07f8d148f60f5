"""The fields that aggregates read of a chunk of columns, and the batches of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import FieldAggregate


def columns_of_fields(
    columns: RecordColumns, key_fields: Sequence[str], aggregates: Sequence[FieldAggregate]
) -> tuple[str, ...]:
    """Return the columns that are read: the fields of the key and of the aggregates."""
    read = {*key_fields, *(field for one in aggregates for field in one.fields)}
    return tuple(name for name in columns.names if name in read)


def fields_of_aggregates(aggregates: Sequence[FieldAggregate], batch: pyarrow.RecordBatch) -> list[Any]:
    """Return the column that each aggregate reads: a struct of several for a user's, None for the number of records."""
    return [_columns_of(one, batch) for one in aggregates]


def _columns_of(one: FieldAggregate, batch: pyarrow.RecordBatch) -> pyarrow.Array | None:
    if one.function is not None:
        return pyarrow.StructArray.from_arrays([batch.column(field) for field in one.fields], one.fields)
    return None if one.field is None else batch.column(one.field)


def batch_of(columns: Sequence[pyarrow.Array], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return columns as a batch, cast to the types of a schema."""
    # A cast to the same type costs as much as what computes a column of few rows.
    typed = [
        column if column.type == kind else column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(typed, schema=schema)
