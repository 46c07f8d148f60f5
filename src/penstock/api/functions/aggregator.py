"""Aggregators of structured iterations. Source: Flink's Aggregator and ConvergenceCriterion (DataSet API, to 1.20)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Aggregator(ABC, Generic[T]):
    """Aggregates values of all subtasks of an iteration over one superstep; the next superstep reads the result.

    Each task aggregates in a copy of its own. Copies are combined by aggregating the result of one in another, so the
    operation must be associative and commutative.
    """

    @abstractmethod
    def aggregate(self, element: T) -> None:
        """Add a value, or the result of another copy."""

    @abstractmethod
    def get_aggregate(self) -> T:
        """Return the result so far."""

    @abstractmethod
    def reset(self) -> None:
        """Begin again: a new superstep begins."""


class SumAggregator(Aggregator[Any]):
    """The sum of numbers; 0 if there are none. In Java: `LongSumAggregator`, `DoubleSumAggregator`."""

    def __init__(self) -> None:
        self._sum: Any = 0

    def aggregate(self, element: Any) -> None:
        self._sum += element

    def get_aggregate(self) -> Any:
        return self._sum

    def reset(self) -> None:
        self._sum = 0


class MaxAggregator(Aggregator[Any]):
    """The largest value; None if there are none."""

    def __init__(self) -> None:
        self._largest: Any = None

    def aggregate(self, element: Any) -> None:
        if element is not None and (self._largest is None or element > self._largest):
            self._largest = element

    def get_aggregate(self) -> Any:
        return self._largest

    def reset(self) -> None:
        self._largest = None


class MinAggregator(Aggregator[Any]):
    """The smallest value; None if there are none."""

    def __init__(self) -> None:
        self._smallest: Any = None

    def aggregate(self, element: Any) -> None:
        if element is not None and (self._smallest is None or element < self._smallest):
            self._smallest = element

    def get_aggregate(self) -> Any:
        return self._smallest

    def reset(self) -> None:
        self._smallest = None


class ConvergenceCriterion(ABC, Generic[T]):
    """Ends an iteration by the value of an aggregator."""

    @abstractmethod
    def is_converged(self, iteration: int, value: T) -> bool:
        """Return whether the iteration ends after superstep `iteration` (from 0), whose aggregate is `value`.

        Each head of the iteration asks a copy of its own, so the answer must depend on the arguments alone.
        """
