"""TimeWindow, CountWindow, GlobalWindow: what users' window functions get."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable

import pytest

from penstock.datastream.window import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    MergingWindowAssigner,
    TimeWindow,
    TimeWindowSerializer,
)


def test_a_time_window_ends_one_millisecond_before_its_end() -> None:
    """Results would carry a timestamp that belongs to the next window."""
    window = TimeWindow(0, 10)

    assert (window.start, window.end, window.max_timestamp()) == (0, 10, 9)
    assert repr(window) == "TimeWindow(start=0, end=10)"


def test_time_windows_compare_by_value() -> None:
    """State kept under a window would not be found again."""
    assert TimeWindow(0, 10) == TimeWindow(0, 10)
    assert len({TimeWindow(0, 10), TimeWindow(0, 10), TimeWindow(0, 11)}) == 2
    assert sorted([TimeWindow(5, 6), TimeWindow(0, 9), TimeWindow(0, 3)]) == [(0, 3), (0, 9), (5, 6)]
    assert pickle.loads(pickle.dumps(TimeWindow(1, 2))) == TimeWindow(1, 2)


def test_windows_that_touch_intersect() -> None:
    """Two sessions exactly one gap apart would stay two."""
    assert TimeWindow(0, 10).intersects(TimeWindow(10, 20))
    assert not TimeWindow(0, 10).intersects(TimeWindow(11, 20))
    assert TimeWindow(0, 10).cover(TimeWindow(5, 20)) == TimeWindow(0, 20)


@pytest.mark.parametrize(
    ("timestamp", "offset", "size", "start"),
    [(7, 0, 5, 5), (5, 0, 5, 5), (-1, 0, 5, -5), (-5, 0, 5, -5), (7, 3, 5, 3), (2, 3, 5, -2), (7, -2, 5, 3)],
)
def test_window_starts(timestamp: int, offset: int, size: int, start: int) -> None:
    """Records before 1970, or in a time zone's own days, would fall into the wrong window."""
    assert TimeWindow.get_window_start_with_offset(timestamp, offset, size) == start


def test_merge_windows_tells_each_group_once() -> None:
    """Sessions would be merged by halves.

    0──3   10──────15
     1───4         15──17     20──21
    """
    merges: list[tuple[set[TimeWindow], TimeWindow]] = []

    class Callback(MergingWindowAssigner.MergeCallback):  # type: ignore[misc,name-defined]
        def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
            merges.append((set(to_be_merged), merge_result))

    windows = [TimeWindow(15, 17), TimeWindow(0, 3), TimeWindow(20, 21), TimeWindow(1, 4), TimeWindow(10, 15)]
    TimeWindow.merge_windows(windows, Callback())

    assert merges == [({(0, 3), (1, 4)}, (0, 4)), ({(10, 15), (15, 17)}, (10, 17))]


def test_serializers_give_windows_back() -> None:
    """Windows in a savepoint could not be read."""
    for serializer, window in (
        (TimeWindowSerializer(), TimeWindow(-5, 10)),
        (CountWindowSerializer(), CountWindow(3)),
        (GlobalWindowSerializer(), GlobalWindow.get()),
    ):
        stream = io.BytesIO()
        serializer.serialize(window, stream)  # type: ignore[attr-defined]
        stream.seek(0)
        assert serializer.deserialize(stream) == window  # type: ignore[attr-defined]
        assert not stream.read()
