"""Integers of an edge in as few bytes as a chunk needs: differences from the smallest, which is sent as well.

Spark's exchange costs 5 ns a byte, and to subtract and add 2 ns a value. Times, ids and counts of one chunk rarely
differ by more than 16 bits.
"""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers

ROWS_MIN = 64
"""Fewer rows are sent as they are: the exchange costs more for a buffer than for their bytes."""
_WIDTHS = ((1 << 8, "u1"), (1 << 16, "u2"), (1 << 32, "u4"))
_ARROW = {"u1": pyarrow.uint8(), "u2": pyarrow.uint16(), "u4": pyarrow.uint32()}

Form = tuple[int, str]
"""How a column is sent: the smallest value, and NumPy's name for the type of the differences."""


def narrow(values: Integers) -> tuple[Any, Form | None]:
    """Return the differences from the smallest value and their form; the values and None if that saves nothing."""
    if len(values) < ROWS_MIN:
        return values, None
    low, high = int(values.min()), int(values.max())
    for limit, kind in _WIDTHS:
        if high - low < limit:
            return (values - low).astype(kind), (low, kind)
    return values, None


def widen(values: Any, form: Form) -> Integers:
    """Return the values of `narrow`."""
    low, _ = form
    wide: Integers = values.astype(numpy.int64)
    wide += low
    return wide


def narrow_batch(batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, tuple[Form | None, ...]]:
    """Return a batch with its integers of 64 bits as differences, and the form of each column; () if none has one."""
    if batch.num_rows < ROWS_MIN:
        return batch, ()
    columns, forms = [], []
    for column in batch.columns:
        form = None
        if _is_narrowed(column.type) and not column.null_count:
            values, form = narrow(column.view(pyarrow.int64()).to_numpy())
            column = column if form is None else pyarrow.array(values)
        columns.append(column)
        forms.append(form)
    if not any(forms):
        return batch, ()
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names), tuple(forms)


def widen_batch(batch: pyarrow.RecordBatch, forms: tuple[Form | None, ...], schema: pyarrow.Schema) -> Any:
    """Return the batch of `narrow_batch`, of this schema."""
    columns = [
        column if form is None else pyarrow.array(widen(column.to_numpy(), form)).view(field.type)
        for column, form, field in zip(batch.columns, forms, schema, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)


def narrow_schema(schema: pyarrow.Schema, forms: tuple[Form | None, ...]) -> pyarrow.Schema:
    """Return the schema of a batch with these forms."""
    return pyarrow.schema(
        [
            field if form is None else pyarrow.field(field.name, _ARROW[form[1]])
            for field, form in zip(schema, forms, strict=True)
        ]
    )


def _is_narrowed(kind: pyarrow.DataType) -> bool:
    is_time = pyarrow.types.is_timestamp(kind) or pyarrow.types.is_time64(kind) or pyarrow.types.is_duration(kind)
    return bool(kind == pyarrow.int64()) or is_time
