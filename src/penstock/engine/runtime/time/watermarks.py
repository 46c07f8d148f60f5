"""Watermarks of several channels, inputs or splits: the least of them counts, and it only goes forward.

An idle channel is left out. When it becomes active again it counts only once its watermark has caught up with what was
already passed on, or event time would have to move backwards. When the last active channel turns idle, the highest
watermark of all is passed on, then the idleness. Source: Flink docs, "Generating Watermarks", Dealing With Idle
Sources; the rules on re-activation are those of Flink's StatusWatermarkValve. Inputs of an operator and splits of a
source are combined by other rules (`time/watermarks.py`).

One rule is our own: the last watermark is passed on only when every channel has sent it, an idle one too. In Flink an
idle channel beside one that has ended lets it through, and all that the idle one brings later is late.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.watermark_strategy import WatermarkAlignment

_UNKNOWN = MAX_TIMESTAMP, 0
"""The lowest watermark, and how many have it, where these have to be found first: none is above it."""


class _ChannelTime:
    __slots__ = ("active", "caught_up", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_TIMESTAMP
        self.active = True
        self.caught_up = True


class WatermarkValve:
    """Watermarks and statuses of channels in, those of the input out, by the two callbacks."""

    def __init__(
        self,
        channels: Iterable[Hashable],
        on_watermark: Callable[[int], None],
        on_status: Callable[[bool], None],
    ) -> None:
        self._channels = {channel: _ChannelTime() for channel in channels}
        self._on_watermark = on_watermark
        self._on_status = on_status
        self._active = True
        self._lowest, self._holders = _UNKNOWN
        """The lowest watermark that counts, and how many channels have it: one of a thousand must not look at all."""
        self.current = MIN_TIMESTAMP

    def watermark(self, channel: Hashable, timestamp: int) -> None:
        """A watermark arrived. One on an idle channel, or behind an earlier one, changes nothing."""
        time = self._channels[channel]
        if not time.active or timestamp <= time.watermark:
            return
        before, time.watermark = time.watermark, timestamp
        if time.caught_up:
            if before > self._lowest:
                return
            self._holders -= 1
            if self._holders > 0:
                return
        elif timestamp >= self.current:
            time.caught_up = True
        self._pass_on_minimum()

    def status(self, channel: Hashable, active: bool) -> None:
        """The channel turned idle or active."""
        time = self._channels[channel]
        if time.active == active:
            return
        time.active = active
        self._lowest, self._holders = _UNKNOWN
        if active:
            time.caught_up = time.watermark >= self.current
            self._set_active(True)
        else:
            time.caught_up = False
            self._left_out(time)

    def _left_out(self, gone: _ChannelTime) -> None:
        # As in Flink: the minimum is taken again only if it may have changed.
        waited_for = gone.watermark == self.current
        if any(time.active for time in self._channels.values()):
            if waited_for:
                self._pass_on_minimum()
            return
        if waited_for:
            self._pass_on(max((time.watermark for time in self._channels.values()), default=self.current))
        self._set_active(False)

    def _pass_on_minimum(self) -> None:
        watermarks = [time.watermark for time in self._channels.values() if time.caught_up and time.active]
        if not watermarks:
            return
        lowest = self._lowest = min(watermarks)
        self._holders = watermarks.count(lowest)
        if lowest == MAX_TIMESTAMP and any(time.watermark < MAX_TIMESTAMP for time in self._channels.values()):
            # Those that are active have ended, but an idle one may still wake up: event time is not over.
            return
        self._pass_on(lowest)

    def _pass_on(self, timestamp: int) -> None:
        if timestamp > self.current:
            self.current = timestamp
            self._on_watermark(timestamp)

    def _set_active(self, active: bool) -> None:
        if active != self._active:
            self._active = active
            self._on_status(active)


# Event time over several streams: the minimum over those that are active, which only goes forward.
#
# The inputs of an operator, each with a valve of its own over its channels (`time/watermarks.py`), and the splits of a
# source are combined so. Source: Flink's CombinedWatermarkStatus, as AbstractStreamOperator and
# WatermarkOutputMultiplexer use it. A stream that is added, or that becomes active again, holds event time until it has
# caught up. When all are idle, event time stays where it is. Two rules differ from Flink's:
#
# * A stream that becomes active again changes nothing until its next watermark. In Flink the operator may emit a
#   watermark at that moment, before it reports that it is active, and receivers ignore watermarks of an idle channel.
# * The last watermark is reached only when every stream has sent it, idle ones included, as in the valve.


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


# Watermark alignment, the part of a source's subtask: it reports its watermark, and pauses above the limit.
#
# While it waits its idle timeout stands still: it has records, and may not emit them. Source: Flink docs, "Generating
# Watermarks", Watermark alignment; FLIP-182, FLINK-35886.


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
