"""Rows of a table as batches of columns: the values that psycopg returns, without a record of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import RAISED


def batch_maker(table: str, columns: RecordColumns) -> Callable[[Sequence[Sequence[Any]]], pyarrow.RecordBatch]:
    """Return a function from rows, whose values are those of the columns behind a key, to a batch.

    It raises SourceError, which names the table and the row, where the conversion of a record fails.
    """

    def make(rows: Sequence[Sequence[Any]]) -> pyarrow.RecordBatch:
        _, *values = zip(*rows, strict=True)
        try:
            return columns.exact_batch(values)
        except RAISED:
            # Columns are converted as a whole. Only a failing batch is searched for the first bad row.
            for _, *row in rows:
                try:
                    columns.exact_batch([[value] for value in row])
                except RAISED as error:
                    record = dict(zip(columns.names, row, strict=True))
                    raise SourceError(f"cannot read {table} as columns: the row {record!r}: {error}") from error
            raise

    return make
