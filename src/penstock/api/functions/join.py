"""Functions of joined streams. Source: Flink docs, "Joining"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeAlias, TypeVar

from penstock.api.functions.function import Function

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class _JoinContext(ABC):
    """Context of a pair: event times, in milliseconds. Valid only until the function returns."""

    @abstractmethod
    def get_left_timestamp(self) -> int:
        """Return the event time of the record of the left stream."""

    @abstractmethod
    def get_right_timestamp(self) -> int:
        """Return the event time of the record of the right stream."""

    @abstractmethod
    def get_timestamp(self) -> int:
        """Return the event time of the pair and its results: the later one of the two."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns any number of results for each pair of records of an interval join."""

    Context: TypeAlias = _JoinContext

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: _JoinContext) -> Iterable[OUT] | None:
        """Return the results for a pair. None is the same as an empty iterable."""


class JoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns one result for each pair of records of a window join."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Return the result for a pair."""


class FlatJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns any number of results for each pair of records of a window join."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Return the results for a pair. None is the same as an empty iterable."""


class CoGroupFunction(Function, Generic[IN1, IN2, OUT]):
    """Returns any number of results for the records of two streams in a window."""

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None:
        """Return the results for the records of one key in one window. One side may be empty, but not both."""
