"""The interface of window assigners. Source: Flink docs, "Windows", Window Assigners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.runtime_context import RuntimeContext
from penstock.api.windows.trigger import Trigger
from penstock.api.windows.window import MergeCallback, Window
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.serializer import TypeSerializer

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class WindowAssignerContext(ABC):
    """The assigner's access to time and state."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext:
        """Return the runtime context, with the states of the record's key."""


# An alias, because inside the classes below the plain name refers to their attribute.
_AssignerContext: TypeAlias = WindowAssignerContext


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to any number of windows."""

    WindowAssignerContext = WindowAssignerContext

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: _AssignerContext) -> Collection[W]:
        """Return the windows of `element`. `timestamp` (ms) is MIN_TIMESTAMP if the record has no timestamp."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """Return the trigger to use if the program sets no trigger."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """Return the serializer of windows."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Return whether the watermark ends windows, rather than the clock."""


# An alias, because inside the class below the plain name refers to its attribute.
_Callback: TypeAlias = MergeCallback


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may be merged, such as sessions."""

    MergeCallback = MergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: _Callback[W]) -> None:
        """Call `callback` for each set of the key's windows that become one."""


def require_timestamp(timestamp: int) -> None:
    """Raise ProgramError if `timestamp` is the placeholder of a record without a timestamp."""
    if timestamp <= MIN_TIMESTAMP:
        raise no_timestamp()


def no_timestamp() -> ProgramError:
    """Return the error for a record without a timestamp in an event-time window."""
    return ProgramError(
        "a record reached an event-time window but has no timestamp: is assign_timestamps_and_watermarks missing? "
        "(Processing-time windows do not need timestamps.)"
    )
