"""A trigger that fires when records have gone far enough. Source: Flink docs, "Windows", DeltaTrigger."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.api.windows.delta_function import Delta, as_delta, as_threshold
from penstock.api.windows.trigger import TriggerContext, TriggerResult
from penstock.api.windows.triggers import Silent
from penstock.api.windows.window import Window
from penstock.common.typeinfo import TypeInformation
from penstock.common.values.copies import own_copy

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class DeltaTrigger(Silent[T, W]):
    """Fires when a record is more than a threshold from the one with which the window last fired.

    Until then, from the first one of the window. Windows that merge can't have it.
    """

    def __init__(self, threshold: float, delta_function: Delta[T], type_info: TypeInformation | None = None) -> None:
        self._threshold = as_threshold(type(self).__name__, threshold)
        self._delta = as_delta(delta_function)
        self._last = ValueStateDescriptor("last-element", type_info)

    @staticmethod
    def of(
        threshold: float, delta_function: Delta[Any], type_info: TypeInformation | None = None
    ) -> DeltaTrigger[Any, Any]:
        """Fires when `delta_function(last, record)` is above `threshold`. `type_info` is the type of the records.

        Raises TypeError if `threshold` is not a number or `delta_function` neither a DeltaFunction nor a callable.
        """
        return DeltaTrigger(threshold, delta_function, type_info)

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Compares the record with the one that it keeps."""
        state = ctx.get_partitioned_state(self._last)
        last = state.value()
        # A copy: the window may keep the record itself, and its function change it.
        if last is None:
            state.update(own_copy(element))
            return TriggerResult.CONTINUE
        if self._delta(last, element) > self._threshold:
            state.update(own_copy(element))
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clears the record that it keeps."""
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"
