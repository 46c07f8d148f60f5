"""Metrics of users' functions, by PyFlink's names: counters, gauges, meters and distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Metric:
    """Base class of the metrics that a function registers with its MetricGroup."""


class Counter(Metric):
    """A number that is increased and decreased."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self._count -= n

    def get_count(self) -> int:
        """Return the current value."""
        return self._count


class Meter(Metric):
    """Counts events; the reporter derives their rate."""

    def __init__(self) -> None:
        self._count = 0

    def mark_event(self, value: int = 1) -> None:
        """Count `value` events."""
        self._count += value

    def get_count(self) -> int:
        """Return the number of events counted."""
        return self._count


class Distribution(Metric):
    """Count, sum, minimum and maximum of integers."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0
        self.min: int | None = None
        self.max: int | None = None

    def update(self, value: int) -> None:
        """Add one value."""
        self.count += 1
        self.sum += value
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


class MetricGroup(ABC):
    """Registers metrics of a function. Nested names are joined by dots; a name registered twice gives the same metric.

    Each method raises TypeError if the name is not a str, ValueError if it has a lone surrogate.
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """Return a group inside this one: `name`, or the pair `name.extra`."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Register a counter. Raises ValueError if the name belongs to a metric of another kind."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """Register a number that is read by calling `obj`, from another thread.

        The metric is left out while the call fails or does not return a number. Numbers of more than 64 bits are left
        out, in counters and distributions as well.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Register a meter. Raises ValueError if the name belongs to a metric of another kind."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Register a distribution, reported as `name.count`, `.sum`, `.min` and `.max`.

        Raises ValueError if the name belongs to a metric of another kind.
        """
