"""Window functions, called with the records of a window when it fires. Source: Flink docs, "Windows"."""

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
    """Computes the results of a window of a keyed stream."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return the results for the records of `key` in `window`. `inputs` are in the order of arrival."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes the results of a non-keyed window."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return the results for the records in `window`."""


class _AllWindowContext(ABC, Generic[W2]):
    """Context of the firing window."""

    @abstractmethod
    def window(self) -> W2:
        """Return the window."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Return the store of this key's state in this window. Remove that state in `clear`."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Return the store of this key's state, which its windows share."""


class _WindowContext(_AllWindowContext[W2]):
    """Context of the firing window of a keyed stream."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark of the subtask, in milliseconds."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Computes the results of a window of a keyed stream, with access to time and state."""

    Context: TypeAlias = _WindowContext

    @abstractmethod
    def process(self, key: KEY, context: _WindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return the results for the records of `key` in the window. Called each time the window fires."""

    def clear(self, context: _WindowContext[W]) -> None:
        """Remove the state of the window. Called when it is purged."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Computes the results of a non-keyed window, with access to state."""

    Context: TypeAlias = _AllWindowContext

    @abstractmethod
    def process(self, context: _AllWindowContext[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return the results for the records in the window. Called each time the window fires."""

    def clear(self, context: _AllWindowContext[W]) -> None:
        """Remove the state of the window. Called when it is purged."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Returns the records unchanged."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        """Return the records."""
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Returns the records unchanged."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        """Return the records."""
        return inputs
