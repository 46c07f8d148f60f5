"""Event time over several streams: the minimum over those that are active, which only goes forward.

The inputs of an operator, each with a valve of its own over its channels (`time/watermarks.py`), and the splits of a
source are combined so. Source: Flink's CombinedWatermarkStatus, as AbstractStreamOperator and
WatermarkOutputMultiplexer use it. A stream that is added, or that becomes active again, holds event time until it has
caught up. When all are idle, event time stays where it is. Two rules differ from Flink's:

* A stream that becomes active again changes nothing until its next watermark. In Flink the operator may emit a
  watermark at that moment, before it reports that it is active, and receivers ignore watermarks of an idle channel.
* The last watermark is reached only when every stream has sent it, idle ones included, as in the valve.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP


class CombinedWatermark:
    """Watermarks and statuses of `streams`, by their names; `current` and `active` are those of all together."""

    __slots__ = ("_active", "_holders", "_lowest", "_watermarks", "active", "current")

    def __init__(self, streams: Iterable[Hashable]) -> None:
        self._watermarks = dict.fromkeys(streams, MIN_TIMESTAMP)
        self._active = set(self._watermarks)
        self._lowest = MIN_TIMESTAMP
        """No active stream is behind this."""
        self._holders = 0
        """How many active streams have this watermark; 0 where they have to be counted first."""
        self.current = MIN_TIMESTAMP
        self.active = True

    def add(self, stream: Hashable) -> None:
        """One more stream, which is active and has no watermark yet."""
        self._watermarks[stream] = MIN_TIMESTAMP
        self._active.add(stream)
        self._lowest, self._holders = MIN_TIMESTAMP, 0
        self.active = True

    def remove(self, stream: Hashable) -> bool:
        """A stream is over, and no longer waited for. True: `current` has advanced."""
        del self._watermarks[stream]
        self._active.discard(stream)
        self.active = bool(self._active)
        return self._advance()

    def watermark(self, stream: Hashable, timestamp: int) -> bool:
        """A stream reached `timestamp` (ms). True: `current` has advanced."""
        before = self._watermarks[stream]
        self._watermarks[stream] = max(before, timestamp)
        if self._lowest <= self.current and timestamp < MAX_TIMESTAMP:
            # Another stream holds event time: a source must not look at its thousand splits for each chunk of one.
            if before > self._lowest:
                return False
            if timestamp > before and stream in self._active:
                self._holders -= 1
                if self._holders > 0:
                    return False
        return self._advance()

    def status(self, stream: Hashable, active: bool) -> bool:
        """A stream became idle or active. True: `current` has advanced; then `active` is the same as before."""
        if active == (stream in self._active):
            return False
        if active:
            self._active.add(stream)
            self._lowest, self._holders = min(self._lowest, self._watermarks[stream]), 0
            self.active = True
            return False
        self._active.discard(stream)
        self.active = bool(self._active)
        return self._advance()

    def _advance(self) -> bool:
        watermarks = self._watermarks
        counted = [watermarks[stream] for stream in self._active]
        lowest = self._lowest = min(counted, default=MAX_TIMESTAMP)
        self._holders = counted.count(lowest)
        if not self._active or lowest <= self.current:
            return False
        if lowest == MAX_TIMESTAMP and min(watermarks.values()) < MAX_TIMESTAMP:
            # Those that are active have ended, but an idle one may still wake up: event time is not over.
            return False
        self.current = lowest
        return True
