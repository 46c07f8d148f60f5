"""Whether columns of one schema can be taken as those of another, without a loss and without Python values."""

from __future__ import annotations

import pyarrow
from pyarrow import types as arrow


def have_types_of(given: pyarrow.Schema, wanted: pyarrow.Schema) -> bool:
    """Return whether columns have the names of a schema, in any order, and their types."""
    return set(given.names) == set(wanted.names) and all(
        given.field(field.name).type == field.type and (field.nullable or not given.field(field.name).nullable)
        for field in wanted
    )


def as_schema(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch | None:
    """Return a batch with the columns of a schema; None if a value might change, or is not valid."""
    columns = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        if position < 0:
            return None
        column = batch.column(position)
        if column.type != field.type:
            if not _widens(column.type, field.type):
                return None
            column = column.cast(field.type)
        if not field.nullable and column.null_count:
            return None
        columns.append(column)
    found = pyarrow.RecordBatch.from_arrays(columns, schema=schema)
    try:
        # Files may have texts that are not UTF-8.
        found.validate(full=True)
    except pyarrow.ArrowException:
        return None
    return found


def _widens(given: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    if arrow.is_signed_integer(given) and arrow.is_signed_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    return bool(given == pyarrow.float32() and wanted == pyarrow.float64())
