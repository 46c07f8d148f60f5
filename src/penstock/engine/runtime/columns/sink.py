"""The sink of a chain of columns: passes batches to a writer that can write them."""

from __future__ import annotations

from typing import ClassVar

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.sink import SinkOperator


class ColumnSinkOperator(SinkOperator):
    """Writes columns to a Sink that `takes_columns`. Its state is that of the sink on rows."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        assert self.writer is not None
        with self._errors_named("write"):
            self.writer.write_columns(chunk.batch, chunk.timestamps)
        return self.context.budget.may_continue()
