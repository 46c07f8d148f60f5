"""Functions of windows: called with the records of a window when it fires. Source: Flink docs, "Windows"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeAlias, TypeVar

from penstock.api.functions.function import Function
from penstock.api.state.state import KeyedStateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Results for a window of a keyed stream."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The results for the records of `key` in `window`, which come in the order of their arrival."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Results for a window over all records."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """The results for the records in `window`."""


class _AllWindowContext(ABC, Generic[W2]):
    """What may be asked about the window that fires."""

    @abstractmethod
    def window(self) -> W2:
        """The window."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """States of this key in this window. What is stored there must be removed in `clear`."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """States of this key in all windows."""


class _WindowContext(_AllWindowContext[W2]):
    """The same for keyed streams."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The wall clock, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time of the subtask, in milliseconds."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Results for a window of a keyed stream, with a look at time and state."""

    Context: TypeAlias = _WindowContext

    @abstractmethod
    def process(self, key: KEY, context: _WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """The results for the records of `key` in the window; called each time it fires."""

    def clear(self, context: _WindowContext[W]) -> None:
        """The window goes away: remove what was stored in its state."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Results for a window over all records, with a look at state."""

    Context: TypeAlias = _AllWindowContext

    @abstractmethod
    def process(self, context: _AllWindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """The results for the records in the window; called each time it fires."""

    def clear(self, context: _AllWindowContext[W]) -> None:
        """The window goes away: remove what was stored in its state."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """The records themselves."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        """The records as they are."""
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """The records themselves."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        """The records as they are."""
        return inputs
