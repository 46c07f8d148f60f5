"""Session windows: they grow, they join, they end."""

from __future__ import annotations

import sys
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from penstock.api.output_tag import OutputTag
from penstock.api.state.ttl import StateTtlConfig
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.common.time import Duration
from penstock.common.typeinfo import Types
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.state import AggregatingStateDescriptor, ListStateDescriptor, ReducingStateDescriptor
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    TriggerResult,
)

SESSIONS = EventTimeSessionWindows.with_gap(10)


def test_a_session_ends_after_the_gap(drive_once: Any) -> None:
    """A visit would end too early, or never.

    0──────10
       6──────16                  0..15
                  20──────30      20..29
    """
    job = drive_once.lists(SESSIONS).records((("a", 1), 0), (("a", 2), 6), (("b", 9), 3), (("a", 3), 20))

    assert job.until(12).taken() == [("b", (3, 13), [9])]
    assert job.until(14).taken() == []
    assert job.until(15).take() == [(("a", (0, 16), [1, 2]), 15)]
    assert job.until(MAX_TIMESTAMP).taken() == [("a", (20, 30), [3])]
    assert job.is_empty


def test_a_record_between_joins_two_sessions(drive_once: Any) -> None:
    """One visit would be reported as two.

    0──────10         15──────25
            8─────────18
    """
    job = drive_once.lists(SESSIONS).records((("a", 1), 0), (("a", 2), 15), (("a", 3), 8))

    assert job.until(MAX_TIMESTAMP).taken() == [("a", (0, 25), [1, 2, 3])]
    assert job.is_empty


def test_sessions_of_a_reduce_join(drive_once: Any) -> None:
    """The sum of a session would lack one of its halves."""
    job = drive_once.sum(SESSIONS).records((("a", 1), 0), (("a", 2), 15), (("a", 4), 8)).until(MAX_TIMESTAMP)

    assert job.take() == [(("a", 7), 24)]
    assert job.is_empty


def test_a_late_record_joins_a_session_that_is_open(drive_once: Any) -> None:
    """A record would be dropped though it belongs to a session that is not over.

    watermark 11: [0, 10) alone would be over, but with [5, 15) it is not
    """
    job = drive_once.sum(SESSIONS).records((("a", 1), 5)).until(11).records((("a", 2), 0))

    assert job.late == 0
    assert job.until(14).take() == [(("a", 3), 14)]


def test_a_late_record_of_its_own_is_dropped(drive_once: Any) -> None:
    """A session that is over would be emitted again, without most of its records."""
    job = drive_once.sum(SESSIONS, late_tag=OutputTag("late")).until(20).records((("a", 1), 0))

    assert job.side == [(("a", 1), 0)]
    assert job.is_empty
    assert job.until(MAX_TIMESTAMP).take() == []


def test_within_the_allowed_lateness_sessions_grow_and_fire_again(drive_once: Any) -> None:
    """A late record would neither update its session nor be reported as late.

    lateness 20: [0, 10) fires at 9 and goes at 29; at 15 a record at 8 makes it [0, 18)
    """
    job = drive_once.lists(SESSIONS, lateness=20).records((("a", 1), 0)).until(9)

    assert job.taken() == [("a", (0, 10), [1])]
    assert job.until(15).records((("a", 2), 3)).taken() == [("a", (0, 13), [1, 2])]
    assert job.records((("a", 3), 8)).taken() == []
    assert job.until(17).take() == [(("a", (0, 18), [1, 2, 3]), 17)]
    assert job.until(37).taken() == []
    assert job.is_empty


def test_late_sessions_that_join_fire_once(drive_once: Any) -> None:
    """Two sessions that have fired, joined by a late record, would not be emitted as one."""
    job = drive_once.lists(SESSIONS, lateness=100).records((("a", 1), 0), (("a", 2), 15)).until(30)

    assert job.taken() == [("a", (0, 10), [1]), ("a", (15, 25), [2])]
    assert job.records((("a", 3), 8)).taken() == [("a", (0, 25), [1, 2, 3])]
    assert job.until(124).is_empty


def test_sessions_of_the_clock(drive_once: Any) -> None:
    """Sessions of the clock would not grow."""
    job = drive_once.sum(ProcessingTimeSessionWindows.with_gap(10)).untimed(("a", 1)).clock(6).untimed(("a", 2))

    assert job.clock(15).take() == []
    assert job.clock(16).take() == [(("a", 3), 15)]
    assert job.is_empty


def test_a_gap_for_each_record(drive_once: Any) -> None:
    """A session would end by the wrong record's gap."""
    job = drive_once.lists(EventTimeSessionWindows.with_dynamic_gap(lambda record: record[1]))
    job.records((("a", 20), 0), (("a", 5), 10), (("a", 3), 30))

    assert job.until(MAX_TIMESTAMP).taken() == [("a", (0, 20), [20, 5]), ("a", (30, 33), [3])]


def test_a_gap_that_is_none_names_the_record(drive_once: Any) -> None:
    """One bad record would stop the job without being named."""
    job = drive_once.lists(EventTimeSessionWindows.with_dynamic_gap(lambda record: record[1]))

    with pytest.raises(UserFunctionError, match=r"(?s)assign_windows.*value \('a', 0\).*must be positive"):
        job.records((("a", 0), 0))


def test_trigger_state_merges(drive_once: Any) -> None:
    """A trigger that fires early would fire too often, or no more, once sessions have joined.

    fires at multiples of 5: sessions from 2 and from 16 wait for 5 and 20; joined by 9 they fire at 5, 10, 15, ...
    """
    job = drive_once.lists(SESSIONS, trigger=ContinuousEventTimeTrigger.of(5))
    job.records((("a", 1), 2), (("a", 2), 16), (("a", 3), 9))

    assert job.until(5).taken() == [("a", (2, 26), [1, 2, 3])]
    assert len(job.until(24).taken()) == 3
    assert len(job.until(25).taken()) == 1
    assert job.is_empty


def test_sessions_have_no_state_of_their_own(drive_once: Any) -> None:
    """State of a session would be lost silently when it grows."""

    class Keeps(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            context.global_state()
            yield context.window_state()

    with pytest.raises((ProgramError, UserFunctionError), match=r"use global_state\(\)"):
        drive_once.process(SESSIONS, Keeps()).records((("a", 1), 0)).until(MAX_TIMESTAMP)


@settings(max_examples=100)
@given(
    records=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-100, 100)), max_size=25),
    gap=st.integers(1, 20),
    data=st.data(),
)
def test_sessions_do_not_hang_on_the_order_of_records(drive_once: Any, records: Any, gap: int, data: Any) -> None:
    """The same visits would be reported differently when records arrive in another order."""
    expected = []
    for key in sorted({key for key, _ in records}):
        times = sorted(at for other, at in records if other == key)
        starts = [at for i, at in enumerate(times) if i == 0 or at - times[i - 1] > gap]
        for start, next_start in zip(starts, [*starts[1:], None], strict=True):
            inside = [at for at in times if at >= start and (next_start is None or at < next_start)]
            expected.append((key, (start, inside[-1] + gap), inside))
    job = drive_once.lists(EventTimeSessionWindows.with_gap(gap))
    # The watermark follows the earliest record that is still to come, two behind: windows that just touch merge only
    # while both are there, as in Flink.
    for position, (key, at) in enumerate(records):
        if data.draw(st.booleans()):
            job.until(min(at for _, at in records[position:]) - 2)
        job.records(((key, at), at))
    job.until(MAX_TIMESTAMP)

    assert sorted((key, span, sorted(values)) for key, span, values in job.taken()) == sorted(expected)
    assert job.is_empty


class Sum(AggregateFunction):  # type: ignore[type-arg]
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Counting(EventTimeTrigger):
    """A trigger that keeps what came in a state of this descriptor, and notes what is in it at each record."""

    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor
        self.noted: list[Any] = []

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
        state = ctx.get_partitioned_state(self.descriptor)
        state.add(element[1])
        self.noted.append(list(state) if isinstance(self.descriptor, ListStateDescriptor) else state.get())
        return super().on_element(element, timestamp, window, ctx)

    def on_merge(self, window: Any, ctx: Any) -> None:
        super().on_merge(window, ctx)
        ctx.merge_partitioned_state(self.descriptor)

    def clear(self, window: Any, ctx: Any) -> None:
        super().clear(window, ctx)
        ctx.get_partitioned_state(self.descriptor).clear()


@pytest.mark.parametrize(
    ("descriptor", "noted"),
    [
        (ReducingStateDescriptor("n", lambda a, b: a + b, Types.LONG()), [1, 10, 111, 1_000, 11_111, 5, 7, 14, 16]),
        (AggregatingStateDescriptor("n", Sum(), Types.LONG()), [1, 10, 111, 1_000, 11_111, 5, 7, 14, 16]),
        (
            ListStateDescriptor("n", Types.LONG()),
            [[1], [10], [1, 10, 100], [1_000], [100, 1_000, 10_000], [5], [7], [5, 9], [9, 2]],
        ),
    ],
)
def test_what_a_trigger_keeps_for_a_time_is_merged(drive: Any, descriptor: Any, noted: list[Any]) -> None:
    """The times of last use would be merged as if they were values: added up, or a TypeError."""
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(100)).build())
    trigger = Counting(descriptor)
    job = drive.lists(SESSIONS, trigger=trigger)
    job.clock(0).records((("a", 1), 0), (("a", 10), 15))
    job.clock(50).records((("a", 100), 8))
    job.clock(120).records((("a", 1_000), 30))
    job.clock(140).records((("a", 10_000), 22))
    # What was written before 200 is over.
    job.clock(300).records((("a", 5), 60))
    job.clock(390).records((("a", 7), 38))
    # The 5 is alive still: a window that only grows does not prolong its life.
    job.clock(395).records((("a", 9), 50))
    # Of the two sessions that this joins, the first has expired.
    job.clock(493).records((("a", 2), 45))
    assert trigger.noted == noted
    assert job.until(MAX_TIMESTAMP).is_empty


@pytest.mark.parametrize(
    "unread", [ReducingStateDescriptor("n", lambda a, b: a + b, Types.LONG()), ListStateDescriptor("n", Types.LONG())]
)
def test_what_was_merged_is_freed_when_its_time_is_over(drive: Any, unread: Any) -> None:
    """The state of triggers would stay for as long as their session, which may never end."""
    unread.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(100)).build())
    job = drive.lists(SESSIONS, trigger=Counting(unread))
    job.clock(0).records((("a", 1), 0), (("a", 10), 15))
    job.clock(50).records((("a", 100), 8))
    table = next(table for name, table in job.operator.backend.tables.items() if "(trigger)" in name)
    assert table
    for now_ms in range(100, 1_000, 5):
        job.clock(now_ms)
    assert not table


class AskedSessions(EventTimeSessionWindows[Any]):
    """Sessions whose windows are merged by the assigner itself."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        super().merge_windows(windows, callback)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 900)), max_size=150), st.integers(0, 600))
def test_many_sessions_in_flight_are_those_of_the_assigner(
    drive_once: Any, records: list[tuple[str, int]], watermark: int
) -> None:
    """A key with many sessions would have others than one with few."""
    jobs = [drive_once.lists(assigner(10)) for assigner in (EventTimeSessionWindows, AskedSessions)]
    results = []
    for job in jobs:
        for number, (key, at) in enumerate(records):
            job.records(((key, number), at))
            if number == len(records) // 2:
                job.until(watermark)
        results.append((job.until(MAX_TIMESTAMP).take(), job.late))
        assert job.is_empty
    assert results[0] == results[1]


def calls(job: Any, *records: Any) -> int:
    """How many functions are called for these records."""
    count = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        job.records(*records)
    finally:
        sys.setprofile(None)
    return count


def test_a_record_does_not_look_at_all_sessions_of_its_key(drive_once: Any) -> None:
    """A key with four thousand sessions in flight would take 300 microseconds for each record."""
    counts = []
    for sessions in (100, 3_000):
        job = drive_once.lists(SESSIONS).records(*((("a", 1), 100 * number) for number in range(sessions)))
        counts.append(calls(job, (("a", 2), 5_003)))
    assert counts[1] <= counts[0] + 20
