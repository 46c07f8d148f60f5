"""Watermarks of several channels, inputs or splits: event time is their minimum, and never goes back.

An idle channel is left out. When it becomes active again, it counts only after its watermark has caught up with the
forwarded watermark, because event time can't go back. When the last active channel becomes idle, the valve forwards the
highest watermark of all, then the idleness. Source: Flink docs, "Generating Watermarks", Dealing With Idle Sources;
Flink's StatusWatermarkValve for channels that become active again. `CombinedWatermark` has other rules, for inputs of
an operator and splits of a source.

One rule differs from Flink: the last watermark is forwarded only when every channel has sent it, idle ones included. In
Flink, the end of one channel lets it pass an idle channel, and later records of the idle channel are late.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.watermark_strategy import WatermarkAlignment

_UNKNOWN = MAX_TIMESTAMP, 0
"""The lowest watermark, and how many channels have it, before they are computed: no watermark is higher."""


class _ChannelTime:
    __slots__ = ("active", "caught_up", "watermark")

    def __init__(self) -> None:
        self.watermark = MIN_TIMESTAMP
        self.active = True
        self.caught_up = True


class WatermarkValve:
    """Combines watermarks and statuses of channels, and forwards the result by the two callbacks."""

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
        """The lowest watermark that counts, and how many channels have it: with these, a watermark of one channel needs
        no loop over a thousand channels."""
        self.current = MIN_TIMESTAMP

    def watermark(self, channel: Hashable, timestamp: int) -> None:
        """Process a watermark of a channel. It has no effect if the channel is idle, or has sent a higher one."""
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
        self._forward_minimum()

    def status(self, channel: Hashable, active: bool) -> None:
        """Process the status of a channel."""
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
            self._leave_out(time)

    def _leave_out(self, idle: _ChannelTime) -> None:
        # As in Flink, compute the minimum again only if it may have changed.
        held_back = idle.watermark == self.current
        if any(time.active for time in self._channels.values()):
            if held_back:
                self._forward_minimum()
            return
        if held_back:
            self._forward(max((time.watermark for time in self._channels.values()), default=self.current))
        self._set_active(False)

    def _forward_minimum(self) -> None:
        watermarks = [time.watermark for time in self._channels.values() if time.caught_up and time.active]
        if not watermarks:
            return
        lowest = self._lowest = min(watermarks)
        self._holders = watermarks.count(lowest)
        if lowest == MAX_TIMESTAMP and any(time.watermark < MAX_TIMESTAMP for time in self._channels.values()):
            # All active channels have ended, but an idle one may become active: event time has not ended.
            return
        self._forward(lowest)

    def _forward(self, timestamp: int) -> None:
        if timestamp > self.current:
            self.current = timestamp
            self._on_watermark(timestamp)

    def _set_active(self, active: bool) -> None:
        if active != self._active:
            self._active = active
            self._on_status(active)


class CombinedWatermark:
    """Event time over several `streams`: the minimum over the active ones, which never goes back.

    It combines the inputs of an operator, each of which has a valve over its channels, and the splits of a source.
    Source: Flink's CombinedWatermarkStatus, as AbstractStreamOperator and WatermarkOutputMultiplexer use it. A stream
    that is added, or becomes active again, holds back event time until it has caught up. When all streams are idle,
    event time does not change. Two rules differ from Flink's:

    * A stream that becomes active again has no effect until its next watermark. In Flink the operator may emit a
      watermark then, before it reports that it is active, and receivers ignore watermarks of an idle channel.
    * The last watermark is reached only when every stream has sent it, idle ones included, as in the valve.

    `current` and `active` are the results for all streams together.
    """

    __slots__ = ("_active", "_holders", "_lowest", "_watermarks", "active", "current")

    def __init__(self, streams: Iterable[Hashable]) -> None:
        self._watermarks = dict.fromkeys(streams, MIN_TIMESTAMP)
        self._active = set(self._watermarks)
        self._lowest = MIN_TIMESTAMP
        """A lower bound of the watermarks of all active streams."""
        self._holders = 0
        """How many active streams have this watermark; 0 before they are counted."""
        self.current = MIN_TIMESTAMP
        self.active = True

    def add(self, stream: Hashable) -> None:
        """Add a stream, which is active and has no watermark yet."""
        self._watermarks[stream] = MIN_TIMESTAMP
        self._active.add(stream)
        self._lowest, self._holders = MIN_TIMESTAMP, 0
        self.active = True

    def remove(self, stream: Hashable) -> bool:
        """Remove a stream that has ended. True: `current` has advanced."""
        del self._watermarks[stream]
        self._active.discard(stream)
        self.active = bool(self._active)
        return self._advance()

    def watermark(self, stream: Hashable, timestamp: int) -> bool:
        """Process a watermark of a stream (ms). True: `current` has advanced."""
        before = self._watermarks[stream]
        self._watermarks[stream] = max(before, timestamp)
        if self._lowest <= self.current and timestamp < MAX_TIMESTAMP:
            # Another stream holds back event time: a source must not check its thousand splits for each chunk of one.
            if before > self._lowest:
                return False
            if timestamp > before and stream in self._active:
                self._holders -= 1
                if self._holders > 0:
                    return False
        return self._advance()

    def status(self, stream: Hashable, active: bool) -> bool:
        """Process the status of a stream. True: `current` has advanced; then `active` is the same as before."""
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
            # All active streams have ended, but an idle one may become active: event time has not ended.
            return False
        self.current = lowest
        return True


class AlignmentGate:
    """Watermark alignment in a source's subtask: it reports the watermark, and pauses the source above the limit.

    While the source waits, its idle timeout stops, because it has records that it may not emit. `report` sends (group,
    watermark in ms) to the JobMaster. Source: Flink docs, "Generating Watermarks", Watermark alignment; FLIP-182,
    FLINK-35886.
    """

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
        """When the next report is due (ms)."""

    def tick(self, watermark: int, active: bool) -> None:
        """Report the watermark, if there is one. An idle subtask does not limit the group."""
        self.report_at_ms = self._now_ms() + self._alignment.update_interval_ms
        if not active:
            self._report(self._alignment.group, MAX_TIMESTAMP)
        elif watermark > MIN_TIMESTAMP:
            self._report(self._alignment.group, watermark)

    def is_closed(self, watermark: int) -> bool:
        """Return whether a source with this watermark has to wait."""
        closed = watermark > self._limit
        if closed and self._closed_at_ms is None:
            self._closed_at_ms = self._now_ms()
        return closed

    def move(self, limit: int) -> None:
        """Set the event time up to which sources of the group may emit (ms)."""
        self._limit = limit
        if self._closed_at_ms is not None:
            self._waited_ms += self._now_ms() - self._closed_at_ms
            self._closed_at_ms = None

    @property
    def waited_ms(self) -> int:
        """How long the source has waited so far (ms)."""
        since_ms = self._closed_at_ms
        return self._waited_ms + (self._now_ms() - since_ms if since_ms is not None else 0)
