"""What a trigger is: it decides when a window emits its result. Source: Flink docs, "Windows", Triggers."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.metrics import MetricGroup
from penstock.api.state.descriptors import StateDescriptor
from penstock.api.windows.window import Window

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TriggerResult(enum.Enum):
    """What happens to a window now. Nothing is emitted for an empty one."""

    CONTINUE = (False, False)
    """Nothing."""
    FIRE_AND_PURGE = (True, True)
    """It emits its result and its contents are dropped."""
    FIRE = (True, False)
    """It emits its result and keeps its contents."""
    PURGE = (False, True)
    """Its contents are dropped, without a result."""

    def is_fire(self) -> bool:
        """Whether the window emits its result."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether its contents are dropped."""
        return self.value[1]


class TriggerContext(ABC):
    """Time, timers and state of the key and window for which the trigger was called. Times are milliseconds."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """The wall clock, in milliseconds since the epoch."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Where the trigger may register metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """The event time of the subtask."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Call `on_processing_time` for this window once the clock reaches `time`."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Call `on_event_time` for this window once the watermark passes `time`."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Delete that timer of this window, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Delete that timer of this window, if there is one."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """State of the trigger, of this key and window."""


class OnMergeContext(TriggerContext):
    """What `on_merge` is given; the window is the result of the merge."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge that state of all windows merged into that of the new one.

        Raises ProgramError unless the state can be merged: reducing, aggregating and list state can.
        """


# Inside of Trigger the plain names are those of its attributes.
_TriggerContext: TypeAlias = TriggerContext
_OnMergeContext: TypeAlias = OnMergeContext


class Trigger(ABC, Generic[T, W]):
    """Decides when windows emit their results. Holds no state itself: one object serves all keys and windows."""

    TriggerContext = TriggerContext
    OnMergeContext = OnMergeContext

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: _TriggerContext) -> TriggerResult:
        """A record was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: _TriggerContext) -> TriggerResult:
        """A processing-time timer of the window is due."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: _TriggerContext) -> TriggerResult:
        """An event-time timer of the window is due."""

    def can_merge(self) -> bool:
        """Whether `on_merge` is implemented, so that windows may merge."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: _OnMergeContext) -> None:
        """Windows were merged into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: _TriggerContext) -> None:
        """The window is removed: delete its timers and state."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
