"""Counters of operators and subtasks, and the metrics of users' functions, which are reported with them."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, Literal

from penstock.api.metrics import Counter, Distribution, Meter, MetricGroup
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED
from penstock.common.text.unicode_text import check_writable


class OperatorCounters:
    """Counters of one operator in one subtask: plain attributes, which cost one addition per chunk."""

    # fmt: off
    __slots__ = (
        "extremes", "late_records_dropped", "name", "output_watermark", "records_in", "records_out", "user",
        "watermark",
    )
    # fmt: on

    def __init__(self, name: str) -> None:
        self.name = name
        self.records_in = 0
        self.records_out = 0
        self.late_records_dropped = 0
        self.watermark = self.output_watermark = MIN_TIMESTAMP
        self.user: dict[str, int | float] = {}
        self.extremes: dict[str, Literal["min", "max"]] = {}
        """Metrics of `user` that are minima or maxima. All others are sums."""


class TaskCounters:
    """Counters of one subtask: bytes sent, received and restored; its time busy, idle and back-pressured (ns).

    For its latest checkpoint: the delay from the trigger to its start, and how long barriers waited for each other.
    """

    __slots__ = (
        "aligning_since_ns",
        "alignment_ns",
        "back_pressured_ns",
        "buffers_in",
        "buffers_out",
        "busy_ns",
        "bytes_in",
        "bytes_out",
        "bytes_to_restore",
        "files_to_restore",
        "idle_ns",
        "latency_count",
        "latency_max_ms",
        "latency_sum_ms",
        "operators",
        "restored_bytes",
        "restored_files",
        "start_delay_ms",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = 0
        self.buffers_in = self.buffers_out = 0
        self.busy_ns = self.idle_ns = self.back_pressured_ns = 0
        self.latency_count = self.latency_sum_ms = self.latency_max_ms = 0
        self.restored_bytes = self.bytes_to_restore = 0
        self.restored_files = self.files_to_restore = 0
        self.start_delay_ms = self.alignment_ns = 0
        self.aligning_since_ns: int | None = None
        """When the current alignment began; None if no barrier waits."""
        self.operators: list[OperatorCounters] = []

    def aligned_ns(self, now_ns: int) -> int:
        """Return how long the latest alignment took, or the current one has lasted. Any thread may call this."""
        since_ns = self.aligning_since_ns
        return self.alignment_ns if since_ns is None else now_ns - since_ns

    def latency(self, ms: int) -> None:
        """Record a latency marker that arrived `ms` after it was sent."""
        self.latency_count += 1
        self.latency_sum_ms += ms
        self.latency_max_ms = max(self.latency_max_ms, ms)


_REPORTED_MIN, _REPORTED_MAX = -(1 << 63), (1 << 64) - 1
"""The integers that MessagePack can encode: reports to the driver hold no others."""


class OperatorMetricGroup(MetricGroup):
    """Joins names to a path, and writes current values into the counters of the operator."""

    def __init__(self, counters: OperatorCounters, scope: str = "") -> None:
        self._counters = counters
        self._scope = scope
        self._readers: dict[str, Callable[[], int | float | None]] = {}
        self._metrics: dict[str, Counter | Meter | Distribution] = {}
        self._groups: list[OperatorMetricGroup] = []

    def add_group(self, name: str, extra: str | None = None) -> OperatorMetricGroup:
        for part in (name,) if extra is None else (name, extra):
            check_writable(part, "the name of a group of metrics")
        scope = f"{self._scope}{name}." + (f"{extra}." if extra is not None else "")
        group = OperatorMetricGroup(self._counters, scope)
        self._groups.append(group)
        return group

    def counter(self, name: str) -> Counter:
        _check_name(name)
        counter = self._metrics.setdefault(name, Counter())
        if not isinstance(counter, Counter):
            raise ValueError(f"the metric '{name}' is registered as a {type(counter).__name__} already")
        self._readers[name] = counter.get_count
        return counter

    def gauge(self, name: str, obj: Callable[[], int | float | None]) -> None:
        _check_name(name)
        self._readers[name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        _check_name(name)
        meter = self._metrics.setdefault(name, Meter())
        if not isinstance(meter, Meter):
            raise ValueError(f"the metric '{name}' is registered as a {type(meter).__name__} already")
        self._readers[name] = meter.get_count
        return meter

    def distribution(self, name: str) -> Distribution:
        _check_name(name)
        distribution = self._metrics.setdefault(name, Distribution())
        if not isinstance(distribution, Distribution):
            raise ValueError(f"the metric '{name}' is registered as a {type(distribution).__name__} already")
        for figure in ("count", "sum", "min", "max"):
            self._readers[f"{name}.{figure}"] = lambda figure=figure: getattr(distribution, figure) or 0  # type: ignore[misc]
        self._counters.extremes |= {f"{self._scope}{name}.min": "min", f"{self._scope}{name}.max": "max"}
        return distribution

    def collect(self) -> None:
        """Write the current values into the counters that the host reports."""
        # A copy: the heartbeat's thread collects while a function may register another metric.
        for name, read in list(self._readers.items()):
            try:
                value = _plain(read())
            except RAISED:
                value = None  # a user's gauge that fails has no value now; the other metrics are still reported
            if value is not None:
                self._counters.user[self._scope + name] = value
            else:
                self._counters.user.pop(self._scope + name, None)
        for group in self._groups:
            group.collect()


def watermark_lag_ms(counters: OperatorCounters, now_ms: int) -> int | None:
    """Return how far the watermark that an operator emitted lags behind the clock; None before the first, at the end.

    Source: FLIP-33, watermarkLag.
    """
    emitted_ms = counters.output_watermark
    return now_ms - emitted_ms if MIN_TIMESTAMP < emitted_ms < MAX_TIMESTAMP else None


def _check_name(name: str) -> None:
    check_writable(name, "the name of a metric")


def _plain(value: Any) -> int | float | None:
    """Return a number, numpy's included, as one of Python's; None if it is not a number or too large to report."""
    if isinstance(value, numbers.Integral):
        number = int(value)
        return number if _REPORTED_MIN <= number <= _REPORTED_MAX else None
    return float(value) if isinstance(value, numbers.Real) else None
