"""Partial aggregates: what is sent of the records of one key and one slice that are aggregated before an exchange.

A partial has the fields of the key, a column for each aggregate, and last the number of its records. Its timestamp is
the last of the slice. Source: Flink SQL, "Performance Tuning", Local-Global Aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import COUNT, MAX, MIN, SUM, FieldAggregate
from penstock.engine.runtime.columns.aggregate_arrays import array_type
from penstock.engine.runtime.columns.user_arrays import UserArray

_MERGED = (COUNT, SUM, MIN, MAX)


def partial_columns(
    columns: RecordColumns, key_fields: Sequence[str], aggregates: Sequence[FieldAggregate]
) -> RecordColumns | None:
    """Return the columns of partials; None if results depend on the order of the records, as sums of floats do."""
    schema = columns.schema
    kinds = [_partial_type(one, schema) for one in aggregates]
    if None in kinds:
        return None
    fields = [schema.field(name) for name in key_fields]
    # Not the names of fields.
    prefix = "#"
    while any(name.startswith(prefix) for name in key_fields):
        prefix += "#"
    partials = [pyarrow.field(f"{prefix}{index}", kind) for index, kind in enumerate(kinds)]
    return RecordColumns(pyarrow.schema([*fields, *partials, pyarrow.field(f"{prefix}records", pyarrow.int64())]))


def _partial_type(one: FieldAggregate, schema: pyarrow.Schema) -> pyarrow.DataType | None:
    if one.function is not None:
        return UserArray(one.function).as_column(0).type if one.function.in_any_order else None
    is_exact = one.kind == COUNT or array_type(schema.field(one.field).type) is numpy.int64
    return pyarrow.int64() if one.kind in _MERGED and is_exact else None


def partials_of_rows(
    fields: Sequence[pyarrow.Array | None], aggregates: Sequence[FieldAggregate], rows: int
) -> list[pyarrow.Array]:
    """Return the partial aggregates of each record alone. `fields`: the column of each aggregate, None for records."""
    ones = pyarrow.array(numpy.ones(rows, numpy.int64))
    return [
        ones
        if field is None
        else UserArray(one.function).of_rows(field)
        if one.function is not None
        else field.is_valid().cast(pyarrow.int64())
        if one.kind == COUNT
        else field
        for field, one in zip(fields, aggregates, strict=True)
    ]
