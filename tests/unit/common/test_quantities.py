"""How lengths of time and event times are written."""

from __future__ import annotations

import pytest

from penstock.common.text.quantities import as_event_time

NOW = 1_700_000_000_000
DAY = 24 * 3_600_000


@pytest.mark.parametrize(
    ("lag_ms", "shown"),
    [
        (1_500, "1.5 s behind"),
        (DAY, "24 h 0 min behind"),
        (-2_000, "-2.0 s behind"),
        (DAY + 1, "2023-11-13 22:13 UTC"),
        (-2 * DAY, "2023-11-16 22:13 UTC"),
        (NOW, "1970-01-01 00:00 UTC"),
        (NOW + 86_400_000 * 365, "1969-01-01 00:00 UTC"),
    ],
)
def test_event_time_of_old_records_is_shown_as_a_time(lag_ms: float, shown: str) -> None:
    """A replay of 2013 would be 113,880 hours behind, in red."""
    assert as_event_time(lag_ms, NOW) == shown
