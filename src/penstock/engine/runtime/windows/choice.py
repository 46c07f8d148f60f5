"""Which of the window operators runs a window: that for evictors if it has one, else the fast or the general one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.api.windows.assigner import WindowAssigner
from penstock.api.windows.assigners import (
    AlignedWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.api.windows.evictor import Evictor
from penstock.api.windows.trigger import Trigger
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.window_operator import EvictingWindowOperator, WindowOperator
from penstock.engine.runtime.windows.windowing import WindowingOperator

# Exactly these: a subclass may assign otherwise.
_ALIGNED = {
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
}


def window_operator(
    name: str,
    key_selector: Callable[[Any], Any],
    assigner: WindowAssigner[Any, Any],
    trigger: Trigger[Any, Any],
    contents: Contents,
    evaluation: Evaluation,
    allowed_lateness_ms: int = 0,
    late_tag: OutputTag[Any] | None = None,
    evictor: Evictor[Any, Any] | None = None,
) -> WindowingOperator:
    """The operator for a window, unopened."""
    if evictor is not None:
        return EvictingWindowOperator(
            name, key_selector, assigner, trigger, contents, evaluation, evictor, allowed_lateness_ms, late_tag
        )
    if (
        isinstance(assigner, AlignedWindows)
        and type(assigner) in _ALIGNED
        and assigner.slide_ms <= assigner.size_ms
        and type(trigger) is type(assigner.get_default_trigger(None))
    ):
        return SlicedWindowOperator(name, key_selector, assigner, contents, evaluation, allowed_lateness_ms, late_tag)
    return WindowOperator(name, key_selector, assigner, trigger, contents, evaluation, allowed_lateness_ms, late_tag)
