"""Whether columns of one schema can be taken as those of another, without a loss and without Python values."""

from __future__ import annotations

import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.families import is_bytes, is_list, is_text
from penstock.common.columns.fitted import leaves
from penstock.common.columns.layouts import has_other_layout
from penstock.common.columns.to_values import may_be_beyond_python


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
            try:
                column = column.cast(field.type)
            except pyarrow.ArrowException:
                return None
        if not field.nullable and column.null_count:
            return None
        columns.append(column)
    found = pyarrow.RecordBatch.from_arrays(columns, schema=schema)
    try:
        # Files may have texts that are not UTF-8.
        found.validate(full=True)
    except pyarrow.ArrowException:
        return None
    # Records have neither days nor times beyond the years of Python: columns do not have other values.
    return None if any(may_be_beyond_python(leaf) for column in columns for leaf in leaves(column)) else found


def _widens(given: pyarrow.DataType, wanted: pyarrow.DataType) -> bool:
    if arrow.is_signed_integer(given) and arrow.is_signed_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    if arrow.is_dictionary(given):
        return given.value_type == wanted and not has_other_layout(given)
    if is_list(given) and is_list(wanted):
        items = given.value_type, wanted.value_type
        return items[0] == items[1] or _widens(*items)
    return bool(
        (given == pyarrow.float32() and wanted == pyarrow.float64())
        or (is_text(given) and is_text(wanted))
        or (is_bytes(given) and is_bytes(wanted) and not arrow.is_fixed_size_binary(wanted))
    )
