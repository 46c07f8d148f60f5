"""The rows of a table's connector as the plan has them: fields of rows as columns, and kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.functions.columns import field_of
from penstock.table.operators.changelog import kinds_of
from penstock.table.operators.table_columns import KIND, TableColumns, batch_of_columns

Path = tuple[str, ...]
"""A column, and the fields that lead into it."""


class ScanOperator(Operator):
    """Selects columns and fields of rows. A column KIND becomes the kinds of the rows."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, paths: Sequence[Path], *, received: RecordColumns, given: TableColumns) -> None:
        super().__init__(name)
        self._paths = tuple(paths)
        self.columns_received = received
        self._given = self.columns_given = given

    def process(self, chunk: Columns) -> bool:
        batch, kinds = chunk.batch, chunk.kinds
        if KIND in batch.schema.names:
            found = batch.column(KIND).to_numpy(zero_copy_only=False).astype(numpy.uint8)
            kinds = found if found.any() else None
        columns = [column_at(batch, path) for path in self._paths]
        return self.output.emit(Columns(batch_of_columns(columns, self._given.schema, len(chunk)), None, kinds))


class KindColumnOperator(Operator):
    """Gives the kinds of rows as a column KIND, for a sink that has no other way to get them."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, received: TableColumns) -> None:
        super().__init__(name)
        self.columns_received = received
        self._given = TableColumns(received.schema.append(pyarrow.field(KIND, pyarrow.uint8())))
        self.columns_given = self._given

    def process(self, chunk: Columns) -> bool:
        batch = pyarrow.RecordBatch.from_arrays(
            [*chunk.batch.columns, pyarrow.array(kinds_of(chunk), pyarrow.uint8())], schema=self._given.schema
        )
        return self.output.emit(Columns(batch))


def column_at(batch: pyarrow.RecordBatch, path: Path) -> pyarrow.Array:
    """Return a column, or a field of a row in it."""
    column = batch.column(path[0])
    for name in path[1:]:
        column = field_of(column, name)
    return column
