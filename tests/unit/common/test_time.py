import pickle
from datetime import timedelta

import pytest

from penstock.common import Duration, Instant, Time
from penstock.common.time import to_milliseconds


@pytest.mark.parametrize(
    "length",
    [Duration.of_seconds(90), Duration.of_nanos(90_000_999_999), Time.seconds(90), timedelta(minutes=1.5), 90_000],
)
def test_all_lengths_of_time_mean_milliseconds(length: object) -> None:
    """A timeout given as a timedelta would be a thousand times too short or too long."""
    assert to_milliseconds(length) == 90_000  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [True, 1.5, "5 s", None])
def test_what_is_no_length_of_time_is_refused(length: object) -> None:
    """0.5, meant as half a second, would silently become 0 ms."""
    with pytest.raises(TypeError, match="expected a Duration"):
        to_milliseconds(length)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="whole number of seconds"):
        Duration.of_seconds(length)  # type: ignore[arg-type]


def test_durations_and_times_compare_by_length() -> None:
    """Equal settings would differ."""
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_minutes(1440)
    assert Duration.of_millis(1) < Duration.of_seconds(1) and hash(Time.days(1)) == hash(Time.hours(24))
    assert pickle.loads(pickle.dumps([Duration.of_days(2), Time(3)])) == [Duration.of_days(2), Time.milliseconds(3)]


@pytest.mark.parametrize("millis", [-1, 0, 1, -1500, 1_700_000_000_123])
def test_instants_before_the_epoch_come_back(millis: int) -> None:
    """Dates before 1970 would shift by a second (PyFlink's own do)."""
    assert Instant.of_epoch_milli(millis).to_epoch_milli() == millis


def test_instants_are_ordered_by_time() -> None:
    """`top_n` and the least value of such a field would fail with the second record of a key."""
    instants = [Instant(0, 0), Instant(-1, 999_999_999), Instant(0, 1), Instant(-2, 5)]
    assert sorted(instants) == [instants[3], instants[1], instants[0], instants[2]]
    assert Instant(1, 0) >= Instant(1, 0) > Instant(0, 999_999_999)
    with pytest.raises(TypeError):
        assert Instant(0, 0) < 1
