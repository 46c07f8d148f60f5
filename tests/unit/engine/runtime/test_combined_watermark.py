"""Event time over several inputs: the minimum over those that are active, and never back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.time.watermarks import CombinedWatermark


def test_the_slowest_input_decides() -> None:
    """A join would call records of its slower stream late, though they are in order."""
    time = CombinedWatermark(range(2))
    assert not time.watermark(0, 10), "the other input has no watermark yet"
    assert time.watermark(1, 4)
    assert time.current == 4
    assert not time.watermark(0, 20)
    assert time.watermark(1, 30)
    assert time.current == 20


def test_an_idle_input_is_not_waited_for() -> None:
    """A stream of rules in which nothing happens would hold up all windows of the stream that it is connected to."""
    time = CombinedWatermark(range(2))
    time.watermark(0, 10)
    assert time.status(1, False)
    assert (time.current, time.active) == (10, True)


def test_an_input_that_wakes_up_behind_the_others_holds_them_back_but_not_down() -> None:
    """Event time would move backwards, and windows that have fired would fire again."""
    time = CombinedWatermark(range(2))
    time.watermark(0, 10)
    time.status(1, False)
    assert not time.status(1, True)
    assert not time.watermark(1, 5)
    assert not time.watermark(0, 20), "the input that woke up is at 5"
    assert time.current == 10
    assert time.watermark(1, 15)
    assert time.current == 15


def test_all_inputs_idle() -> None:
    """Operators after this one would wait for a stream in which nothing happens."""
    time = CombinedWatermark(range(2))
    time.watermark(0, 10)
    time.watermark(1, 5)
    assert time.status(1, False)
    assert not time.status(0, False)
    assert (time.current, time.active) == (10, False)
    assert not time.status(1, True)
    assert time.active


def test_event_time_does_not_end_before_an_idle_input_has_ended() -> None:
    """All that an idle stream brings after the other one has ended would be late."""
    time = CombinedWatermark(range(2))
    time.watermark(1, 5)
    time.status(1, False)
    assert not time.watermark(0, MAX_TIMESTAMP)
    assert time.current == MIN_TIMESTAMP
    time.status(1, True)
    assert time.watermark(1, 7)
    assert time.current == 7
    assert time.watermark(1, MAX_TIMESTAMP)
    assert time.current == MAX_TIMESTAMP


def test_a_stream_that_is_added_holds_event_time_until_it_has_caught_up() -> None:
    """Records of a split that is discovered late would all be dropped, though its watermarks are in order."""
    time = CombinedWatermark(["a"])
    time.watermark("a", 100)
    time.add("b")
    assert not time.watermark("a", 500)
    assert not time.watermark("b", 50)
    assert not time.watermark("b", 100)
    assert time.watermark("b", 300)
    assert time.current == 300


def test_a_stream_that_is_over_is_not_waited_for() -> None:
    """A finished split would hold back its source for ever."""
    time = CombinedWatermark("ab")
    time.watermark("a", 5)
    time.watermark("b", 50)
    assert time.remove("a")
    assert time.current == 50
    time.add("c")
    assert not time.remove("b"), "the new one has no watermark yet"
    assert time.watermark("c", 60)
    assert not time.remove("c")
    assert not time.active


CHANGES = st.tuples(st.integers(0, 2), st.one_of(st.integers(0, 50), st.booleans()))


@given(st.lists(CHANGES))
def test_it_only_goes_forward_and_says_when(changes: list[tuple[int, int | bool]]) -> None:
    """Timers would fire twice or not at all: the operator is called only if it is reported that time has advanced."""
    time = CombinedWatermark(range(3))
    watermarks, active = [MIN_TIMESTAMP] * 3, [True] * 3
    for index, change in changes:
        before, was_active = time.current, time.active
        if isinstance(change, bool):
            active[index] = change
            advanced = time.status(index, change)
            assert not (advanced and time.active != was_active), "the operator can be notified of one change only"
        else:
            watermarks[index] = max(watermarks[index], change)
            advanced = time.watermark(index, change)
        assert advanced == (time.current > before)
        assert time.current >= before
        assert time.active == any(active)
        lowest = min((w for w, a in zip(watermarks, active, strict=True) if a), default=MIN_TIMESTAMP)
        if not isinstance(change, bool):
            assert time.current == max(before, lowest)
