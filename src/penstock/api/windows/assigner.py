"""What a window assigner is: it assigns a record to windows. Source: Flink docs, "Windows", Window Assigners."""

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
    """What an assigner may ask."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """The wall clock, in milliseconds since the epoch."""

    @abstractmethod
    def get_runtime_context(self) -> RuntimeContext:
        """Gives the states of the record's key."""


# Inside of the classes below the plain names are those of their attributes.
_AssignerContext: TypeAlias = WindowAssignerContext


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to windows: none, one or several."""

    WindowAssignerContext = WindowAssignerContext

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: _AssignerContext) -> Collection[W]:
        """The windows of `element`. `timestamp` (ms) is the lowest possible one if the record has none."""

    @abstractmethod
    def get_default_trigger(self, env: Any) -> Trigger[T, W]:
        """The trigger of windows for which the program sets none."""

    @abstractmethod
    def get_window_serializer(self) -> TypeSerializer[W]:
        """How windows become bytes."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows end by the watermark rather than by the clock."""


# Inside of the class below the plain name is that of its attribute.
_Callback: TypeAlias = MergeCallback


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows may be merged, such as sessions."""

    MergeCallback = MergeCallback

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: _Callback[W]) -> None:
        """Call `callback` for each set of a key's windows that become one."""


def require_timestamp(timestamp: int) -> None:
    """Raise ProgramError for the timestamp of a record that has none."""
    if timestamp <= MIN_TIMESTAMP:
        raise no_timestamp()


def no_timestamp() -> ProgramError:
    """The error of an event-time window that is given a record without a timestamp."""
    return ProgramError(
        "a record reached an event-time window but has no timestamp: is assign_timestamps_and_watermarks missing? "
        "(Processing-time windows need none.)"
    )
