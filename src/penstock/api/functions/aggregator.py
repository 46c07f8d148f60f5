"""Aggregators of structured iterations. Source: Flink's Aggregator and ConvergenceCriterion (DataSet API, to 1.20)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

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


class ConvergenceCriterion(ABC, Generic[T]):
    """Ends an iteration by the value of an aggregator."""

    @abstractmethod
    def is_converged(self, iteration: int, value: T) -> bool:
        """Return whether the iteration ends after superstep `iteration` (from 0), whose aggregate is `value`.

        Each head of the iteration asks a copy of its own, so the answer must depend on the arguments alone.
        """
