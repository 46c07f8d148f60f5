"""The watermark valve: event time of an input is the minimum over its active channels, and only goes forward.

An idle channel is left out. When it becomes active again it counts only once its watermark has caught up with what was
already passed on, or event time would have to move backwards. When the last active channel turns idle, the highest
watermark of all is passed on, then the idleness. Source: Flink docs, "Generating Watermarks", Dealing With Idle
Sources; the rules on re-activation are those of Flink's StatusWatermarkValve. Inputs of an operator and splits of a
source are combined by other rules (`time/combined_watermark.py`).

One rule is our own: the last watermark is passed on only when every channel has sent it, an idle one too. In Flink an
idle channel beside one that has ended lets it through, and all that the idle one brings later is late.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP

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
