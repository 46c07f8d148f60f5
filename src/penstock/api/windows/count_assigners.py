"""Windows of a number of records of a key. Source: PyFlink's `count_window`.

Unlike in Flink's Java API, sliding windows give a result only when they are full: with size 3 and slide 2 after the
3rd, 5th, 7th … record. A full window is purged: no further record is assigned to it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.api.windows.assigner import WindowAssigner, WindowAssignerContext
from penstock.api.windows.serializers import CountWindowSerializer
from penstock.api.windows.trigger import Trigger
from penstock.api.windows.triggers import CountTrigger, PurgingTrigger, positive_count
from penstock.api.windows.window import CountWindow
from penstock.common.serializer import TypeSerializer
from penstock.common.typeinfo import Types

T = TypeVar("T")


class _CountWindows(WindowAssigner[T, CountWindow]):
    def __init__(self, size: int, slide: int, state: str) -> None:
        self.size = positive_count("the size of a count window", size)
        self.slide = positive_count("the slide of a count window", slide)
        self._seen = ValueStateDescriptor(state, Types.LONG())

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[CountWindow]:
        """Return the windows that contain the record, counted per key, latest first."""
        state = context.get_runtime_context().get_state(self._seen)
        index = state.value() or 0
        state.update(index + 1)
        latest = index // self.slide
        earliest = max(0, (index - self.size) // self.slide + 1)
        return [CountWindow(id) for id in range(latest, earliest - 1, -1)]

    def get_default_trigger(self, env: Any) -> Trigger[T, CountWindow]:
        """Return a trigger that fires and purges when the window is full."""
        return PurgingTrigger.of(CountTrigger.of(self.size))

    def get_window_serializer(self) -> TypeSerializer[CountWindow]:
        """Return the serializer of count windows."""
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Consecutive windows of `window_size` records. Raises ValueError if it is not positive."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Any]:
        """Return windows of `window_size` records."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows of `window_size` records that start every `window_slide` records.

    Raises ValueError if one of them is not positive.
    """

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Any]:
        """Return windows of `window_size` records that start every `window_slide` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.size}, {self.slide})"
