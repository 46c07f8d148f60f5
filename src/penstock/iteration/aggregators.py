"""The usual aggregators of iterations. Source: Flink's LongSumAggregator, DoubleSumAggregator and their kind."""

from __future__ import annotations

from typing import Any

from penstock.api.functions.aggregator import Aggregator


class SumAggregator(Aggregator[Any]):
    """The sum of numbers; 0 without numbers."""

    def __init__(self) -> None:
        self._sum: Any = 0

    def aggregate(self, element: Any) -> None:
        """Add a number."""
        self._sum += element

    def get_aggregate(self) -> Any:
        """Return the sum so far."""
        return self._sum

    def reset(self) -> None:
        """Begin again with 0."""
        self._sum = 0


class _Choice(Aggregator[Any]):
    """Keeps one of the values; None without values."""

    def __init__(self) -> None:
        self._chosen: Any = None

    def aggregate(self, element: Any) -> None:
        """Choose between the value and the one chosen so far. None counts as no value."""
        if element is not None and (self._chosen is None or self._prefers(element, self._chosen)):
            self._chosen = element

    def get_aggregate(self) -> Any:
        """Return the value chosen so far, or None."""
        return self._chosen

    def reset(self) -> None:
        """Begin again without a value."""
        self._chosen = None

    @staticmethod
    def _prefers(one: Any, other: Any) -> bool:
        raise NotImplementedError


class MaxAggregator(_Choice):
    """The largest value; None without values."""

    @staticmethod
    def _prefers(one: Any, other: Any) -> bool:
        return bool(one > other)


class MinAggregator(_Choice):
    """The smallest value; None without values."""

    @staticmethod
    def _prefers(one: Any, other: Any) -> bool:
        return bool(one < other)
