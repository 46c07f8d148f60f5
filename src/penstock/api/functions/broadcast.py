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
    """Reads or changes one state of each key: see `apply_to_keyed_state`. A plain callable is accepted as well."""

    @abstractmethod
    def process(self, key: KEY, state: S) -> None:
        """Read or change `state`, which belongs to `key`."""


class _BaseContext(ABC):
    """Context common to both inputs. Valid only until the function returns."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Return the event time (ms) of the record or timer, or None if the record has no timestamp."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the current watermark of the subtask, in milliseconds."""


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
        """Call `function(key, state)` for each key of this subtask that has this state, in any order.

        The call takes time in proportion to the number of keys, and the subtask does nothing else meanwhile. Source:
        Flink docs, "The Broadcast State Pattern", applyToKeyedState.
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
        """Return the timer service: current time, and registration of timers."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Return the key of the record or of the timer."""


class _OnTimerContext(_KeyedReadOnlyContext):
    """Context of a firing timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""


class BaseBroadcastProcessFunction(Function):
    """Base class of the broadcast process functions, with the types of their contexts."""

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
        """Return the results for a broadcast record. All subtasks receive it and must update their state alike."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """A BroadcastProcessFunction of a keyed stream, with keyed state and timers.

    A broadcast record has no key: `process_broadcast_element` can't use keyed state or timers, except by
    `apply_to_keyed_state`.
    """

    Context: TypeAlias = _KeyedWritingContext
    ReadOnlyContext: TypeAlias = _KeyedReadOnlyContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(self, value: IN1, ctx: _KeyedReadOnlyContext) -> Iterable[OUT] | None:
        """Return the results for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: _KeyedWritingContext) -> Iterable[OUT] | None:
        """Return the results for a broadcast record. All subtasks receive it and must update their state alike."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """Return the results for a firing timer that was registered for `timestamp` (ms)."""
        return None
