"""A split is idle after a time without records in which somebody looked, and not for time in which nobody did."""

from __future__ import annotations

import pytest

from penstock.engine.runtime.time.event_time import IdleTimer


class Looks:
    """A timer of 1,000 ms, looked at each 100 ms, and its clock."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.timer = IdleTimer(1_000, 100, lambda: self.now_ms)

    def after(self, *passed_ms: int) -> bool:
        """Look after each of these times; the last answer."""
        idle = False
        for each in passed_ms:
            self.now_ms += each
            idle = self.timer.has_expired()
        return idle


def test_a_split_is_idle_after_the_timeout() -> None:
    """It would hold the watermark for ever, or be idle too soon."""
    looks = Looks()
    assert not looks.after(*[100] * 9)
    assert looks.after(100)
    looks.timer.record()
    assert not looks.after(*[100] * 9)
    assert looks.after(100)


@pytest.mark.parametrize("quiet", [0, 5, 9])
@pytest.mark.parametrize("pause_ms", [1_000, 60_000, 3_600_000])
def test_a_pause_is_no_quiet_time(quiet: int, pause_ms: int) -> None:
    """After a machine has slept, or its clock was set, records that had waited would all be late."""
    looks = Looks()
    looks.after(*[100] * quiet)
    assert not looks.after(pause_ms, *[100] * 9)
    assert looks.after(100)


def test_a_short_pause_alone_makes_no_split_idle() -> None:
    """What came in the pause would be late, though it would be read next."""
    looks = Looks()
    assert not looks.after(*[100] * 8, 300)
    assert looks.after(100)


@pytest.mark.parametrize("pace_ms", [300, 2_000])
def test_a_task_that_is_always_slow_has_idle_splits_too(pace_ms: int) -> None:
    """Where each chunk takes longer than the interval, a split that has ended its work would hold the watermark."""
    assert Looks().after(*[pace_ms] * 5)


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    """Idleness would wait for as long as the clock was set back."""
    looks = Looks()
    looks.after(*[100] * 5)
    assert not looks.after(-3_600_000, *[100] * 4)
    assert looks.after(100)
