"""Interval joins by event time: the engine's operator, whose times are columns of the rows.

A row that comes behind the watermark is paired as long as partners are there, as in Flink. NULL equals nothing.
Source: Flink's RowTimeIntervalJoin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.errors import ProgramError
from penstock.common.functions.joined_fields import LEFT, RIGHT, JoinedField, JoinedFields
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.interval_join import ColumnIntervalJoinOperator, JoinInput
from penstock.engine.runtime.operators.interval_join import JoinSide
from penstock.table.operators.joins.held_watermarks import held_back
from penstock.table.operators.keyed.table_keys import keys_of_chunk, selector_of
from penstock.table.operators.table_columns import TableColumns, milliseconds_of

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


class IntervalJoinOperator(ColumnIntervalJoinOperator):
    """Gives all columns of both rows. `lower`, `upper`: bounds of the right time minus the left one (ms, inclusive)."""

    def __init__(
        self,
        name: str,
        inputs: tuple[JoinInput, JoinInput],
        times: tuple[str, str],
        *,
        lower: int,
        upper: int,
        given: TableColumns,
    ) -> None:
        left, right = (one.columns.names for one in inputs)
        fields = [
            *(JoinedField(name, LEFT, field) for name, field in zip(given.names, left, strict=False)),
            *(JoinedField(name, RIGHT, field) for name, field in zip(given.names[len(left) :], right, strict=True)),
        ]
        super().__init__(
            name,
            (selector_of(inputs[0].key_fields), selector_of(inputs[1].key_fields)),
            lower=lower,
            upper=upper,
            fields=JoinedFields(tuple(fields)),
            late_tags=(None, None),
            inputs=inputs,
            given=given,
        )
        self._times = times

    def timers_fired(self, timestamp: int) -> bool:
        return self.output.watermark(held_back(timestamp, self.left.lower, self.left.upper))

    def on_rows(self) -> Operator | None:  # type: ignore[override]
        return None

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        return None

    def _process_columns(self, chunk: Columns, side: JoinSide, other: JoinSide) -> bool:
        key_fields = self._of_inputs[side.index].key_fields
        chunk = _with_keys(chunk, key_fields)
        if not len(chunk):
            return True
        name = self._times[side.index]
        times, valid = milliseconds_of(chunk.batch.column(name))
        if valid is not None:
            raise ProgramError(
                f"operator '{self.name}': the time {name!r} of a row is NULL: drop such rows by a condition"
            )
        timed: Any = Columns(chunk.batch, times, None)
        return self.do(self._pairs(keys_of_chunk(self, timed, key_fields), timed, side, other), None)


def _with_keys(chunk: Columns, key_fields: Sequence[str]) -> Columns:
    """Return the rows whose key has no NULL."""
    for name in key_fields:
        column = chunk.batch.column(name)
        if column.null_count:
            chunk = chunk.filtered(column.is_valid().to_numpy(zero_copy_only=False))
    return chunk
