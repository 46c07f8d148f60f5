"""The operator of a pattern on a stream of columns, which the exchange carries as they are.

Conditions are computed for a chunk at once. Rows become records where the automaton may need them: those with bits that
change something. Chunks of few rows, and those with late rows, become rows first. So do conditions that Arrow does not
compute as Python does. State is that of the operator on rows, which BATCH uses: a job may continue on either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from penstock.cep.operators.cep_operator import CepOperator
from penstock.cep.operators.checked_bits import CONDITION
from penstock.cep.operators.column_bits import NeededRows, column_bits
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.conversions import RowReader
from penstock.engine.runtime.columns.few_rows import FewRows
from penstock.engine.runtime.columns.keyed_input import keys_in
from penstock.engine.runtime.columns.shown_rows import ShownBatch

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.columns.chunk import Columns
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext


class ColumnCepOperator(CepOperator):
    """Finds the matches of one pattern in columns. `on_records`: the operator that does so in rows."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, on_records: CepOperator, key_fields: Sequence[str], columns: RecordColumns) -> None:
        super().__init__(
            on_records.name,
            on_records.key_selector,
            on_records.automaton,
            on_records.calls,
            domain=on_records.domain,
            comparator=on_records.comparator,
            late_tag=on_records.late_tag,
            bound=on_records.bound,
            queryable_name=on_records.queryable_name,
        )
        self._on_records = on_records
        self._key_fields = tuple(key_fields)
        self.columns_received = self._columns = columns

    def on_rows(self) -> Operator:
        return self._on_records

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._reader = RowReader(self, self._columns)
        self._column_bits = column_bits(self.automaton, self._columns.schema)
        timeouts = self.calls.timed_out is not None
        self._kept = NeededRows(lambda bits: self.automaton.may_drop(bits, timeouts))

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        if self._column_bits is None or isinstance(chunk, FewRows) or self._needs_rows(chunk):
            return super().process(self._reader.rows(chunk))
        try:
            bits = self._column_bits.of(chunk.batch)
        except RAISED as error:
            raise self.context.user_error(error, CONDITION, ShownBatch(chunk.batch)) from error
        kept = self._kept.mask(bits)
        if kept is not None:
            chunk, bits = chunk.filtered(kept), bits[kept]
        if not len(chunk):
            return True
        keys = keys_in(self, chunk, self._key_fields).to_list()
        rows = self._reader.rows(chunk)
        return self.arrived(keys, rows.values, rows.timestamps, bits.tolist())

    def _needs_rows(self, chunk: Columns) -> bool:
        """Return whether some rows have no timestamp, or are late."""
        if not self.in_event_time:
            return False
        times = chunk.timestamps
        return times is None or not len(times) or int(times.min()) <= max(self.timers.watermark, MIN_TIMESTAMP)
