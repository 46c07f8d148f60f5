"""What operators and subtasks count. Plain attributes: one addition a chunk, read by the reports of the host."""

from __future__ import annotations

from typing import Literal

from penstock.common.constants import MIN_TIMESTAMP


class OperatorCounters:
    """Of one operator in one subtask."""

    __slots__ = ("extremes", "late_records_dropped", "name", "records_in", "records_out", "user", "watermark")

    def __init__(self, name: str) -> None:
        self.name = name
        self.records_in = 0
        self.records_out = 0
        self.late_records_dropped = 0
        self.watermark = MIN_TIMESTAMP
        self.user: dict[str, int | float] = {}
        self.extremes: dict[str, Literal["min", "max"]] = {}
        """Metrics of `user` that are the lowest or the highest value. All others are sums."""


class TaskCounters:
    """Of one subtask: bytes sent, received and restored, and its time busy, idle and back-pressured (nanoseconds)."""

    __slots__ = (
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
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = 0
        self.buffers_in = self.buffers_out = 0
        self.busy_ns = self.idle_ns = self.back_pressured_ns = 0
        self.latency_count = self.latency_sum_ms = self.latency_max_ms = 0
        self.restored_bytes = self.bytes_to_restore = 0
        self.restored_files = self.files_to_restore = 0
        self.operators: list[OperatorCounters] = []

    def latency(self, ms: int) -> None:
        """A latency marker arrived `ms` after it was sent."""
        self.latency_count += 1
        self.latency_sum_ms += ms
        self.latency_max_ms = max(self.latency_max_ms, ms)
