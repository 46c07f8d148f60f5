"""When windows of local times end, where clocks are set forward and back."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from penstock.table.operators.windows.window_zones import local_progress, timer_of

NEW_YORK = "America/New_York"


def ms(*moment: int) -> int:
    """Return a moment in milliseconds."""
    return int(datetime(*moment, tzinfo=UTC).timestamp() * 1000)  # type: ignore[misc,arg-type]


def test_a_window_that_ends_in_the_hour_that_comes_twice_ends_the_second_time() -> None:
    """Otherwise the rows of the second hour would be late."""
    assert timer_of(ms(2024, 11, 3, 0, 59), NEW_YORK) == ms(2024, 11, 3, 4, 59)
    assert timer_of(ms(2024, 11, 3, 1, 0), NEW_YORK) == ms(2024, 11, 3, 6, 0)
    assert timer_of(ms(2024, 11, 3, 1, 30), NEW_YORK) == ms(2024, 11, 3, 6, 30)
    assert timer_of(ms(2024, 11, 3, 2, 0), NEW_YORK) == ms(2024, 11, 3, 7, 0)


def test_a_window_that_ends_in_the_hour_that_is_left_out_ends_behind_it() -> None:
    """It ends at the same moment as the hour."""
    assert local_progress(ms(2024, 3, 10, 7, 0) - 1, NEW_YORK) == ms(2024, 3, 10, 3, 0) - 1
    assert local_progress(ms(2024, 3, 10, 6, 59) - 1, NEW_YORK) == ms(2024, 3, 10, 1, 59) - 1


@pytest.mark.parametrize("zone", [NEW_YORK, "Asia/Shanghai", "Australia/Lord_Howe", "Europe/Berlin"])
def test_progress_reaches_the_ends_of_windows_when_their_timers_are_due(zone: str) -> None:
    """All windows up to the progress have ended, and no other, at any moment of a year."""
    random = Random(zone)
    for _ in range(300):
        now = ms(2024, 1, 1) + random.randrange(366 * 86_400_000)
        end = ms(2024, 1, 1) + (now - ms(2024, 1, 1)) // 900_000 * 900_000 + random.randrange(-60, 60) * 900_000
        has_ended = timer_of(end, zone) - 1 <= now
        assert (end - 1 <= local_progress(now, zone)) is has_ended


def test_the_end_of_time_is_the_same_everywhere() -> None:
    """The last watermark ends all windows."""
    assert local_progress((1 << 63) - 1, NEW_YORK) == (1 << 63) - 1
    assert local_progress(-(1 << 63), NEW_YORK) == -(1 << 63)
