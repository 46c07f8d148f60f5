"""Windows of plans as operators have them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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

_DURATION = re.compile(r"(-?)P(?:(\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?")


def milliseconds(duration: str | None) -> int:
    """Return an ISO 8601 duration, such as `PT1M30S`, in milliseconds; 0 for None."""
    if duration is None:
        return 0
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(f"{duration!r} is not a duration such as PT10S")
    sign, days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000
    total += round(float(seconds or 0) * 1000)
    return -total if sign else total


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
