"""A source of the rows of an Arrow table that the program holds in memory."""

from __future__ import annotations

from typing import Any

import pyarrow

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.connectors.base.ranges import RangeSplit, contiguous
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader


class BatchSource(Source[Any]):
    """Gives each row once, as batches: in order at parallelism 1. The table is pickled with the source."""

    def __init__(self, table: pyarrow.Table) -> None:
        self._table = table.combine_chunks()

    def __copy__(self) -> BatchSource:
        return self

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create one split per subtask."""
        return FixedSplitEnumerator(context, contiguous(0, self._table.num_rows, context.parallelism))

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Any]:
        """Create a reader of the rows."""
        return _BatchReader(context, self._table)

    def get_produced_type(self) -> Any:
        """Return None: rows are batches."""
        return None


class _BatchReader(SplitReader[Any]):
    def __init__(self, context: ReaderContext, table: pyarrow.Table) -> None:
        super().__init__(context)
        self._batches = table.to_batches()
        self._schema = table.schema

    def read(self, split: RangeSplit, max_records: int) -> Chunk:
        numbers, position = split.take(max_records)
        values: Any = pyarrow.RecordBatch.from_pylist([], schema=self._schema)
        if len(numbers):
            (whole,) = self._batches
            values = whole.slice(numbers.start, len(numbers))
        return Chunk(values, position)
