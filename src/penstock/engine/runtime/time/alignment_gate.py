"""Watermark alignment, the part of a source's subtask: it reports its watermark, and pauses above the limit.

While it waits its idle timeout stands still: it has records, and may not emit them. Source: Flink docs, "Generating
Watermarks", Watermark alignment; FLIP-182, FLINK-35886.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.watermark_strategy import WatermarkAlignment


class AlignmentGate:
    """Of one subtask. `report` sends (group, watermark in milliseconds) to the job master."""

    __slots__ = ("_alignment", "_closed_at_ms", "_limit", "_now_ms", "_report", "_waited_ms", "report_at_ms")

    def __init__(
        self, alignment: WatermarkAlignment, now_ms: Callable[[], int], report: Callable[[str, int], None]
    ) -> None:
        self._alignment = alignment
        self._now_ms = now_ms
        self._report = report
        self._limit = MAX_TIMESTAMP
        self._closed_at_ms: int | None = None
        self._waited_ms = 0
        self.report_at_ms = now_ms() + alignment.update_interval_ms
        """When the watermark is reported next."""

    def tick(self, watermark: int, active: bool) -> None:
        """Report a watermark, if there is one yet. An idle subtask does not limit the group."""
        self.report_at_ms = self._now_ms() + self._alignment.update_interval_ms
        if not active:
            self._report(self._alignment.group, MAX_TIMESTAMP)
        elif watermark > MIN_TIMESTAMP:
            self._report(self._alignment.group, watermark)

    def is_closed(self, watermark: int) -> bool:
        """Whether a source with this watermark has to wait."""
        closed = watermark > self._limit
        if closed and self._closed_at_ms is None:
            self._closed_at_ms = self._now_ms()
        return closed

    def move(self, limit: int) -> None:
        """Sources of the group may emit up to this event time."""
        self._limit = limit
        if self._closed_at_ms is not None:
            self._waited_ms += self._now_ms() - self._closed_at_ms
            self._closed_at_ms = None

    @property
    def waited_ms(self) -> int:
        """How long the source has waited so far."""
        since_ms = self._closed_at_ms
        return self._waited_ms + (self._now_ms() - since_ms if since_ms is not None else 0)
