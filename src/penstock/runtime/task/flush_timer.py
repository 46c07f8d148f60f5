"""The buffer timeout: when buffers leave that are not full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.runtime.network.output import OutputEdge


class FlushTimer:
    """Of one task. Without `timeout_ms` (negative) buffers leave only when they are full."""

    __slots__ = ("_edges", "_flushed_ms", "_now_ms", "_timeout_ms", "at_ms")

    def __init__(self, edges: Sequence[OutputEdge], timeout_ms: int, now_ms: Callable[[], int]) -> None:
        self._edges = edges
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms
        self._flushed_ms = 0
        self.at_ms: int | None = None
        """When the next flush is due (ms); None: nothing is waiting, or nothing times out."""

    def flush_due(self) -> None:
        """Start the timeout if something is waiting since this step, and flush if it is over."""
        if not any(edge.pending for edge in self._edges):
            self.at_ms = None
            return
        if self._timeout_ms < 0:
            return
        now_ms = self._now_ms()
        if self.at_ms is None:
            # Counted from the last flush: the first records after a quiet moment leave at once, and still there is at
            # most one flush per timeout.
            self.at_ms = max(now_ms, self._flushed_ms + self._timeout_ms)
        if now_ms >= self.at_ms:
            for edge in self._edges:
                edge.flush()
            self.at_ms = None
            self._flushed_ms = now_ms
