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

_MERGED = (COUNT, SUM, MIN, MAX)


def partial_columns(
    columns: RecordColumns, key_fields: Sequence[str], aggregates: Sequence[FieldAggregate]
) -> RecordColumns | None:
    """Return the columns of partials; None if results depend on the order of the records, as sums of floats do."""
    schema = columns.schema
    if any(one.kind not in _MERGED for one in aggregates):
        return None
    if any(one.kind != COUNT and array_type(schema.field(one.field).type) is not numpy.int64 for one in aggregates):
        return None
    fields = [schema.field(name) for name in key_fields]
    # Not the names of fields.
    prefix = "#"
    while any(name.startswith(prefix) for name in key_fields):
        prefix += "#"
    names = [*(f"{prefix}{index}" for index in range(len(aggregates))), f"{prefix}records"]
    return RecordColumns(pyarrow.schema([*fields, *(pyarrow.field(name, pyarrow.int64()) for name in names)]))


def partials_of_rows(
    fields: Sequence[pyarrow.Array | None], aggregates: Sequence[FieldAggregate], rows: int
) -> list[pyarrow.Array]:
    """Return the partial aggregates of each record alone. `fields`: the column of each aggregate, None for records."""
    ones = pyarrow.array(numpy.ones(rows, numpy.int64))
    return [
        ones if field is None else field.is_valid().cast(pyarrow.int64()) if one.kind == COUNT else field
        for field, one in zip(fields, aggregates, strict=True)
    ]
