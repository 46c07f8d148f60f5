"""Metrics of users' functions, by PyFlink's names: counters, gauges, meters and distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class Metric:
    """What a function registers with its MetricGroup."""


class Counter(Metric):
    """A number that goes up and down."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Take `n` away."""
        self._count -= n

    def get_count(self) -> int:
        """The present value."""
        return self._count


class Meter(Metric):
    """Counts events; the reporter derives their rate."""

    def __init__(self) -> None:
        self._count = 0

    def mark_event(self, value: int = 1) -> None:
        """`value` events happened."""
        self._count += value

    def get_count(self) -> int:
        """How many events were marked."""
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
    """Where a function registers metrics. Names are joined by dots; a name registered twice gives the same metric.

    Each method raises TypeError for a name that is no string, ValueError for one with a lone surrogate.
    """

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group inside this one: `name`, or the pair `name.extra`."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """A counter of that name. Raises ValueError if the name belongs to a metric of another kind."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """A number read by calling `obj`, from another thread. Left out while the call fails or gives no number.

        A number beyond 64 bits is none either, of a counter or a distribution, too.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter of that name. Raises ValueError if the name belongs to a metric of another kind."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """A distribution of that name, read as `name.count`, `.sum`, `.min` and `.max`.

        Raises ValueError if the name belongs to a metric of another kind.
        """
