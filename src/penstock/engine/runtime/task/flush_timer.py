"""The buffer timeout: when buffers leave that are not full."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.engine.runtime.network.output import OutputEdge

_STRETCHED = 10
"""So many timeouts a buffer waits at most, however long its task waits for a core meanwhile."""


class FlushTimer:
    """Of one task. Without `timeout_ms` (negative) buffers leave only when they are full.

    The timeout does not count the time in which the slot's thread waited for a core, by `core_wait_ns`. Where more
    slots have work than there are cores, each would find its timeout over after each step, and send buffers that are
    nearly empty; these keep the cores busy, so that the next ones are emptier still.
    docs/internals/decisions/0037-time-without-a-core.md has the figures.
    """

    __slots__ = ("_core_wait_ns", "_edges", "_flushed_ms", "_now_ms", "_since_ms", "_timeout_ms", "_waited_ns", "at_ms")

    def __init__(
        self,
        edges: Sequence[OutputEdge],
        timeout_ms: int,
        now_ms: Callable[[], int],
        core_wait_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._edges = edges
        self._timeout_ms = timeout_ms
        self._now_ms = now_ms
        self._core_wait_ns = core_wait_ns
        self._flushed_ms = 0
        self._waited_ns = 0
        """`core_wait_ns` as of the last flush."""
        self._since_ms = 0
        """Since when something is waiting, if anything is."""
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
        if self.at_ms is None or now_ms < self._since_ms:
            # In the second case the clock was set back: what waits would do so for as long.
            # Counted from the last flush: the first records after a quiet moment leave at once, and still there is at
            # most one flush per timeout.
            self._since_ms = now_ms
            self.at_ms = min(max(now_ms, self._flushed_ms + self._timeout_ms), now_ms + self._timeout_ms)
        if now_ms >= self.at_ms and not self._put_off(now_ms):
            for edge in self._edges:
                edge.flush()
            self.at_ms = None
            self._flushed_ms = now_ms

    def _put_off(self, now_ms: int) -> bool:
        """Whether the flush is due later, since there was no core for a part of the time."""
        waited_ns = self._core_wait_ns()
        later_ms = self._flushed_ms + self._timeout_ms + (waited_ns - self._waited_ns) // 1_000_000
        later_ms = min(later_ms, self._since_ms + _STRETCHED * self._timeout_ms)
        if now_ms < later_ms:
            self.at_ms = later_ms
            return True
        self._waited_ns = waited_ns
        return False
