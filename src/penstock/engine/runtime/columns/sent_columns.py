"""The forms in which columns are sent where that takes less time than their bytes, and the batch of all others.

A form is a tuple of plain values, since a buffer names no class of ours: the name of the encoding, and its content.
"""

from __future__ import annotations

from typing import Any

import pyarrow
from pyarrow import compute

from penstock.engine.runtime.columns.memory_of_arrays import array_of, integers_of, offsets_of, validity_of, values_in
from penstock.engine.runtime.columns.narrow import COST, narrow, narrow_between, widen
from penstock.engine.runtime.columns.sent_texts import distinct, of_distinct, of_texts, texts
from penstock.engine.runtime.network import worth
from penstock.engine.runtime.network.worth import Cost

Form = tuple[Any, ...]
_NULLS, _INTEGERS, _TEXTS, _DISTINCT = "nulls", "integers", "texts", "distinct"
_NULLS_COST = Cost(call_ns=2_000, row_ns=0.1)
_VALIDITY_COST = Cost(call_ns=20_000, row_ns=2.5)


def forms_of(batch: pyarrow.RecordBatch, byte_ns: float) -> tuple[Form | None, ...]:
    """Return the form of each column, None for one that is sent as it is; () if all are.

    `byte_ns`: the price of a byte on the exchange.
    """
    if batch.num_rows < worth.ROWS_MIN:
        return ()
    forms = tuple(_form_of(column, byte_ns) for column in batch.columns)
    return forms if any(forms) else ()


def sent_batch(batch: pyarrow.RecordBatch, forms: tuple[Form | None, ...]) -> bytes:
    """Return the columns without a form as a message of Arrow; nothing if all have one."""
    if forms:
        batch = batch.select([index for index, form in enumerate(forms) if form is None])
    # A buffer can be pickled only by a copy.
    return batch.serialize().to_pybytes() if batch.num_columns else b""


def received_batch(
    message: bytes, forms: tuple[Form | None, ...], schema: pyarrow.Schema, rows: int
) -> pyarrow.RecordBatch:
    """Return the batch of `sent_batch` and its forms, of this schema."""
    if not forms:
        return pyarrow.ipc.read_record_batch(message, schema)
    kept = [field for field, form in zip(schema, forms, strict=True) if form is None]
    columns = iter(pyarrow.ipc.read_record_batch(message, pyarrow.schema(kept)).columns if kept else ())
    received = [
        next(columns) if form is None else _column_of(form, field.type, rows)
        for field, form in zip(schema, forms, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(received, schema=schema)


def _form_of(column: pyarrow.Array, byte_ns: float) -> Form | None:
    rows = len(column)
    if column.null_count == rows:
        return (_NULLS,) if worth.pays(column.nbytes, rows, _NULLS_COST, byte_ns) else None
    if (kind := integers_of(column.type)) is not None:
        return _integers(column, kind, byte_ns)
    if offsets_of(column.type) is not None:
        if (repeated := distinct(column, byte_ns)) is not None:
            return (_DISTINCT, repeated)
        if (lengths := texts(column, byte_ns)) is not None:
            return (_TEXTS, lengths)
    return None


def _column_of(form: Form, kind: pyarrow.DataType, rows: int) -> pyarrow.Array:
    name = form[0]
    if name == _NULLS:
        return pyarrow.nulls(rows, kind)
    if name == _INTEGERS:
        narrowed, validity = form[1:]
        return array_of(kind, rows, validity, [widen(narrowed, integers_of(kind), rows)])
    return of_distinct(form[1], kind) if name == _DISTINCT else of_texts(form[1], kind, rows)


def _integers(column: pyarrow.Array, kind: str, byte_ns: float) -> Form | None:
    rows = len(column)
    bytes_now = rows * column.type.bit_width // 8
    if not worth.pays(bytes_now, rows, _VALIDITY_COST if column.null_count else COST, byte_ns):
        return None
    values = values_in(column, 1, kind, rows)
    if not column.null_count:
        narrowed = narrow(values, byte_ns)
    else:
        # What is behind a null may be any number.
        known = compute.min_max(column.view(pyarrow.from_numpy_dtype(values.dtype)))
        narrowed = narrow_between(values, known["min"].as_py(), known["max"].as_py(), byte_ns)
    return None if narrowed is None else (_INTEGERS, narrowed, validity_of(column))
