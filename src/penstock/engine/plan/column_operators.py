"""The operators that do on columns what others do on rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


def on_columns(operator: Operator, columns: RecordColumns) -> Operator | None:
    """Return the operator that does the same on columns; None if there is none.

    `columns`: those that it receives, or, of a source, is to give.
    """
    # The imports: programs on rows import nothing of columns.
    if isinstance(operator, SourceOperator):
        return _source(operator, columns)
    if isinstance(operator, TimestampsAndWatermarksOperator):
        from penstock.engine.runtime.columns.event_time import ColumnTimestampsOperator, can_time_columns

        if can_time_columns(operator.strategy, columns):
            return ColumnTimestampsOperator(operator.name, operator.strategy, operator.interval_ms, columns)
    elif isinstance(operator, SinkOperator) and operator.sink.takes_columns(columns):
        from penstock.engine.runtime.columns.sink import ColumnSinkOperator

        return ColumnSinkOperator(operator.name, operator.sink, operator.sink_id)
    return None


def _source(operator: SourceOperator, columns: RecordColumns) -> Operator | None:
    from penstock.engine.runtime.columns.event_time import ColumnSourceOperator, can_time_columns

    source = operator.source.on_columns(columns) if can_time_columns(operator.strategy, columns) else None
    if source is None:
        return None
    of_columns = ColumnSourceOperator(operator.name, source, operator.strategy, operator.interval_ms, columns=columns)
    of_columns.given = operator.given
    return of_columns
