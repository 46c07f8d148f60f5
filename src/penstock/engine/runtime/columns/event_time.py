"""Event time of columns: timestamps from a column, and watermarks by generators that need only the highest of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.api.source import Records, Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.sided_batch import SidedBatch
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.field_timestamp import FieldTimestamp
from penstock.common.functions.user_calls import RAISED
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.runtime.chunks import Chunk, ChunkKind, Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.milliseconds import milliseconds
from penstock.engine.runtime.operators.operator import Operator, without_tagged
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from penstock.engine.runtime.time.event_time import TimestampError, checked_timestamp

_BATCHED_ROWS = 1 << 15


def can_time_columns(strategy: WatermarkStrategy, columns: RecordColumns) -> bool:
    """Return whether a strategy needs no records, but at most a column of them, whose type is an integer or a time."""
    assigner = strategy.timestamp_assigner
    if not strategy.needs_no_records or (assigner is not None and not isinstance(assigner, FieldTimestamp)):
        return False
    if assigner is None:
        return True
    if assigner.field not in columns.names:
        return False
    kind = columns.schema.field(assigner.field).type
    return bool(pyarrow.types.is_integer(kind) and kind != pyarrow.uint64()) or pyarrow.types.is_timestamp(kind)


def _field_of(strategy: WatermarkStrategy) -> str | None:
    assigner = strategy.timestamp_assigner
    return assigner.field if isinstance(assigner, FieldTimestamp) else None


def timed(chunk: Columns, strategy: WatermarkStrategy) -> Columns:
    """Return a chunk with the timestamps of a strategy. Raises TimestampError, which has the position of the row."""
    assigner = strategy.timestamp_assigner
    if assigner is None:
        return chunk
    assert isinstance(assigner, FieldTimestamp)
    column = chunk.batch.column(assigner.field)
    if column.null_count:
        checked_timestamp(int(column.is_null().index(True).as_py()), None)
    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "s":
        seconds = column.cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
        # As integers of Python: in milliseconds they may exceed 64 bits.
        for extreme in (seconds.argmin(), seconds.argmax()) if len(seconds) else ():
            checked_timestamp(int(extreme), int(seconds[extreme]) * 1000)
    times = milliseconds(column)
    # The value of an invalid one is in the message.
    for extreme in (times.argmin(), times.argmax()) if len(times) else ():
        checked_timestamp(int(extreme), int(times[extreme]))
    return Columns(chunk.batch, times, chunk.kinds)


def _stamped(operator: Operator, chunk: Columns, strategy: WatermarkStrategy) -> Columns:
    try:
        return timed(chunk, strategy)
    except RAISED as error:
        row = chunk.batch.slice(error.position, 1).to_pylist()[0] if isinstance(error, TimestampError) else None
        raise operator.context.user_error(without_our_frames(error), "timestamp assigner", row) from error


class ColumnTimestampsOperator(TimestampsAndWatermarksOperator):
    """Applies a WatermarkStrategy to columns. `columns`: those that it receives."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, strategy: WatermarkStrategy, interval_ms: int, columns: RecordColumns) -> None:
        super().__init__(name, strategy, interval_ms)
        self.columns_given = self.columns_received = columns

    def event_time_field(self, received: str | None) -> str | None:
        return _field_of(self.strategy) or received

    def on_rows(self) -> Operator:
        return TimestampsAndWatermarksOperator(self.name, self.strategy, self.interval_ms)

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        return self.emit_pieces(self._time.whole(_stamped(self, chunk, self.strategy)))


class ColumnSourceOperator(SourceOperator):
    """The source of a vertex, of columns: its reader returns batches, where others return lists of records."""

    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self, name: str, source: Source[Any], strategy: WatermarkStrategy, interval_ms: int, *, columns: RecordColumns
    ) -> None:
        super().__init__(name, source, strategy, interval_ms)
        self.columns_given = columns

    def event_time_field(self, received: str | None) -> str | None:
        return _field_of(self.strategy)

    def _poll_max(self, records_max: int) -> int:
        # As on rows, always the same if a task may run twice.
        if self.context.mode.repeats_tasks:
            return _BATCHED_ROWS
        # Not by the size of the last buffer: a local aggregate may send few rows for many.
        return records_max

    def _without_sides(self, records: Records) -> tuple[Records, bool]:
        values: Any = records.values
        if not isinstance(values, SidedBatch):
            return records, True
        _, may_continue = without_tagged(self.output, Rows(list(values.sides)))
        return Records(records.split_id, values.batch, records.timestamps, records.split_finished), may_continue

    def _stamped(self, records: Records) -> Iterator[Chunk]:
        assert isinstance(records.values, pyarrow.RecordBatch)
        times = self._time_of(records.split_id)
        known: Sequence[int] | None = records.timestamps
        chunk = Columns(records.values, None if known is None else numpy.array(known, numpy.int64))
        return times.whole(_stamped(self, chunk, self.strategy))
