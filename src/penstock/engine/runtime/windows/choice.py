"""Selects the window operator: the one for evictors if there is an evictor, else the fast or the general one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.api.windows.assigners import (
    AlignedWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.api.windows.cumulative_assigners import CumulativeEventTimeWindows, CumulativeProcessingTimeWindows
from penstock.api.windows.session_assigners import EventTimeSessionWindows
from penstock.api.windows.triggers import EndOfStreamTrigger, EventTimeTrigger
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.typeinfo import RowTypeInfo
from penstock.engine.runtime.windows.full_window_operator import FullWindowOperator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.window_operator import EvictingWindowOperator, WindowOperator
from penstock.engine.runtime.windows.windowing import WindowingOperator, WindowSettings

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

# Exactly these classes: a subclass may assign windows differently.
_ALIGNED = {
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
}


def window_operator(name: str, key_selector: Callable[[Any], Any], settings: WindowSettings) -> WindowingOperator:
    """Create the operator for a window, unopened."""
    return _operator_class(settings)(name, key_selector, settings)


def _operator_class(settings: WindowSettings) -> type[WindowingOperator]:
    if settings.evictor is not None:
        return EvictingWindowOperator
    if type(settings.assigner) is GlobalWindows and type(settings.trigger) is EndOfStreamTrigger:
        return FullWindowOperator
    return SlicedWindowOperator if is_sliced(settings) else WindowOperator


def is_sliced(settings: WindowSettings) -> bool:
    """Return whether the fast operator can run these windows: aligned ones with their default trigger."""
    assigner = settings.assigner
    return (
        settings.evictor is None
        and isinstance(assigner, AlignedWindows)
        and type(assigner) in _ALIGNED
        and assigner.slide_ms <= assigner.size_ms
        and type(settings.trigger) is type(assigner.get_default_trigger(None))
    )


def column_window_operator(
    function: FieldAggregates,
    key_fields: tuple[str, ...],
    name: str,
    key_selector: Callable[[Any], Any],
    settings: WindowSettings,
    *,
    columns: RecordColumns,
    result_type: RowTypeInfo,
) -> WindowingOperator:
    """Create the operator for a window of a stream of columns, unopened.

    It is on columns for aligned windows, and for sessions of event time with one gap if the aggregates do not depend on
    the order of records; otherwise, and for aggregates of other types than integers and floats, on rows.
    """
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.columns.aggregate_arrays import can_aggregate
    from penstock.engine.runtime.columns.sessions import ColumnSessionWindowOperator
    from penstock.engine.runtime.columns.windows import ColumnWindowOperator

    can_add = can_aggregate(function.aggregates, columns.schema)
    has_keys = bool(key_fields) and all(map(columns.has_keys, key_fields))
    if not can_add or not has_keys or not _has_columns(settings, function):
        return window_operator(name, key_selector, settings)
    operator_class: type[ColumnWindowOperator | ColumnSessionWindowOperator] = ColumnWindowOperator
    if _operator_class(settings) is not SlicedWindowOperator:
        operator_class = ColumnSessionWindowOperator
    return operator_class(
        name,
        key_selector,
        settings,
        key_fields=key_fields,
        aggregates=function,
        columns=columns,
        results=RecordColumns(result_type),
    )


def _has_columns(settings: WindowSettings, function: FieldAggregates) -> bool:
    """Return whether there is an operator on columns for such windows."""
    if _operator_class(settings) is SlicedWindowOperator:
        return True
    has_default_trigger = type(settings.trigger) is EventTimeTrigger and settings.evictor is None
    return type(settings.assigner) is EventTimeSessionWindows and has_default_trigger and function.in_any_order
