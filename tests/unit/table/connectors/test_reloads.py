"""When a full cache is loaded again: by an interval, or at a time of the day."""

from __future__ import annotations

from datetime import datetime

import pytest

from penstock.table.connectors.reloads import RELOAD_OPTIONS, Reloads, reloads_of
from penstock.table.connectors.table_options import TableOptions
from penstock.table.planner.errors import SqlError

PERIODIC, TIMED = "lookup.full-cache.periodic-reload.", "lookup.full-cache.timed-reload."


def reloads(**options: str) -> Reloads:
    given = {f"lookup.full-cache.{key.replace('__', '.').replace('_', '-')}": text for key, text in options.items()}
    return reloads_of(TableOptions("t", given, RELOAD_OPTIONS))


def test_an_interval_begins_when_a_load_ends() -> None:
    """A load that takes longer than the interval would be followed by the next one at once."""
    one = reloads(periodic_reload__interval="10 s")
    assert one.next_ms(None, 5_000, 6_000) == 16_000
    assert one.next_ms(16_000, 30_000, 31_000) == 41_000


def test_a_fixed_rate_keeps_its_beat() -> None:
    """Loads would drift by the time that they take, and what was due while nothing was looked up would be caught up."""
    one = reloads(periodic_reload__interval="10 s", periodic_reload__schedule_mode="FIXED_RATE")
    assert one.next_ms(None, 5_000, 6_000) == 15_000
    assert one.next_ms(15_000, 16_000, 17_000) == 25_000
    assert one.next_ms(15_000, 47_000, 48_000) == 55_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("loaded", "days", "first", "then"),
    [
        ("2024-01-01T10:00:00+07:00", "1", "2024-01-01T10:15:00+07:00", "2024-01-02T10:15:00+07:00"),
        ("2024-01-01T10:15:00+07:00", "2", "2024-01-02T10:15:00+07:00", "2024-01-04T10:15:00+07:00"),
        ("2024-01-01T23:59:00+00:00", "1", "2024-01-02T10:15:00+07:00", "2024-01-03T10:15:00+07:00"),
    ],
)
def test_a_time_of_the_day(loaded: str, days: str, first: str, then: str) -> None:
    """A table that is written at night would be read a day late."""
    one = reloads(reload_strategy="TIMED", timed_reload__iso_time="10:15+07:00", timed_reload__interval_in_days=days)
    due = one.next_ms(None, ms(loaded), ms(loaded))
    assert due == ms(first)
    assert one.next_ms(due, due, due + 100) == ms(then)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, f"{PERIODIC}interval' is required"),
        ({"reload_strategy": "TIMED"}, f"{TIMED}iso-time' is required"),
        ({"reload_strategy": "TIMED", "timed_reload__iso_time": "noon"}, "must be a time such as 10:15"),
        ({"reload_strategy": "SOMETIMES"}, "PERIODIC"),
        ({"periodic_reload__interval": "0 s"}, "must be longer than nothing"),
    ],
)
def test_options_that_do_not_say_when(options: dict[str, str], reason: str) -> None:
    """A cache that is never loaded again would give rows of last year."""
    with pytest.raises(SqlError, match=reason):
        reloads(**options)
