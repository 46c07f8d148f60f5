"""Event time of an operator with several inputs: the minimum over its active inputs, which only goes forward.

Each input has a valve of its own over its channels (`time/watermarks.py`); this combines what the valves give. Source:
Flink's CombinedWatermarkStatus, as AbstractStreamOperator uses it. When all inputs are idle, event time stays where it
is. Two rules differ from Flink's:

* An input that becomes active again changes nothing until its next watermark. In Flink the operator may emit a
  watermark at that moment, before it reports that it is active, and receivers ignore watermarks of an idle channel.
* The last watermark is reached only when every input has sent it, idle ones included, as in the valve.
"""

from __future__ import annotations

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP


class CombinedWatermark:
    """Watermarks and statuses by index of the input; `current` and `active` are those of the operator."""

    __slots__ = ("_active", "_watermarks", "active", "current")

    def __init__(self, inputs: int) -> None:
        self._watermarks = [MIN_TIMESTAMP] * inputs
        self._active = [True] * inputs
        self.current = MIN_TIMESTAMP
        self.active = True

    def watermark(self, index: int, timestamp: int) -> bool:
        """Input `index` reached `timestamp` (ms). True: `current` has advanced."""
        self._watermarks[index] = max(self._watermarks[index], timestamp)
        return self._advance()

    def status(self, index: int, active: bool) -> bool:
        """Input `index` became idle or active. True: `current` has advanced; then `active` is the same as before."""
        self._active[index] = active
        self.active = any(self._active)
        return False if active else self._advance()

    def _advance(self) -> bool:
        watermarks = self._watermarks
        lowest = min(
            (watermark for watermark, active in zip(watermarks, self._active, strict=True) if active),
            default=MIN_TIMESTAMP,
        )
        if lowest <= self.current or (lowest == MAX_TIMESTAMP and min(watermarks) < MAX_TIMESTAMP):
            return False
        self.current = lowest
        return True
