"""Process functions: records, time, timers and state at once. Source: Flink docs, "Process Function"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from penstock.api.functions.function import Function
from penstock.api.timers import TimeDomain, TimerService

IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")


class _Context(ABC):
    """What a process function may ask about the record it is given. Valid only until the function has returned."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Time, and timers."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Event time (ms) of the record or of the timer; None if the record has none."""


class _KeyedContext(_Context):
    """The same for keyed streams."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record or of the timer."""


class _OnTimerContext(_KeyedContext):
    """What may be asked when a timer fires."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Which time the timer belongs to."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record, with a look at time. Timers need a key: KeyedProcessFunction."""

    Context: TypeAlias = _Context

    @abstractmethod
    def process_element(self, value: IN, ctx: _Context) -> Iterable[OUT] | None:
        """The results for `value`; None is none."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """Any number of results for each record and each timer of a keyed stream."""

    Context: TypeAlias = _KeyedContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(self, value: IN, ctx: _KeyedContext) -> Iterable[OUT] | None:
        """The results for `value`; None is none."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """The results for a timer, set for `timestamp` (ms), that is due."""
        return None


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each record of two connected streams."""

    Context: TypeAlias = _Context

    @abstractmethod
    def process_element1(self, value: IN1, ctx: _Context) -> Iterable[OUT] | None:
        """The results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: _Context) -> Iterable[OUT] | None:
        """The results for a record of the second stream."""


class KeyedCoProcessFunction(Function, Generic[KEY, IN1, IN2, OUT]):
    """Any number of results for each record and timer of two streams connected by key; they share states."""

    Context: TypeAlias = _KeyedContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element1(self, value: IN1, ctx: _KeyedContext) -> Iterable[OUT] | None:
        """The results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: _KeyedContext) -> Iterable[OUT] | None:
        """The results for a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """The results for a timer, set for `timestamp` (ms), that is due."""
        return None
