"""When windows give their results: the triggers there are, and one of a user's own."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.windows.conftest import Driver

from penstock.api.windows.triggers import DeltaTrigger
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.common.typeinfo import Types
from penstock.datastream.state import ReducingStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.choice import window_operator
from penstock.engine.runtime.windows.contents import Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.windowing import WindowSettings

TUMBLING = TumblingEventTimeWindows.of(10)


def a(*values: int) -> list[tuple[tuple[str, int], int]]:
    return [(("a", value), 1) for value in values]


def test_count_trigger_keeps_what_has_fired(drive_once: Any) -> None:
    """Each firing would emit only the records since the last one."""
    job = drive_once.lists(TUMBLING, trigger=CountTrigger.of(2)).records(*a(1, 2, 3, 4, 5))

    assert [values for _, _, values in job.taken()] == [[1, 2], [1, 2, 3, 4]]
    assert job.until(9).take() == []
    assert job.is_empty


def test_purging_trigger_drops_what_has_fired(drive_once: Any) -> None:
    """Records would be emitted twice."""
    job = drive_once.lists(TUMBLING, trigger=PurgingTrigger.of(CountTrigger.of(2))).records(*a(1, 2, 3, 4, 5))

    assert [values for _, _, values in job.taken()] == [[1, 2], [3, 4]]
    assert job.until(9).is_empty


def test_purged_windows_start_anew_with_a_late_record(drive_once: Any) -> None:
    """A late record would bring back records that were emitted and purged."""
    job = drive_once.lists(TUMBLING, trigger=PurgingTrigger.of(EventTimeTrigger.create()), lateness=10)

    assert [values for _, _, values in job.records(*a(1, 2)).until(9).taken()] == [[1, 2]]
    assert [values for _, _, values in job.records(*a(3)).taken()] == [[3]]
    assert job.until(19).is_empty


def test_continuous_event_time(drive_once: Any) -> None:
    """Early results of a long window would come at odd times, or again at its end.

    window [0, 20), every 6: at 6, 12, 18, and 19, its end
    """
    job = drive_once.lists(TumblingEventTimeWindows.of(20), trigger=ContinuousEventTimeTrigger.of(6))
    job.records((("a", 1), 2))

    assert job.until(5).take() == []
    assert [at for _, at in job.until(6).take()] == [19]
    assert len(job.until(18).take()) == 2
    assert len(job.until(19).take()) == 1
    assert job.is_empty


def test_continuous_event_time_fires_once_at_the_end(drive_once: Any) -> None:
    """A window that stays for late records would be emitted once more after its end, unchanged.

    The record's timestamp is a multiple of the interval, and the last one of the window.
    """
    job = drive_once.lists(TumblingEventTimeWindows.of(7), trigger=ContinuousEventTimeTrigger.of(3), lateness=20)
    job.records((("a", 1), 6))

    assert [values for _, _, values in job.until(6).taken()] == [[1]]
    assert job.until(26).taken() == []
    assert job.is_empty


def test_continuous_processing_time(drive_once: Any) -> None:
    """A dashboard fed by early results would not be updated."""
    job = drive_once.lists(TumblingProcessingTimeWindows.of(20), trigger=ContinuousProcessingTimeTrigger.of(6))
    job.clock(2).untimed(("a", 1))

    assert job.clock(6).take() == []
    assert len(job.clock(7).take()) == 1
    assert len(job.clock(19).take()) == 2
    assert len(job.clock(20).take()) == 1
    assert job.is_empty


def test_continuous_processing_time_past_the_end_of_an_event_time_window(drive_once: Any) -> None:
    """A replay of old records with early results would never come to an end."""
    job = drive_once.lists(TUMBLING, trigger=ContinuousProcessingTimeTrigger.of(6)).clock(1000).records(*a(1))

    assert len(job.clock(1100).take()) == 17
    assert job.until(9).take() == []
    assert job.is_empty


def test_continuous_processing_time_in_batched_mode(drive_once: Any) -> None:
    """A bounded job with early results would never end."""
    job = drive_once.lists(GlobalWindows.create(), trigger=ContinuousProcessingTimeTrigger.of(6), batched=True).untimed(
        ("a", 1)
    )

    assert len(job.end_key().take()) == 1
    assert job.is_empty


def test_processing_time_trigger_on_event_time_windows(drive_once: Any) -> None:
    """Results requested by processing time would come by event time."""
    job = drive_once.lists(TUMBLING, trigger=ProcessingTimeTrigger.create()).records(*a(1))

    assert job.clock(10).taken() == [("a", (0, 10), [1])]
    assert job.until(9).take() == []
    assert job.is_empty


def test_global_window(drive_once: Any) -> None:
    """A global window would fire by itself, or lose records."""
    assert drive_once.lists(GlobalWindows.create()).untimed(("a", 1)).until(MAX_TIMESTAMP).take() == []
    job = drive_once.lists(GlobalWindows.create(), trigger=CountTrigger.of(2)).untimed(("a", 1), ("b", 7), ("a", 2))
    assert job.take() == [(("a", None, [1, 2]), MAX_TIMESTAMP)]


def test_count_windows(drive_once: Any) -> None:
    """Records would be grouped by count over all keys, or kept after their window is full."""
    job = drive_once.lists(CountTumblingWindowAssigner.of(2)).untimed(
        ("a", 1), ("b", 7), ("a", 2), ("a", 3), ("b", 8), ("a", 4), ("a", 5)
    )

    assert job.taken() == [("a", 0, [1, 2]), ("b", 0, [7, 8]), ("a", 1, [3, 4])]
    contents = job.operator.backend.layered("(windows) contents")
    assert [value for _, value in contents.items()] == [[("a", 5)]]


def test_sliding_count_windows(drive_once: Any) -> None:
    """A result would come before its window is full.

    size 3, slide 2:   1 2 3
                           3 4 5
    """
    job = drive_once.lists(CountSlidingWindowAssigner.of(3, 2)).untimed(*(("a", value) for value in range(1, 7)))

    assert job.taken() == [("a", 0, [1, 2, 3]), ("a", 1, [3, 4, 5])]


class Threshold(Trigger):  # type: ignore[type-arg]
    """Fires once the sum of a window's values is more than 10; the way a user would write it."""

    total = ReducingStateDescriptor("total", lambda x, y: x + y, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        state = ctx.get_partitioned_state(self.total)
        state.add(element[1])
        ctx.get_metric_group().counter("seen").inc()
        return TriggerResult.FIRE if state.get() > 10 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Any) -> None:
        raise NotImplementedError

    def clear(self, window: Any, ctx: Any) -> None:
        ctx.get_partitioned_state(self.total).clear()


def test_a_trigger_of_ones_own_has_state_of_its_own(drive_once: Any) -> None:
    """The state of a trigger would be mixed up between keys or windows, or stay when they are over."""
    job = drive_once.lists(TUMBLING, trigger=Threshold())
    job.records((("a", 6), 1), (("b", 6), 1), (("a", 6), 11), (("a", 5), 2))

    assert job.taken() == [("a", (0, 10), [6, 5])]
    assert job.until(19).is_empty


def test_a_trigger_that_fails_is_named(drive_once: Any) -> None:
    """A failing trigger would look like a fault of penstock."""

    class Fails(NeverTrigger):  # type: ignore[type-arg]
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            raise ValueError("not today")

    with pytest.raises(UserFunctionError, match=r"(?s)in Fails.on_element.*key 'a'.*ValueError: not today"):
        drive_once.lists(TUMBLING, trigger=Fails()).records(*a(1))


def test_trigger_results() -> None:
    """A trigger that wraps another could not tell what it said."""
    assert TriggerResult.FIRE_AND_PURGE.is_fire() and TriggerResult.FIRE_AND_PURGE.is_purge()
    assert TriggerResult.FIRE.is_fire() and not TriggerResult.FIRE.is_purge()
    assert not TriggerResult.PURGE.is_fire() and TriggerResult.PURGE.is_purge()
    assert not TriggerResult.CONTINUE.is_fire() and not TriggerResult.CONTINUE.is_purge()


@pytest.mark.parametrize("in_place", [False, True])
def test_a_trigger_keeps_a_record_as_it_was(in_place: bool) -> None:
    """The record that the trigger compares with was the window's own, which a reduce function may change: it never
    fired, but with a restart between the records it did."""

    def add(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        if not in_place:
            return {"v": one["v"] + other["v"]}
        one["v"] += other["v"]
        return one

    trigger = DeltaTrigger.of(5, lambda last, new: new["v"] - last["v"])
    contents = Reduced(UserFunction(add, "reduce"))
    job = Driver(
        window_operator(
            "sum",
            lambda value: 0,
            WindowSettings(
                assigner=GlobalWindows.create(), trigger=trigger, contents=contents, evaluation=Evaluation()
            ),
        )
    )
    fired = []
    for value in (1, 2, 3, 4, 7, 8, 13, 20):
        job.records(({"v": value}, value))
        fired += [result["v"] for result in job.taken()]
    assert fired == [17, 38, 58]
