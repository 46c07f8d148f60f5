"""The interface of triggers. Source: Flink docs, "Windows", Triggers."""

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
    """The decision of a trigger. An empty window emits nothing."""

    CONTINUE = (False, False)
    """Do nothing."""
    FIRE_AND_PURGE = (True, True)
    """Emit the result and drop the contents."""
    FIRE = (True, False)
    """Emit the result and keep the contents."""
    PURGE = (False, True)
    """Drop the contents without a result."""

    def is_fire(self) -> bool:
        """Return whether the window emits its result."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Return whether the contents are dropped."""
        return self.value[1]


class TriggerContext(ABC):
    """Time, timers and state of the current key and window. Times are milliseconds."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Return the group for the trigger's metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the current watermark of the subtask, in milliseconds."""

    @abstractmethod
    def register_processing_time_timer(self, time: int) -> None:
        """Call `on_processing_time` for this window once the clock reaches `time`."""

    @abstractmethod
    def register_event_time_timer(self, time: int) -> None:
        """Call `on_event_time` for this window once the watermark passes `time`."""

    @abstractmethod
    def delete_processing_time_timer(self, time: int) -> None:
        """Delete the window's timer for `time`, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, time: int) -> None:
        """Delete the window's timer for `time`, if there is one."""

    @abstractmethod
    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """Return the trigger's state of the current key and window."""


class OnMergeContext(TriggerContext):
    """The context of `on_merge`. Its window is the result of the merge."""

    @abstractmethod
    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge this state of all merged windows into the state of the new one.

        Raises ProgramError unless it is a reducing, aggregating or list state.
        """


# Aliases, because inside Trigger the plain names refer to its attributes.
_TriggerContext: TypeAlias = TriggerContext
_OnMergeContext: TypeAlias = OnMergeContext


class Trigger(ABC, Generic[T, W]):
    """Decides when windows emit their results. One object serves all keys and windows, so it must have no state."""

    TriggerContext = TriggerContext
    OnMergeContext = OnMergeContext

    @abstractmethod
    def on_element(self, element: T, timestamp: int, window: W, ctx: _TriggerContext) -> TriggerResult:
        """Decide after a record was added to the window."""

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: _TriggerContext) -> TriggerResult:
        """Decide when a processing-time timer of the window fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: _TriggerContext) -> TriggerResult:
        """Decide when an event-time timer of the window fires."""

    def can_merge(self) -> bool:
        """Return whether merging windows can have this trigger: it implements `on_merge`."""
        return False

    @abstractmethod
    def on_merge(self, window: W, ctx: _OnMergeContext) -> None:
        """Combine state and timers of the windows that were merged into `window`."""

    @abstractmethod
    def clear(self, window: W, ctx: _TriggerContext) -> None:
        """Delete the timers and state of a window that is removed."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
