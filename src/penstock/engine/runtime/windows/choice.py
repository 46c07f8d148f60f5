"""Selects the window operator: the one for evictors if there is an evictor, else the fast or the general one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.windows.assigners import (
    AlignedWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.window_operator import EvictingWindowOperator, WindowOperator
from penstock.engine.runtime.windows.windowing import WindowingOperator, WindowSettings

# Exactly these classes: a subclass may assign windows differently.
_ALIGNED = {
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
    assigner = settings.assigner
    if (
        isinstance(assigner, AlignedWindows)
        and type(assigner) in _ALIGNED
        and assigner.slide_ms <= assigner.size_ms
        and type(settings.trigger) is type(assigner.get_default_trigger(None))
    ):
        return SlicedWindowOperator
    return WindowOperator
