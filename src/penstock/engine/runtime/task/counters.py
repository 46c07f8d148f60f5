"""What operators and subtasks count. Plain attributes: one addition a chunk, read by the reports of the host."""

from __future__ import annotations

from typing import Literal

from penstock.common.constants import MIN_TIMESTAMP


class OperatorCounters:
    """Of one operator in one subtask."""

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
        """Metrics of `user` that are the lowest or the highest value. All others are sums."""


class TaskCounters:
    """Of one subtask: bytes sent, received and restored, and its time busy, idle and back-pressured (nanoseconds).

    Of its latest checkpoint: how long after the trigger its part began, and how long barriers waited for each other.
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
        """None: no barrier waits."""
        self.operators: list[OperatorCounters] = []

    def aligned_ns(self, now_ns: int) -> int:
        """How long the latest alignment took, or how long the present one lasts. Any thread may ask."""
        since_ns = self.aligning_since_ns
        return self.alignment_ns if since_ns is None else now_ns - since_ns

    def latency(self, ms: int) -> None:
        """A latency marker arrived `ms` after it was sent."""
        self.latency_count += 1
        self.latency_sum_ms += ms
        self.latency_max_ms = max(self.latency_max_ms, ms)
