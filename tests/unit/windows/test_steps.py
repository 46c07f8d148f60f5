"""Windows that fire in steps: a watermark holds a task no longer than its budget, whatever it makes due."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common.constants import MAX_TIMESTAMP
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

CALL_NS = 100_000
"""What a call of the user's function takes, by the clock of these tests."""
STEP_NS = 20_000_000


class Clock:
    """Goes on with each call of the user's function."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def works(self) -> None:
        """The user's function was called."""
        self.now_ns += CALL_NS


class Slow(AggregateFunction[Any, int, int]):
    """A sum whose results take long."""

    def __init__(self, clock: Clock, shares: bool = False) -> None:
        self.clock = clock
        self.shares_slices = shares

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        self.clock.works()
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def slowly_listed(clock: Clock) -> Any:
    """A window function that takes long."""

    def listed(key: Any, window: Any, records: list[Any]) -> list[Any]:
        clock.works()
        return [len(records)]

    return listed


@pytest.mark.parametrize("kind", ["aggregate", "apply"])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(20, 10), EventTimeSessionWindows.with_gap(10)],
)
def test_many_keys_of_a_window_fire_in_steps(drive: Any, kind: str, assigner: Any) -> None:
    """A checkpoint would wait until a slow function was called for all keys of a window."""
    clock = Clock()
    function = Slow(clock) if kind == "aggregate" else slowly_listed(clock)
    job = getattr(drive, kind)(assigner, function, clock=clock)
    job.records(*(((number, 1), 5) for number in range(400)))
    results = job.until(MAX_TIMESTAMP).taken()
    assert set(results) == {1} and len(results) % 400 == 0
    assert clock.now_ns >= 400 * CALL_NS
    assert job.longest_step_ns <= STEP_NS


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("lateness", [0, 50])
def test_many_windows_of_a_watermark_fire_in_steps(drive: Any, shares: bool, lateness: int) -> None:
    """A watermark that jumps by an hour ends 3,600 windows: the task would do nothing else for seconds."""
    clock = Clock()
    job = drive.aggregate(SlidingEventTimeWindows.of(250, 1), Slow(clock, shares), lateness=lateness, clock=clock)
    assert job.records((("a", 1), 250), (("a", 2), 300)).until(2_000).taken() == [1] * 50 + [3] * 200 + [2] * 50
    assert job.longest_step_ns <= STEP_NS


def test_windows_that_a_late_record_fires_come_in_steps(drive: Any) -> None:
    """One late record fires all windows that wait for the end of the allowed lateness."""
    clock = Clock()
    job = drive.aggregate(SlidingEventTimeWindows.of(250, 1), Slow(clock, True), lateness=1_000, clock=clock)
    job.records((("a", 1), 250)).until(600)
    job.take()
    assert job.records((("a", 2), 250)).taken() == [3] * 250
    assert job.longest_step_ns <= STEP_NS
