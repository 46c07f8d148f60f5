"""Functions that receive matches. Source: Flink docs, "Event Processing (CEP)", Detecting Patterns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from penstock.api.functions.function import Function
from penstock.api.output_tag import OutputTag

IN = TypeVar("IN")
OUT = TypeVar("OUT")
V = TypeVar("V")


class _Context(Protocol):
    """The times of a match, and side outputs. Valid only until the function returns."""

    def timestamp(self) -> int:
        """Return the time of the match (ms): of the event that completed it, or at which its time ended."""

    def current_processing_time(self) -> int:
        """Return the processing time (ms)."""

    def pattern_id(self) -> str | None:
        """Return the id of the rule whose pattern the match is of; None if the pattern is part of the program."""

    def pattern_version(self) -> int | None:
        """Return the version of that rule."""

    def output(self, output_tag: OutputTag[V], value: V) -> None:
        """Emit a value to a side output."""


class PatternProcessFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for each match, and may emit to side outputs, with `yield tag, value`, too."""

    Context: TypeAlias = _Context

    @abstractmethod
    def process_match(self, match: dict[str, list[IN]], ctx: _Context) -> Iterable[OUT] | None:
        """Return the results for a match: the events of each step that took any, steps and events in order."""


class TimedOutPartialMatchHandler(ABC, Generic[IN]):
    """A second base class of a PatternProcessFunction that also receives partial matches whose time has ended."""

    @abstractmethod
    def process_timed_out_match(
        self, match: dict[str, list[IN]], ctx: _Context
    ) -> Iterable[tuple[OutputTag[Any], Any]] | None:
        """Receive a partial match. Results go to side outputs only, as in Flink: `yield tag, value`."""


class PatternSelectFunction(Function, Generic[IN, OUT]):
    """Returns one result for each match."""

    @abstractmethod
    def select(self, match: dict[str, list[IN]]) -> OUT:
        """Return the result for a match."""


class PatternFlatSelectFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for each match."""

    @abstractmethod
    def flat_select(self, match: dict[str, list[IN]]) -> Iterable[OUT] | None:
        """Return the results for a match."""


class PatternTimeoutFunction(Function, Generic[IN, OUT]):
    """Returns one result for each partial match whose time has ended."""

    @abstractmethod
    def timeout(self, match: dict[str, list[IN]], timeout_timestamp: int) -> OUT:
        """Return the result for a partial match whose time ended at `timeout_timestamp` (ms)."""


class PatternFlatTimeoutFunction(Function, Generic[IN, OUT]):
    """Returns any number of results for each partial match whose time has ended."""

    @abstractmethod
    def timeout(self, match: dict[str, list[IN]], timeout_timestamp: int) -> Iterable[OUT] | None:
        """Return the results for a partial match whose time ended at `timeout_timestamp` (ms)."""


class EventComparator(ABC, Generic[IN]):
    """Orders events with equal timestamps."""

    @abstractmethod
    def compare(self, first: IN, second: IN) -> int:
        """Return a negative number if `first` comes first, a positive one if `second` does, 0 for either order."""
