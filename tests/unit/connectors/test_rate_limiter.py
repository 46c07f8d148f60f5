"""A steady rate, with a clock set by the test."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.base.rate_limiter import RateLimiterStrategy, SteadyRateLimiter

NOW = 1_763_700_000_000


def released(limiter, times):
    counts = []
    for now_ms in times:
        due = limiter.due(now_ms)
        limiter.take(due)
        counts.append(due)
    return counts


@given(rate=st.floats(0.5, 5_000_000), polls=st.lists(st.integers(0, 90), min_size=1, max_size=60))
def test_what_was_released_never_leaves_the_rate(rate, polls):
    """A benchmark at a given rate would measure another one."""
    limiter = SteadyRateLimiter(rate)
    times = [NOW]
    for step in polls:
        times.append(times[-1] + step)
    total = 0
    for now_ms, count in zip(times, released(limiter, times), strict=True):
        total += count
        assert abs(total - ((now_ms - NOW) * rate / 1000 + 1)) <= 1.001


@pytest.mark.parametrize("rate", [3, 1000, 30_000, 1_234_567])
def test_an_hour_has_as_many_records_as_it_should(rate):
    """Repeated rounding to milliseconds would drift by thousands of records."""
    limiter = SteadyRateLimiter(rate)
    assert sum(released(limiter, range(NOW, NOW + 3_600_000, 50))) == pytest.approx(rate * 3600, rel=2e-5, abs=1)


def test_a_long_pause_is_not_caught_up():
    """The end of back pressure would cause a flood of old records."""
    limiter = SteadyRateLimiter(1000, burst_ms=100)
    assert released(limiter, [NOW, NOW + 10_000, NOW + 10_001, NOW + 10_002]) == [1, 101, 1, 1]


def test_a_short_pause_is_caught_up():
    """A pause of 50 ms per second would cost 5 % of the rate."""
    limiter = SteadyRateLimiter(1000, burst_ms=100)
    assert released(limiter, [NOW, NOW + 50, NOW + 51]) == [1, 50, 1]


def test_a_slow_rate_keeps_its_interval_after_a_pause():
    """At one record per minute, a pause would release two at once."""
    limiter = SteadyRateLimiter(1 / 60)
    assert released(limiter, [NOW, NOW + 150_000, NOW + 150_001, NOW + 210_000]) == [1, 1, 0, 1]


def test_a_clock_set_back_does_not_stop_the_source():
    """After the clock was set back by an hour, the source would emit nothing for an hour."""
    limiter = SteadyRateLimiter(1000)
    assert released(limiter, [NOW, NOW + 1, NOW - 3_600_000, NOW - 3_599_999]) == [1, 1, 1, 1]


@given(rate=st.floats(0.01, 900), start=st.integers(0, 10**6))
def test_the_time_named_is_a_time_at_which_one_is_due(rate, start):
    """A retry time just before the due time would make the task spin."""
    limiter = SteadyRateLimiter(rate, phase=0.3)
    now_ms = NOW + start
    for _ in range(5):
        limiter.take(limiter.due(now_ms))
        assert limiter.next_due_ms() > now_ms
        now_ms = limiter.next_due_ms()
        assert limiter.due(now_ms) == 1


def test_subtasks_share_the_rate_and_take_turns():
    """Four subtasks that emit at the same instant would make bursts of a steady rate."""
    limiters = [RateLimiterStrategy.per_second(4).create_rate_limiter(4, i) for i in range(4)]
    for limiter in limiters:
        limiter.take(limiter.due(NOW))
    assert [limiter.next_due_ms() - NOW for limiter in limiters] == [1000, 250, 500, 750]


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(rate):
    """A source with a rate of 0 would never emit."""
    with pytest.raises(ValueError, match="records_per_second"):
        RateLimiterStrategy.per_second(rate)
