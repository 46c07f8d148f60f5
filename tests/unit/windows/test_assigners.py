"""Which windows a record is put into."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.time import Duration, Time
from penstock.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindow,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowAssigner,
)


class At(WindowAssigner.WindowAssignerContext):  # type: ignore[misc,name-defined]
    """A clock."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def get_current_processing_time(self) -> int:
        return self.now_ms

    def get_runtime_context(self) -> Any:
        raise NotImplementedError


def windows(assigner: Any, timestamp: int, now_ms: int = 0, element: Any = None) -> list[Any]:
    return list(assigner.assign_windows(element, timestamp, At(now_ms)))


def test_tumbling() -> None:
    """A record would be counted in the wrong window."""
    assert windows(TumblingEventTimeWindows.of(Time.seconds(5)), 7_300) == [(5_000, 10_000)]
    assert windows(TumblingEventTimeWindows.of(timedelta(seconds=5)), -1) == [(-5_000, 0)]
    assert windows(TumblingProcessingTimeWindows.of(Duration.of_seconds(5)), 1, now_ms=12_000) == [(10_000, 15_000)]


def test_a_day_of_a_time_zone() -> None:
    """Daily figures of a place would be cut at midnight in Greenwich."""
    hour = 3_600_000
    day = TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))

    assert windows(day, 15 * hour) == [(-8 * hour, 16 * hour)]
    assert windows(day, 16 * hour) == [(16 * hour, 40 * hour)]


def test_sliding() -> None:
    """A record would be missing from windows that hold it.

    timestamp 7       5────────────15
                 0────────────10
    """
    sliding = SlidingEventTimeWindows.of(Time(10), Time(5))

    assert windows(sliding, 7) == [(5, 15), (0, 10)]
    assert windows(sliding, 9) == [(5, 15), (0, 10)]
    assert windows(sliding, -1) == [(-5, 5), (-10, 0)]
    assert windows(SlidingEventTimeWindows.of(Time(10), Time(5), Time(2)), 7) == [(7, 17), (2, 12)]
    assert windows(SlidingProcessingTimeWindows.of(Time(10), Time(5)), 0, now_ms=7) == [(5, 15), (0, 10)]


def test_sliding_when_the_slide_does_not_divide_the_size() -> None:
    """A record at the end of a window would stay in the set of windows of the record before."""
    sliding = SlidingEventTimeWindows.of(Time(7), Time(5))

    assert windows(sliding, 5) == [(5, 12), (0, 7)]
    assert windows(sliding, 7) == [(5, 12)]


def test_sliding_with_gaps() -> None:
    """Records between two windows would be put into one of them."""
    sliding = SlidingEventTimeWindows.of(Time(2), Time(5))

    assert windows(sliding, 6) == [(5, 7)]
    assert windows(sliding, 8) == []


def test_sessions() -> None:
    """Sessions would start or end at the wrong moment."""

    class Length(SessionWindowTimeGapExtractor):
        def extract(self, element: Any) -> int:
            return len(element)

    assert windows(EventTimeSessionWindows.with_gap(Time(10)), 5) == [(5, 15)]
    assert windows(ProcessingTimeSessionWindows.with_gap(10), 5, now_ms=7) == [(7, 17)]
    assert windows(EventTimeSessionWindows.with_dynamic_gap(Length()), 5, element="abc") == [(5, 8)]
    assert windows(ProcessingTimeSessionWindows.with_dynamic_gap(len), 5, now_ms=7, element="abc") == [(7, 10)]
    with pytest.raises(ValueError, match="must be positive, got 0 ms"):
        windows(EventTimeSessionWindows.with_dynamic_gap(len), 5, element="")


def test_the_global_window() -> None:
    """Equal keys would be treated as different ones."""
    assert windows(GlobalWindows.create(), MIN_TIMESTAMP) == [GlobalWindow()]
    assert GlobalWindow() == GlobalWindow.get()


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(5),
        SlidingEventTimeWindows.of(10, 5),
        EventTimeSessionWindows.with_gap(5),
        EventTimeSessionWindows.with_dynamic_gap(lambda element: 5),
    ],
)
def test_event_time_needs_timestamps(assigner: Any) -> None:
    """Without assigned timestamps, records would get windows three hundred million years ago."""
    with pytest.raises(ProgramError, match="no timestamp: is assign_timestamps_and_watermarks missing"):
        windows(assigner, MIN_TIMESTAMP)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TumblingEventTimeWindows.of(0), ValueError, "must be positive, got 0"),
        (lambda: TumblingEventTimeWindows.of(5, 5), ValueError, "the offset must be smaller"),
        (lambda: TumblingProcessingTimeWindows.of("5 s"), TypeError, "expected a Duration"),
        (lambda: SlidingEventTimeWindows.of(10, 0), ValueError, "must be positive"),
        (lambda: SlidingEventTimeWindows.of(10, 5, -5), ValueError, "the offset must be smaller"),
        (lambda: EventTimeSessionWindows.with_gap(0), ValueError, "the gap must be positive"),
        (lambda: EventTimeSessionWindows.with_dynamic_gap(5), TypeError, "expected a SessionWindowTimeGapExtractor"),
        (lambda: CountTumblingWindowAssigner.of(0), ValueError, "size of a count window must be positive"),
        (lambda: CountSlidingWindowAssigner.of(3, -1), ValueError, "slide of a count window must be positive"),
        (lambda: CountTumblingWindowAssigner.of(2.5), TypeError, "must be a number of records"),
        (lambda: CountTrigger.of(0), ValueError, "must be positive"),
    ],
)
def test_wrong_arguments_are_refused_where_they_are_written(make: Any, error: type[Exception], message: str) -> None:
    """The mistake would show up in a worker, or as windows that are never right."""
    with pytest.raises(error, match=message):
        make()
