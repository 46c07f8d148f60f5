"""Metrics of the functions of one operator in one subtask, reported with its counters."""

from __future__ import annotations

from collections.abc import Callable

from penstock.api.metrics import Counter, Distribution, Meter, MetricGroup
from penstock.common.user_calls import RAISED
from penstock.runtime.task.counters import OperatorCounters


class OperatorMetricGroup(MetricGroup):
    """Joins names to a path and writes present values into the counters of the operator."""

    def __init__(self, counters: OperatorCounters, scope: str = "") -> None:
        self._counters = counters
        self._scope = scope
        self._read: dict[str, Callable[[], int | float]] = {}
        self._metrics: dict[str, Counter | Meter | Distribution] = {}
        self._groups: list[OperatorMetricGroup] = []

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetricGroup:
        scope = f"{self._scope}{name}." + (f"{extra}." if extra is not None else "")
        group = OperatorMetricGroup(self._counters, scope)
        self._groups.append(group)
        return group

    def counter(self, name: str) -> Counter:
        counter = self._metrics.setdefault(name, Counter())
        if not isinstance(counter, Counter):
            raise ValueError(f"the metric '{name}' is registered as a {type(counter).__name__} already")
        self._read[name] = counter.get_count
        return counter

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        self._read[name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        meter = self._metrics.setdefault(name, Meter())
        if not isinstance(meter, Meter):
            raise ValueError(f"the metric '{name}' is registered as a {type(meter).__name__} already")
        self._read[name] = meter.get_count
        return meter

    def distribution(self, name: str) -> Distribution:
        distribution = self._metrics.setdefault(name, Distribution())
        if not isinstance(distribution, Distribution):
            raise ValueError(f"the metric '{name}' is registered as a {type(distribution).__name__} already")
        for figure in ("count", "sum", "min", "max"):
            self._read[f"{name}.{figure}"] = lambda figure=figure: getattr(distribution, figure) or 0  # type: ignore[misc]
        self._counters.extremes |= {f"{self._scope}{name}.min": "min", f"{self._scope}{name}.max": "max"}
        return distribution

    def collect(self) -> None:
        """Write the present values where the subtask's counters are reported from."""
        # A copy: the heartbeat's thread collects while a function may register another metric.
        for name, read in list(self._read.items()):
            try:
                value = read()
            except RAISED:
                continue  # a user's gauge that fails has no value now; the other metrics are still reported
            if isinstance(value, (int, float)):
                self._counters.user[self._scope + name] = value
        for group in self._groups:
            group.collect()
