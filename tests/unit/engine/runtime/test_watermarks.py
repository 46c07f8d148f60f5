"""The watermark valve. A play: `5@0` is watermark 5 on channel 0, `idle@0` and `active@0` are its statuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.time.watermarks import WatermarkValve


class Play:
    def __init__(self, channels: int = 2) -> None:
        self.log: list[str] = []
        self.valve = WatermarkValve(
            range(channels),
            lambda timestamp: self.log.append(str(timestamp)),
            lambda active: self.log.append("active" if active else "idle"),
        )

    def __call__(self, play: str) -> str:
        self.log.clear()
        for word in play.split():
            what, _, channel = word.partition("@")
            if what in ("idle", "active"):
                self.valve.status(int(channel), what == "active")
            else:
                self.valve.watermark(int(channel), int(what))
        return " ".join(self.log)


def play(what: str, channels: int = 2) -> str:
    return Play(channels)(what)


def test_event_time_is_the_minimum_of_all_channels() -> None:
    """Windows would close while records for them are in transit."""
    assert play("5@0 3@1 7@0 6@1 9@1") == "3 6 7"


def test_nothing_is_known_until_every_channel_has_spoken() -> None:
    """The records of a source that starts late would all be late."""
    assert play("5@0 9@0 2@1", channels=3) == ""
    assert play("5@0 9@0 2@1 1@2", channels=3) == "1"


def test_event_time_never_goes_back() -> None:
    """A timer would fire in the past of another."""
    assert play("5@0 5@1 3@0 4@1 5@0 6@0") == "5"


def test_an_idle_channel_holds_nothing_back() -> None:
    """One quiet partition would stop all windows of the job."""
    assert play("5@0 idle@1 7@0") == "5 7"
    assert play("5@0 3@1 idle@1") == "3 5"
    assert play("idle@1 5@1 4@0") == "4"


def test_an_idle_channel_keeps_event_time_from_ending() -> None:
    """What an idle source brings after another one has ended would all be late, and its timers would never fire."""
    valve = Play()
    assert valve(f"5@0 idle@1 {MAX_TIMESTAMP}@0") == "5"
    assert valve(f"active@1 7@1 {MAX_TIMESTAMP}@1") == f"7 {MAX_TIMESTAMP}"


def test_when_all_are_idle_the_highest_watermark_goes_on_first() -> None:
    """Complete windows would wait until a channel becomes active again."""
    assert play("5@0 3@1 idle@0 idle@1") == "3 5 idle"
    # Whoever turns idle last did not hold event time back here, so there is nothing to flush.
    assert play("5@0 9@1 idle@1 idle@0") == "5 9 idle"
    assert play("idle@0 idle@1") == "idle"


def test_a_channel_that_wakes_up_counts_when_it_has_caught_up() -> None:
    """Event time would not advance until an old partition has been read completely."""
    one = Play()
    assert one("9@0 idle@1") == "9"
    assert one("active@1 4@1 12@0") == "12"
    assert one("12@1 15@0") == ""
    assert one("13@1") == "13"
    assert play("0@1 1@2 idle@0 idle@2 active@0 idle@1 active@2 idle@0", channels=3) == "0", "no one waited for it"


def test_awake_again_after_all_were_idle() -> None:
    """Downstream would go on leaving out a stream that has records."""
    one = Play()
    assert one("5@0 5@1 idle@0 idle@1") == "5 idle"
    assert one("active@0") == "active"
    assert one("active@0 active@1 6@0 6@1") == "6"


def test_a_status_twice_is_one() -> None:
    """Statuses would go round and round in a wide job."""
    assert play("active@0 idle@0 idle@0 idle@1 idle@1 active@1 active@1") == "idle active"


class Reference:
    """Flink's StatusWatermarkValve in plain words, without its heap."""

    def __init__(self, channels: int) -> None:
        self.time = [MIN_TIMESTAMP] * channels
        self.active = [True] * channels
        self.aligned = [True] * channels
        self.last, self.last_active = MIN_TIMESTAMP, True
        self.log: list[str] = []

    def emit(self, timestamps: list[int], best) -> None:
        if timestamps and best(timestamps) > self.last:
            self.last = best(timestamps)
            self.log.append(str(self.last))

    def watermark(self, c: int, timestamp: int) -> None:
        if self.last_active and self.active[c] and timestamp > self.time[c]:
            self.time[c] = timestamp
            if not self.aligned[c] and timestamp >= self.last:
                self.aligned[c] = True
            self.emit([t for t, aligned in zip(self.time, self.aligned, strict=True) if aligned], min)

    def status(self, c: int, active: bool) -> None:
        if active == self.active[c]:
            return
        self.active[c] = active
        if active:
            self.aligned[c] = self.time[c] >= self.last
            if not self.last_active:
                self.last_active = True
                self.log.append("active")
            return
        self.aligned[c] = False
        if not any(self.active):
            if self.time[c] == self.last:
                self.emit(self.time, max)
            self.last_active = False
            self.log.append("idle")
        elif self.time[c] == self.last:
            self.emit([t for t, aligned in zip(self.time, self.aligned, strict=True) if aligned], min)


WORDS = st.tuples(st.integers(0, 40).map(str) | st.sampled_from(["idle", "active"]), st.integers(0, 2))


@given(st.lists(WORDS, max_size=40))
def test_random_plays_are_as_in_flink(words) -> None:
    """A job moved from Flink would have other late records."""
    reference = Reference(3)
    for what, channel in words:
        if what in ("idle", "active"):
            reference.status(channel, what == "active")
        else:
            reference.watermark(channel, int(what))
    assert play(" ".join(f"{what}@{channel}" for what, channel in words), channels=3).split() == reference.log
