"""The windows in flight of one key, as sessions grow together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.api.windows.session_assigners import EventTimeSessionWindows
from penstock.api.windows.window import TimeWindow
from penstock.engine.runtime.windows.merging import MergingWindows, SortedWindows


class Sessions:
    """A set of windows that notes its merges."""

    def __init__(self) -> None:
        self.state_windows: dict[TimeWindow, TimeWindow] = {}
        self.merges: list[tuple[Any, ...]] = []
        self.windows = MergingWindows(EventTimeSessionWindows(1), self.state_windows)

    def add(self, start: int, end: int) -> TimeWindow:
        return self.windows.add(TimeWindow(start, end), lambda *merge: self.merges.append(merge))


def test_windows_apart_stay_apart() -> None:
    """Two visits of a user would count as one."""
    sessions = Sessions()

    assert sessions.add(0, 10) == (0, 10)
    assert sessions.add(11, 20) == (11, 20)
    assert sessions.state_windows == {(0, 10): (0, 10), (11, 20): (11, 20)}
    assert not sessions.merges


def test_a_window_that_grows_keeps_its_state() -> None:
    """Every record of a long session would move all that is kept of it.

    0──────10
       5───────15
    """
    sessions = Sessions()
    sessions.add(0, 10)

    assert sessions.add(5, 15) == (0, 15)
    assert sessions.state_windows == {(0, 15): (0, 10)}
    assert sessions.merges == [((0, 15), [(0, 10)], (0, 10), [])]


def test_a_record_in_between_joins_two() -> None:
    """The first half of a session would be lost.

    0──────10        20──────30
          8────────────21
    """
    sessions = Sessions()
    sessions.add(20, 30)
    sessions.add(0, 10)

    assert sessions.add(8, 21) == (0, 30)
    assert sessions.state_windows == {(0, 30): (20, 30)}
    assert sessions.merges == [((0, 30), [(20, 30), (0, 10)], (20, 30), [(0, 10)])]


def test_a_window_inside_of_another_changes_nothing() -> None:
    """Timers would be registered again for every record of a session."""
    sessions = Sessions()
    sessions.add(0, 10)

    assert sessions.add(2, 8) == (0, 10)
    assert sessions.state_windows == {(0, 10): (0, 10)}
    assert not sessions.merges


def test_a_window_equal_to_a_grown_one_keeps_its_state() -> None:
    """The contents of a session would be lost when a record spans exactly the whole of it."""
    sessions = Sessions()
    sessions.add(0, 10)
    sessions.add(5, 15)

    assert sessions.add(0, 15) == (0, 15)
    assert sessions.state_windows == {(0, 15): (0, 10)}


def test_retired_windows_are_gone() -> None:
    """A record after the end of a session would be added to it."""
    sessions = Sessions()
    sessions.add(0, 10)
    sessions.windows.retire(TimeWindow(0, 10))

    assert sessions.windows.state_window(TimeWindow(0, 10)) is None
    with pytest.raises(KeyError):
        sessions.windows.retire(TimeWindow(0, 10))


class Indexed(Sessions):
    """The same, with an index, as for a key with many windows."""

    def __init__(self) -> None:
        super().__init__()
        self.index = SortedWindows(())
        self.windows = MergingWindows(EventTimeSessionWindows(1), self.state_windows, self.index)


ADDED = st.tuples(st.integers(0, 60), st.integers(1, 12))


@settings(max_examples=150)
@given(st.lists(st.one_of(ADDED, st.integers(0, 5)), max_size=40))
def test_an_index_changes_nothing(steps: list[Any]) -> None:
    """With many sessions in flight a record would join others than it does with few, or keep the state of another."""
    plain, indexed = Sessions(), Indexed()
    for step in steps:
        if isinstance(step, int):
            for window in list(plain.state_windows)[step : step + 1]:
                plain.windows.retire(window)
                indexed.windows.retire(window)
            continue
        start, length = step
        assert plain.add(start, start + length) == indexed.add(start, start + length)
        assert list(plain.state_windows.items()) == list(indexed.state_windows.items())
        assert plain.merges == indexed.merges
        again = SortedWindows.of(plain.state_windows)
        assert again is not None and again.touched_by(TimeWindow(0, 100)) == list(plain.state_windows)


@pytest.mark.parametrize("windows", [[(0, 5), (5, 9)], [(0, 5), (7, 6)], [(0, 9), (3, 4)]])
def test_windows_that_touch_have_no_index(windows: list[tuple[int, int]]) -> None:
    """State that another assigner has left would not be merged any more."""
    assert SortedWindows.of([TimeWindow(*window) for window in windows]) is None
