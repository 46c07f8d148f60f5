"""Process functions: access to records, time, timers and state. Source: Flink docs, "Process Function"."""

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
    """Context of the current record. Valid only until the function returns."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Return the timer service: current time, and registration of timers."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Return the event time (ms) of the record or timer, or None if the record has no timestamp."""


class _KeyedContext(_Context):
    """Context of the current record of a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Return the key of the record or of the timer."""


class _OnTimerContext(_KeyedContext):
    """Context of a firing timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Return the time domain of the timer."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for each record, with access to time. Timers require a KeyedProcessFunction."""

    Context: TypeAlias = _Context

    @abstractmethod
    def process_element(self, value: IN, ctx: _Context) -> Iterable[OUT] | None:
        """Return the results for `value`. None is the same as an empty iterable."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """Returns any number of results for each record and each timer of a keyed stream."""

    Context: TypeAlias = _KeyedContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element(self, value: IN, ctx: _KeyedContext) -> Iterable[OUT] | None:
        """Return the results for `value`. None is the same as an empty iterable."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """Return the results for a firing timer that was registered for `timestamp` (ms)."""
        return None


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns any number of results for each record of two connected streams."""

    Context: TypeAlias = _Context

    @abstractmethod
    def process_element1(self, value: IN1, ctx: _Context) -> Iterable[OUT] | None:
        """Return the results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: _Context) -> Iterable[OUT] | None:
        """Return the results for a record of the second stream."""


class KeyedCoProcessFunction(Function, Generic[KEY, IN1, IN2, OUT]):
    """Returns any number of results for each record and timer of two streams connected by key, which share state."""

    Context: TypeAlias = _KeyedContext
    OnTimerContext: TypeAlias = _OnTimerContext

    @abstractmethod
    def process_element1(self, value: IN1, ctx: _KeyedContext) -> Iterable[OUT] | None:
        """Return the results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: _KeyedContext) -> Iterable[OUT] | None:
        """Return the results for a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: _OnTimerContext) -> Iterable[OUT] | None:
        """Return the results for a firing timer that was registered for `timestamp` (ms)."""
        return None
