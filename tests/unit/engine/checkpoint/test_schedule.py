"""When periodic checkpoints begin: for any times at which they complete, fail, or are held back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.checkpoint.schedule import CheckpointSchedule, CheckpointSettings

SETTINGS = st.builds(
    CheckpointSettings,
    interval_ms=st.integers(1, 200),
    pause_ms=st.integers(0, 200),
    concurrent_max=st.integers(1, 3),
)
STEPS = st.lists(
    st.tuples(st.integers(0, 100), st.sampled_from([*["tick"] * 6, *["complete"] * 4, "abort", "request", "restart"])),
    min_size=10,
    max_size=40,
)


def begun(settings: CheckpointSettings, now_ms: int = 1_000) -> CheckpointSchedule:
    schedule = CheckpointSchedule(settings)
    schedule.tasks_began(now_ms)
    return schedule


def concurrent_max(times: CheckpointSettings) -> int:
    return times.concurrent_max if times.pause_ms == 0 else 1


@settings(max_examples=150)
@given(SETTINGS, STEPS)
def test_the_rules_hold_whatever_happens(times: CheckpointSettings, steps: list[tuple[int, str]]) -> None:
    """A job would do nothing but take checkpoints, or would take none without a reason."""
    schedule = begun(times, now_ms := 1_000)
    assert times.interval_ms is not None
    began_ms, last_ms, completed_ms = now_ms, -(10**6), -(10**6)
    under_way, requested = 0, False
    for passes_ms, step in steps:
        now_ms += passes_ms
        if step == "tick":
            earliest_ms = max(began_ms + times.interval_ms, last_ms + times.interval_ms)
            earliest_ms = max(earliest_ms, completed_ms + times.pause_ms)
            may = under_way < concurrent_max(times) and not requested
            assert schedule.starts_ms(under_way, requested) == (earliest_ms if may else None)
            taken = schedule.start_if_due(now_ms, under_way, requested)
            assert taken == (may and now_ms >= earliest_ms)
            if taken:
                last_ms, under_way = now_ms, under_way + 1
        elif step == "complete" and under_way:
            schedule.completed(now_ms)
            completed_ms, under_way = now_ms, under_way - 1
        elif step == "abort" and under_way:
            under_way -= 1
        elif step == "request":
            requested = not requested
        elif step == "restart":
            schedule.tasks_ended()
            assert schedule.starts_ms(0, False) is None and not schedule.start_if_due(now_ms + 10**6, 0, False)
            schedule.tasks_began(now_ms)
            began_ms, last_ms, completed_ms, under_way = now_ms, -(10**6), -(10**6), 0


@given(SETTINGS, st.integers(0, 2), st.integers(0, 10_000))
def test_one_begins_in_the_millisecond_that_was_announced(
    times: CheckpointSettings, under_way: int, began_ms: int
) -> None:
    """The host would wake and find nothing to do, again and again; or checkpoints would begin with a heartbeat."""
    schedule = begun(times, began_ms)
    at_ms = schedule.starts_ms(under_way, False)
    if at_ms is None:
        assert under_way >= concurrent_max(times)
    else:
        assert not schedule.start_if_due(at_ms - 1, under_way, False)
        assert schedule.start_if_due(at_ms, under_way, False)
        assert not schedule.start_if_due(at_ms, under_way, False), "one at a time"


def test_a_pause_is_kept_while_checkpoints_could_overlap() -> None:
    """A job that is to have a minute for its records between checkpoints would have none."""
    schedule = begun(CheckpointSettings(interval_ms=1_000, pause_ms=60_000, concurrent_max=3))
    assert schedule.start_if_due(2_000, 0, False)
    assert schedule.starts_ms(1, False) is None
    schedule.completed(5_000)
    assert schedule.starts_ms(0, False) == 65_000


def test_after_a_long_time_one_begins_and_not_many() -> None:
    """A driver that was suspended for an hour would begin all checkpoints of that hour at once."""
    schedule = begun(CheckpointSettings(interval_ms=100, concurrent_max=3))
    assert schedule.start_if_due(100_000, 0, False)
    assert not schedule.start_if_due(100_000, 1, False)
    assert schedule.starts_ms(1, False) == 100_100


@pytest.mark.parametrize("now_ms", [0, 10**9])
def test_without_an_interval_none_begins_by_itself(now_ms: int) -> None:
    """A job without checkpoints would take them nevertheless, and need a directory."""
    schedule = begun(CheckpointSettings())
    assert schedule.starts_ms(0, False) is None and not schedule.start_if_due(now_ms, 0, False)
    schedule.completed(now_ms)
    assert schedule.starts_ms(0, False) is None, "also after a savepoint that was requested"


def test_one_that_completes_between_two_attempts_starts_nothing() -> None:
    """A checkpoint would begin without tasks."""
    schedule = begun(CheckpointSettings(interval_ms=100, pause_ms=50))
    schedule.tasks_ended()
    schedule.completed(2_000)
    assert schedule.starts_ms(0, False) is None
