"""Functions of a stream connected to a broadcast stream. Source: Flink docs, "The Broadcast State Pattern"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.functions.function import Function
from penstock.api.state.descriptors import MapStateDescriptor, StateDescriptor
from penstock.api.state.state import BroadcastState, ReadOnlyBroadcastState
from penstock.api.timers import TimeDomain, TimerService

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
S = TypeVar("S")


class KeyedStateFunction(ABC, Generic[KEY, S]):
    """Is applied to a state of each key by `apply_to_keyed_state`. A plain callable does as well."""

    @abstractmethod
    def process(self, key: KEY, state: S) -> None:
        """Read or change `state`, which is that of `key`."""


class _BaseContext(ABC):
    """Context common to both inputs. Valid only until the function returns."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time (ms) of the record or of the timer; None if the record has none."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Processing time, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Current watermark of the subtask, in milliseconds."""


class _WritingContext(_BaseContext):
    """Context of the broadcast input."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a broadcast state for reading and writing."""


class _KeyedWritingContext(_WritingContext):
    """Context of the broadcast input if the other one is keyed."""

    @abstractmethod
    def apply_to_keyed_state(
        self,
        state_descriptor: StateDescriptor,
        function: KeyedStateFunction[Any, Any] | Callable[[Any, Any], object],
    ) -> None:
        """Call `function(key, state)` for each key of this subtask that has a state of that name, in no certain order.

        Takes time in proportion to the number of keys, during which the subtask does nothing else. Source: Flink docs,
        "The Broadcast State Pattern", applyToKeyedState.
        """


class _ReadOnlyContext(_BaseContext):
    """Context of the other input."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """Return a broadcast state for reading only."""


class _KeyedReadOnlyContext(_ReadOnlyContext):
    """Context of the other input if it is keyed."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Timer service: current time, and registration of timers."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or of the timer."""


class _OnTimerContext(_KeyedReadOnlyContext):
    """Context of a firing timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Time domain of the timer."""


class BaseBroadcastProcessFunction(Function):
    """Base class of the broadcast process functions: their contexts."""

    BaseContext: TypeAlias = _BaseContext
    Context: TypeAlias = _WritingContext
    ReadOnlyContext: TypeAlias = _ReadOnlyContext


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Returns any number of results for each record of a stream and of a connected broadcast stream."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: _ReadOnlyContext) -> Iterable[OUT] | None:
        """Return the results for a record of the non-broadcast stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: _WritingContext) -> Iterable[OUT] | None:
        """Return the results for a broadcast record. Each subtask receives it and must update its state identically."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A BroadcastProcessFunction of a keyed stream, with keyed state and timers.

    A broadcast record has no key: state and timers of a key can't be used in `process_broadcast_element`.
    """

    Context: TypeAlias = _KeyedWritingContext
    ReadOnlyContext: TypeAlias = _KeyedReadOnlyContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(self, value: IN1, ctx: _KeyedReadOnlyContext) -> Iterable[OUT] | None:
        """Return the results for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: _KeyedWritingContext) -> Iterable[OUT] | None:
        """Return the results for a broadcast record. Each subtask receives it and must update its state identically."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """Return the results for a timer registered for `timestamp` (ms) that fires."""
        return None
