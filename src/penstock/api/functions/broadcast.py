"""Functions of a stream connected with a broadcast one. Source: Flink docs, "The Broadcast State Pattern"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.functions.function import Function
from penstock.api.state.descriptors import MapStateDescriptor
from penstock.api.state.state import BroadcastState, ReadOnlyBroadcastState
from penstock.api.timers import TimeDomain, TimerService

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class _BaseContext(ABC):
    """What may be asked on both sides. Valid only until the function has returned."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time (ms) of the record or of the timer; None if the record has none."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """The wall clock, in milliseconds since the epoch."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The event time of the subtask, in milliseconds."""


class _WritingContext(_BaseContext):
    """What may be asked on the broadcast side."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A broadcast state, to read and change."""


class _ReadOnlyContext(_BaseContext):
    """What may be asked on the other side."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """A broadcast state, to read only."""


class _KeyedReadOnlyContext(_ReadOnlyContext):
    """What may be asked on the other side if it is keyed."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Time, and timers."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or of the timer."""


class _OnTimerContext(_KeyedReadOnlyContext):
    """What may be asked when a timer fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Which time the timer belongs to."""


class BaseBroadcastProcessFunction(Function):
    """What the two broadcast process functions have in common: their contexts."""

    BaseContext: TypeAlias = _BaseContext
    Context: TypeAlias = _WritingContext
    ReadOnlyContext: TypeAlias = _ReadOnlyContext


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Any number of results for each record of a stream and of the broadcast stream connected with it."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: _ReadOnlyContext) -> Iterable[OUT] | None:
        """The results for a record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: _WritingContext) -> Iterable[OUT] | None:
        """The results for a broadcast record. Every subtask gets it and must change its state in the same way."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """The same for a keyed stream, which has keyed state and timers, too."""

    ReadOnlyContext: TypeAlias = _KeyedReadOnlyContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(self, value: IN1, ctx: _KeyedReadOnlyContext) -> Iterable[OUT] | None:
        """The results for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: _WritingContext) -> Iterable[OUT] | None:
        """The results for a broadcast record. Every subtask gets it and must change its state in the same way."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """The results for a timer, set for `timestamp` (ms), that is due."""
        return None
