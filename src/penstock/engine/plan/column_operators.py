"""The operators that do on columns what others do on rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.superstep_head import SuperstepHead
from penstock.engine.runtime.operators.timestamps import TimestampsAndWatermarksOperator

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


def on_columns(operator: Operator, columns: RecordColumns) -> Operator | None:
    """Return the operator that does the same on columns; None if there is none.

    `columns`: those that it receives, or, of a source, is to give.
    """
    make = _COUNTERPARTS.get(type(operator))
    return None if make is None else make(operator, columns)


def superstep_head_on_columns(head: SuperstepHead, columns: RecordColumns) -> Operator:
    """Return the head of an iteration whose workset is columns."""
    from penstock.engine.runtime.columns.superstep_head import ColumnSuperstepHead

    return ColumnSuperstepHead(head.name, head.rules, columns)


# The imports are in the functions: programs on rows import nothing of columns.


def _source(operator: SourceOperator, columns: RecordColumns) -> Operator | None:
    from penstock.engine.runtime.columns.event_time import ColumnSourceOperator, can_time_columns

    source = operator.source.on_columns(columns) if can_time_columns(operator.strategy, columns) else None
    if source is None:
        return None
    of_columns = ColumnSourceOperator(operator.name, source, operator.strategy, operator.interval_ms, columns=columns)
    of_columns.given = operator.given
    return of_columns


def _timestamps(operator: TimestampsAndWatermarksOperator, columns: RecordColumns) -> Operator | None:
    from penstock.engine.runtime.columns.event_time import ColumnTimestampsOperator, can_time_columns

    if not can_time_columns(operator.strategy, columns):
        return None
    return ColumnTimestampsOperator(operator.name, operator.strategy, operator.interval_ms, columns)


def _sink(operator: SinkOperator, columns: RecordColumns) -> Operator | None:
    if not operator.sink.takes_columns(columns):
        return None
    from penstock.engine.runtime.columns.sink import ColumnSinkOperator

    return ColumnSinkOperator(operator.name, operator.sink, operator.sink_id)


_COUNTERPARTS: dict[type[Operator], Callable[[Any, RecordColumns], Operator | None]] = {
    SourceOperator: _source,
    TimestampsAndWatermarksOperator: _timestamps,
    SinkOperator: _sink,
}
