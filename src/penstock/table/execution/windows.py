"""Windows of plans as operators have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.execution.durations import milliseconds
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.window_slices import (
    ATTACHED,
    CUMULATE,
    HOP,
    SESSION,
    TUMBLE,
    WindowSlices,
    WindowTimes,
)
from penstock.table.planner.nodes.specs import (
    AnyWindow,
    AnyWindowing,
    CumulativeWindow,
    HoppingWindow,
    SessionWindow,
    TimeAttributeWindowing,
    TumblingWindow,
    WindowAttachedWindowing,
)

if TYPE_CHECKING:
    from penstock.table.execution.translation import Translation


def slices_of(window: AnyWindow) -> WindowSlices:
    """Return the slices of a window, or the gap of sessions."""
    if isinstance(window, TumblingWindow):
        size = milliseconds(window.size)
        return WindowSlices(TUMBLE, size, size, milliseconds(window.offset))
    if isinstance(window, HoppingWindow):
        return WindowSlices(HOP, milliseconds(window.size), milliseconds(window.slide), milliseconds(window.offset))
    if isinstance(window, CumulativeWindow):
        size, step = milliseconds(window.max_size), milliseconds(window.step)
        return WindowSlices(CUMULATE, size, step, milliseconds(window.offset))
    assert isinstance(window, SessionWindow)
    gap = milliseconds(window.gap)
    return WindowSlices(SESSION, gap, gap)


def window_times(windowing: AnyWindowing, columns: TableColumns, translation: Translation) -> WindowTimes:
    """Return how rows of these columns are assigned to windows."""
    slices = slices_of(windowing.window)
    zone = translation.window_zone(windowing.time_attribute_type.logical)
    if isinstance(windowing, WindowAttachedWindowing):
        if slices.kind == SESSION:
            raise translation.unsupported("aggregates of sessions that rows have already are not supported")
        attached = slices._replace(kind=ATTACHED, attached=slices.kind)
        return WindowTimes(attached, columns.names[windowing.window_end], windowing.is_rowtime, zone)
    if isinstance(windowing, TimeAttributeWindowing):
        column = columns.names[windowing.time_attribute_index] if windowing.is_rowtime else None
        return WindowTimes(slices, column, windowing.is_rowtime, zone)
    raise translation.unsupported(f"windows of the kind {type(windowing).__name__} are not supported here")
