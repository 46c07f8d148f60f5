"""A source of records as one of a table's columns: so any Source can be read as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.api.source import (
    Boundedness,
    EndOfInput,
    EnumeratorContext,
    Nothing,
    ReaderContext,
    Records,
    Source,
    SourceReader,
    SplitEnumerator,
)
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import RAISED
from penstock.common.types.record_fields import fields_of
from penstock.table.connectors.table_connector import ScanRequest, TableScan
from penstock.table.operators.table_columns import TableColumns


def scan_of_rows(source: Source[Any], request: ScanRequest, parallelism: int | None = None) -> TableScan:
    """Return how to read a table from a source of Rows, dicts or objects with the names of the columns as fields.

    `parallelism`: None: that of the program. Timestamps of records are not used.
    """
    columns = TableColumns(request.whole)
    return TableScan(RowsAsColumns(source, request.whole), columns, parallelism)


class RowsAsColumns(Source[Any]):
    """Gives batches of `schema` in place of the records of another source. Its splits and positions are the same."""

    def __init__(self, source: Source[Any], schema: pyarrow.Schema) -> None:
        self._source = source
        self._schema = schema

    def describe(self) -> str:
        return self._source.describe()

    def validate(self) -> None:
        self._source.validate()

    def get_boundedness(self) -> Boundedness:
        """Return that of the source."""
        return self._source.get_boundedness()

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Create that of the source."""
        return self._source.create_enumerator(context)

    def restore_enumerator(self, context: EnumeratorContext, state: Any) -> SplitEnumerator:
        """Restore that of the source."""
        return self._source.restore_enumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SourceReader[Any]:
        """Create a reader, which converts what that of the source reads."""
        return _Reader(self._source.create_reader(context), self._schema)


class _Reader(SourceReader[Any]):
    def __init__(self, reader: SourceReader[Any], schema: pyarrow.Schema) -> None:
        self._reader = reader
        self._schema = schema
        self.interleaved = reader.interleaved

    def start(self) -> None:
        self._reader.start()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        found = self._reader.poll(max_records)
        if not isinstance(found, Records):
            return found
        return Records(found.split_id, self._batch(found.values), None, found.split_finished)

    def add_splits(self, splits: Sequence[Any]) -> None:
        self._reader.add_splits(splits)

    def interleaves(self, split: Any) -> bool:
        return self._reader.interleaves(split)

    def no_more_splits(self) -> None:
        self._reader.no_more_splits()

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        self._reader.prepare_snapshot(checkpoint_id)

    def snapshot_state(self) -> list[Any]:
        return self._reader.snapshot_state()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        self._reader.close()

    def _batch(self, values: Sequence[Any]) -> Any:
        names = tuple(self._schema.names)
        rows = [fields_of(value, names, has_all=False) for value in values]
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        arrays = []
        for field, column in zip(self._schema, columns, strict=True):
            try:
                arrays.append(pyarrow.array(column, field.type))
            except RAISED as error:
                raise SourceError(f"the column {field.name} does not fit {field.type}: {error}") from error
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
