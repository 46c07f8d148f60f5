"""The longest step of a task (CPU ms) where one watermark makes much due: windows that end, heap timers of one moment.

A step that takes long holds back barriers, flushes and cancellation.

    python -m benchmarks.curves.long_steps
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.curves.curve import Figures, run
from benchmarks.curves.driven import Driven
from penstock.datastream import AggregateFunction
from penstock.datastream.window import SlidingEventTimeWindows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.time.timers import HeapTimerQueue
from penstock.engine.runtime.windows.choice import window_operator
from penstock.engine.runtime.windows.contents import Aggregated
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.windowing import WindowSettings

_TIMERS_FOR_EACH = 1_000
_SLIDE_MS = 1_000


class Total(AggregateFunction[tuple[str, int], int, int]):
    """The sum of the values of a key."""

    shares_slices = True

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: tuple[str, int], accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, a: int, b: int) -> int:
        return a + b


def sliding(panes: int) -> Driven:
    """Return an operator with sliding windows of so many panes."""
    assigner: Any = SlidingEventTimeWindows(panes * _SLIDE_MS, _SLIDE_MS)
    trigger = assigner.get_default_trigger(None)
    contents = Aggregated(UserFunction(Total(), "aggregate"))
    return Driven(
        window_operator(
            "windows",
            lambda record: record[0],
            WindowSettings(assigner=assigner, trigger=trigger, contents=contents, evaluation=Evaluation()),
        )
    )


def measure(count: int) -> Figures:
    """Make so many windows end with one watermark, and a thousand times as many timers due."""
    driven = sliding(count)
    for pane in range(0, count, 10):
        driven.records([("key", 1)], [pane * _SLIDE_MS])
    driven.longest_ms = 0
    driven.until(2 * count * _SLIDE_MS)
    windows_ms = driven.longest_ms

    timers = HeapTimerQueue()
    for number in range(count * _TIMERS_FOR_EACH):
        timers.register(7, number)
    longest = 0.0
    while timers:
        began = time.thread_time()
        for _ in range(1_024):
            timers.pop_due(7)
        longest = max(longest, time.thread_time() - began)
    return {"windows, longest step": windows_ms, "1,000 n timers, 1,024 fire": longest * 1e3}


if __name__ == "__main__":
    run(__doc__, (36, 360, 3_600), measure)
