"""Cumulative windows: they begin together each `size`, and one of them ends each `step`.

    size 30, step 10, offset 0           timestamp 17 is in [0, 20) and [0, 30)

        0         10        20        30        40
        [─────────)
        [───────────────────)
        [─────────────────────────────)
                                      [─────────)

They give the results so far of a long window, such as those of a day each minute. Flink's DataStream API has no such
assigner. Source: Flink docs, SQL, "Windowing table-valued functions", CUMULATE.
"""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.api.windows.assigners import AlignedEventTimeWindows, AlignedProcessingTimeWindows, AlignedWindows
from penstock.api.windows.window import TimeWindow
from penstock.common.time import TimeLength

T = TypeVar("T")


class CumulativeWindows(AlignedWindows[T]):
    """Windows of 1, 2, 3 and so on steps, up to `size_ms`, with the same start. `slide_ms` is the step."""

    slide_name = "step"

    def __init__(self, size: TimeLength, step: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, step, offset)
        if self.size_ms % self.slide_ms:
            raise ValueError(
                f"{type(self).__name__}: the size must be a multiple of the step, got {self.size_ms} and "
                f"{self.slide_ms} ms"
            )

    @property
    def period_ms(self) -> int:
        """The time between one start of windows and the next: their size."""
        return self.size_ms

    def windows_of(self, timestamp: int) -> list[TimeWindow]:
        """Return the windows that contain `timestamp` (ms), longest first."""
        start = timestamp - (timestamp - self.offset_ms) % self.size_ms
        return [TimeWindow(start, end) for end in range(start + self.size_ms, timestamp, -self.slide_ms)]


class CumulativeEventTimeWindows(CumulativeWindows[T], AlignedEventTimeWindows[T]):
    """Windows that begin together each `size`, one of which ends each `step`, by the record's timestamp.

    Raises ValueError if `size` or `step` is not positive, `size` is not a multiple of `step`, or `offset` is not
    smaller than `size`. Flink has them in SQL alone. Source: Flink docs, SQL, "Windowing table-valued functions",
    CUMULATE.
    """

    @staticmethod
    def of(size: TimeLength, step: TimeLength, offset: TimeLength | None = None) -> CumulativeEventTimeWindows[Any]:
        """Return windows of up to `size` that grow by `step`, moved by `offset`."""
        return CumulativeEventTimeWindows(size, step, 0 if offset is None else offset)


class CumulativeProcessingTimeWindows(CumulativeWindows[T], AlignedProcessingTimeWindows[T]):
    """Windows that begin together each `size`, one of which ends each `step`, by processing time.

    Raises ValueError if `size` or `step` is not positive, `size` is not a multiple of `step`, or `offset` is not
    smaller than `size`. Flink has them in SQL alone. Source: Flink docs, SQL, "Windowing table-valued functions",
    CUMULATE.
    """

    @staticmethod
    def of(
        size: TimeLength, step: TimeLength, offset: TimeLength | None = None
    ) -> CumulativeProcessingTimeWindows[Any]:
        """Return windows of up to `size` that grow by `step`, moved by `offset`."""
        return CumulativeProcessingTimeWindows(size, step, 0 if offset is None else offset)
