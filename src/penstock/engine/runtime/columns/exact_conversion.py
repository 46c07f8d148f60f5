"""The conversion before an exchange that the plan adds by itself: to columns that are exact; other rows stay."""

from __future__ import annotations

from typing import ClassVar

from penstock.common.columns.record_columns import RecordColumns
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.conversions import TO_COLUMNS
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.operators.operator import Operator

COLUMNS_FROM = 128
"""Chunks with fewer records stay rows: as columns each of their records would cost more."""
_REFUSED_MAX = 8
_TRIED_AGAIN = 64
"""After so many chunks in a row that had to stay rows, only one of so many is tried."""


class ToExactColumnsOperator(Operator):
    """Emits a chunk as columns, or as it is. `whole`: see ExactFields."""

    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    is_before_edge = True

    def __init__(self, columns: RecordColumns, whole: bool = False) -> None:
        super().__init__(TO_COLUMNS)
        self.columns_given = columns
        self._columns = columns
        self._whole = whole

    def open(self) -> None:
        self._exact = ExactFields(self._columns, self._whole)
        self._refused = 0

    def process(self, chunk: Rows) -> bool:
        if len(chunk) < COLUMNS_FROM or (self._refused > _REFUSED_MAX and self._refused % _TRIED_AGAIN):
            self._refused += self._refused > _REFUSED_MAX
            return self.output.emit(chunk)
        columns = self._exact.columns_of(chunk)
        if columns is None:
            self._refused += 1
            return self.output.emit(chunk)
        self._refused = 0
        return self.output.emit(columns)
