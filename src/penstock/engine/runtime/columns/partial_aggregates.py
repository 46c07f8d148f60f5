"""Partial aggregates: what is sent of the records of one key and one slice that are aggregated before an exchange.

A partial has the fields of the key, a column for each aggregate, and last the number of its records. Its timestamp is
the last of the slice. Source: Flink SQL, "Performance Tuning", Local-Global Aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import COUNT, MAX, MIN, SUM, FieldAggregate
from penstock.engine.runtime.columns.aggregate_arrays import array_type
from penstock.engine.runtime.columns.user_arrays import UserArray


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
    if one.kind == COUNT:
        return pyarrow.int64()
    is_float = array_type(schema.field(one.field).type) is numpy.float64
    if one.kind in (MIN, MAX):
        return pyarrow.float64() if is_float else pyarrow.int64()
    return pyarrow.int64() if one.kind == SUM and not is_float else None


def partial_types(aggregates: Sequence[FieldAggregate], partial: pyarrow.Schema, key_fields: int) -> list[Any]:
    """Return NumPy's type of the values of each aggregate, from the columns of partials behind those of the key.

    None for counts of records and for users' aggregates.
    """
    kinds = (partial.field(key_fields + index).type for index in range(len(aggregates)))
    return [
        None if one.field is None else numpy.float64 if pyarrow.types.is_floating(kind) else numpy.int64
        for one, kind in zip(aggregates, kinds, strict=True)
    ]


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
