"""Divide a batch of columns by the values of some of them, as records are divided one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.families import is_text
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import python_values
from penstock.common.columns.typed_values import reader_of

Codes = numpy.ndarray[Any, numpy.dtype[numpy.int64]]


def can_divide(columns: RecordColumns, names: Sequence[str]) -> bool:
    """Return whether equal values of these columns, texts, integers, booleans or dates, are equal in the records."""
    declared = dict(zip(columns.names, columns.row_type.get_field_types(), strict=True)) if columns.row_type else {}
    for name in names:
        if name not in columns.names:
            return False
        kind = columns.schema.field(name).type
        if not (is_text(kind) or arrow.is_integer(kind) or arrow.is_boolean(kind) or arrow.is_date32(kind)):
            return False
        if declared and reader_of(kind, declared[name]) is not python_values:
            return False
    return True


def divided(
    batch: pyarrow.RecordBatch, names: Sequence[str], bucket_of: Callable[[dict[str, Any]], str]
) -> Iterator[tuple[str, pyarrow.RecordBatch]]:
    """Yield each bucket and its rows, in order, the bucket of the first row first.

    `bucket_of` is called with the values of these columns, once for each combination; several may have one bucket.
    """
    if not batch.num_rows:
        return
    _, firsts, codes = numpy.unique(_codes(batch, names), return_index=True, return_inverse=True)
    values = [python_values(batch.column(name).take(pyarrow.array(firsts))) for name in names]
    buckets: dict[str, int] = {}
    of_code = numpy.zeros(len(firsts), numpy.int64)
    for code in numpy.argsort(firsts).tolist():
        bucket = bucket_of({name: of_name[code] for name, of_name in zip(names, values, strict=True)})
        of_code[code] = buckets.setdefault(bucket, len(buckets))
    if len(buckets) == 1:
        yield next(iter(buckets)), batch
        return
    of_row = of_code[codes]
    rows = batch.take(pyarrow.array(numpy.argsort(of_row, kind="stable")))
    end = 0
    for bucket, count in zip(buckets, numpy.bincount(of_row).tolist(), strict=True):
        start, end = end, end + count
        yield bucket, rows.slice(start, count)


def _codes(batch: pyarrow.RecordBatch, names: Sequence[str]) -> Codes:
    """Return a number for each row, from 0, which is equal for rows with equal values."""
    codes: Codes = numpy.zeros(batch.num_rows, numpy.int64)
    for name in names:
        encoded = batch.column(name).dictionary_encode(null_encoding="encode")
        # Numbers stay below that of the rows, whatever the number of columns.
        _, codes = numpy.unique(codes * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    return codes
