"""Deduplicate: the engine's operator, whose event time is a column of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.common.errors import ProgramError
from penstock.common.functions.field_key import FieldKey
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.deduplicate import ColumnDeduplicateOperator
from penstock.engine.runtime.operators.deduplicate import Kept
from penstock.table.operators.table_columns import TableColumns, milliseconds_of

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


class DeduplicateOperator(ColumnDeduplicateOperator):
    """`rowtime`: the column with the time of a row; None: the order of arrival counts."""

    def __init__(
        self, name: str, keys: Sequence[str], kept: Kept, *, rowtime: str | None, columns: TableColumns
    ) -> None:
        super().__init__(name, FieldKey(tuple(keys)), kept, key_fields=keys, columns=columns)
        self._rowtime = rowtime

    def on_rows(self) -> Operator | None:  # type: ignore[override]
        return None

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        if self._rowtime is None:
            return super().process(chunk)
        times, valid = milliseconds_of(chunk.batch.column(self._rowtime))
        if valid is not None:
            raise ProgramError(
                f"operator '{self.name}': the time {self._rowtime!r} of a row is NULL: drop such rows by a condition"
            )
        return super().process(Columns(chunk.batch, times, chunk.kinds))
