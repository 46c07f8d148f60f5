"""Metrics of users' functions: counters, gauges, meters and distributions, by PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.task.counters import OperatorCounters


class Counter:
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


class Meter:
    """Counts events; the reporter derives their rate."""

    def __init__(self) -> None:
        self._count = 0

    def mark_event(self, value: int = 1) -> None:
        """`value` events happened."""
        self._count += value

    def get_count(self) -> int:
        """How many events were marked."""
        return self._count


class Distribution:
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


class MetricGroup:
    """Where a function registers metrics. Names are joined by dots; a name registered twice gives the same metric."""

    def __init__(self, counters: OperatorCounters, scope: str = "") -> None:
        self._counters = counters
        self._scope = scope
        self._read: dict[str, Callable[[], int | float]] = {}
        self._metrics: dict[str, Counter | Meter | Distribution] = {}
        self._groups: list[MetricGroup] = []

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group inside this one: `name`, or the pair `name.extra`."""
        scope = f"{self._scope}{name}." + (f"{extra}." if extra is not None else "")
        group = MetricGroup(self._counters, scope)
        self._groups.append(group)
        return group

    def counter(self, name: str) -> Counter:
        """A counter of that name."""
        counter = self._metrics.setdefault(name, Counter())
        if not isinstance(counter, Counter):
            raise ValueError(f"the metric '{name}' is registered as a {type(counter).__name__} already")
        self._read[name] = counter.get_count
        return counter

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """A number read by calling `obj`, from another thread. Left out while the call fails or gives no number."""
        self._read[name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter of that name."""
        meter = self._metrics.setdefault(name, Meter())
        if not isinstance(meter, Meter):
            raise ValueError(f"the metric '{name}' is registered as a {type(meter).__name__} already")
        self._read[name] = meter.get_count
        return meter

    def distribution(self, name: str) -> Distribution:
        """A distribution of that name, read as `name.count`, `.sum`, `.min` and `.max`."""
        distribution = self._metrics.setdefault(name, Distribution())
        if not isinstance(distribution, Distribution):
            raise ValueError(f"the metric '{name}' is registered as a {type(distribution).__name__} already")
        for figure in ("count", "sum", "min", "max"):
            self._read[f"{name}.{figure}"] = lambda figure=figure: getattr(distribution, figure) or 0  # type: ignore[misc]
        return distribution

    def collect(self) -> None:
        """Write the present values where the subtask's counters are reported from."""
        for name, read in list(self._read.items()):
            try:
                value = read()
            except Exception:
                continue  # a gauge of the user's that fails has no value now; nothing else must suffer from it
            if isinstance(value, (int, float)):
                self._counters.user[self._scope + name] = value
        for group in self._groups:
            group.collect()
