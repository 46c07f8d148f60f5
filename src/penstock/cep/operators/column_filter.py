"""Drops the rows that a pattern passes over, on columns, before the exchange."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy

from penstock.api.output_tag import OutputTag
from penstock.cep.automaton import Automaton
from penstock.cep.operators.checked_bits import CONDITION, checked_bits
from penstock.cep.operators.column_bits import Bits, NeededRows, column_bits
from penstock.cep.operators.pattern_filter import PatternFilterOperator
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.operator import Output
from penstock.engine.runtime.task.context import OperatorContext


class ColumnPatternFilterOperator(PatternFilterOperator):
    """Keeps rows like PatternFilterOperator, of columns."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    is_before_edge = False

    def __init__(self, name: str, automaton: Automaton[Any], timeouts: bool, columns: RecordColumns) -> None:
        super().__init__(name, automaton, timeouts)
        self.columns_received = self.columns_given = columns

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        assert self.columns_received is not None
        self._records = self.columns_received.reader()
        self._column_bits = column_bits(self.automaton, self.columns_received.schema)
        self._kept = NeededRows(self.may_drop)

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns_given if tag is None else None

    def event_time_field(self, received: str | None) -> str | None:
        return received

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        kept = self._kept.mask(self._bits(chunk))
        if kept is None:
            return self.output.emit(chunk)
        count = int(numpy.count_nonzero(kept))
        self.dropped += len(chunk) - count
        return not count or self.output.emit(chunk.filtered(kept))

    def _bits(self, chunk: Columns) -> Bits:
        if self._column_bits is None:
            records = self._records(chunk.batch)
            return numpy.array(checked_bits(self.context, self.automaton, records), dtype=object)
        try:
            return self._column_bits.of(chunk.batch)
        except RAISED as error:
            raise self.context.user_error(error, CONDITION, ShownBatch(chunk.batch)) from error
