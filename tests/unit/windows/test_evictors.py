"""Evictors and the delta trigger: what a window shows when it fires, and what it still has afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import AggregateFunction, KeySelector
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaFunction,
    DeltaTrigger,
    EventTimeSessionWindows,
    Evictor,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TimestampedValue,
    TumblingEventTimeWindows,
)
from penstock.testing import OperatorHarness


def shown(key: Any, window: Any, records: Any) -> Any:
    yield [*records]


def harness_of(evictor: Any, trigger: Any = None, windows: Any = None, finish: Any = None) -> OperatorHarness:
    """Records with one key, in the global window unless said otherwise."""

    def program(stream: Any) -> Any:
        windowed = stream.key_by(lambda value: 0).window(windows or GlobalWindows.create())
        if trigger is not None:
            windowed.trigger(trigger)
        if evictor is not None:
            windowed.evictor(evictor)
        return finish(windowed) if finish is not None else windowed.apply(shown)

    return OperatorHarness(program)


def outputs(harness: OperatorHarness, records: Any) -> list[Any]:
    for record in records:
        value, timestamp = record if isinstance(record, tuple) else (record, None)
        harness.push(value, timestamp)
    return harness.outputs()


def test_a_count_evictor_keeps_the_last_records() -> None:
    """The window of the last hundred records would grow to all there ever were."""
    assert outputs(harness_of(CountEvictor.of(3), CountTrigger.of(2)), range(1, 7)) == [[1, 2], [2, 3, 4], [4, 5, 6]]


def test_evicted_afterwards_they_are_seen_once_more() -> None:
    """The function would not see the records for which the window fires."""
    harness = harness_of(CountEvictor.of(1, True), CountTrigger.of(2))
    assert outputs(harness, range(1, 7)) == [[1, 2], [2, 3, 4], [4, 5, 6]]


def test_a_time_evictor_keeps_what_is_near_the_latest_record() -> None:
    """A record exactly as old as the time would stay, which Flink evicts, or an old one that came last would."""
    harness = harness_of(TimeEvictor.of(Time.milliseconds(10)), CountTrigger.of(3))
    records = [("a", 1), ("b", 11), ("c", 2), ("d", 12), ("e", 3), ("f", 4)]
    assert outputs(harness, records) == [["b", "c"], ["b", "d", "e", "f"]]


def test_a_time_evictor_leaves_records_without_timestamps() -> None:
    """A window without event time would always be empty."""
    assert outputs(harness_of(TimeEvictor.of(10), CountTrigger.of(2)), ["a", "b"]) == [["a", "b"]]


class Distance(DeltaFunction[int]):
    def get_delta(self, old_data_point: int, new_data_point: int) -> float:
        return abs(new_data_point - old_data_point)


@pytest.mark.parametrize("delta", [Distance(), lambda old, new: abs(new - old)], ids=["class", "callable"])
def test_a_delta_evictor_keeps_what_is_near_the_last_record(delta: Any) -> None:
    """Prices far from the current one would count in its mean."""
    harness = harness_of(DeltaEvictor.of(5, delta), CountTrigger.of(4))
    assert outputs(harness, [10, 3, 5, 8, 20, 9, 12, 12.5]) == [[10, 5, 8], [10, 8, 9, 12, 12.5]]


def test_a_delta_trigger_fires_by_the_record_with_which_it_last_fired() -> None:
    """A slow drift would never fire, as each record is near the one before."""
    harness = harness_of(None, PurgingTrigger.of(DeltaTrigger.of(5, Distance(), Types.INT())))
    assert outputs(harness, [1, 4, 6, 7, 9, 12, 13, 1]) == [[1, 4, 6, 7], [9, 12, 13], [1]]


def test_windows_that_end_forget_the_last_record_of_the_trigger() -> None:
    """State of a window that is over would stay for ever."""
    harness = harness_of(None, DeltaTrigger.of(5, Distance()), TumblingEventTimeWindows.of(Time.milliseconds(100)))
    assert outputs(harness, [(1, 5), (9, 6), (1, 7)]) == [[1, 9], [1, 9, 1]]
    tables = harness.operator.keyed_tables()
    assert any(tables.values())
    harness.watermark(99)
    assert not any(tables.values())


class Total(AggregateFunction):
    def create_accumulator(self) -> list[int]:
        return [0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> int:
        return accumulator[0]

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0]]


def adding(first: list[int], second: list[int]) -> list[int]:
    first[0] += second[0]
    return first


def test_reduce_and_aggregate_see_what_is_left() -> None:
    """The sum of the last three records would contain all that came before, or some of them twice."""
    evictor, trigger = CountEvictor.of(3), CountTrigger.of(2)
    sums = harness_of(evictor, trigger, finish=lambda windowed: windowed.aggregate(Total()))
    assert outputs(sums, range(1, 7)) == [3, 9, 15]
    harness = harness_of(evictor, trigger, finish=lambda windowed: windowed.reduce(adding))
    assert outputs(harness, ([n] for n in range(1, 7))) == [[3], [9], [15]]
    both = harness_of(evictor, trigger, finish=lambda windowed: windowed.aggregate(Total(), shown))
    assert outputs(both, range(1, 5)) == [[3], [9]]


class All(Evictor):
    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        assert size == len(elements)
        elements.clear()

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        assert size == 0


def test_a_window_from_which_all_is_evicted() -> None:
    """A window without records would be an error, or its state would stay for ever."""
    harness = harness_of(All(), CountTrigger.of(2))
    assert outputs(harness, range(4)) == [[], []]
    assert outputs(harness_of(All(), CountTrigger.of(2), finish=lambda w: w.aggregate(Total())), range(2)) == [0]
    assert outputs(harness_of(All(), CountTrigger.of(2), finish=lambda w: w.reduce(adding)), range(2)) == []
    tables = harness.operator.keyed_tables()
    assert not tables["(windows) contents for an evictor"]


def test_sessions_that_merge_have_the_records_of_all() -> None:
    """Records of a session would be lost when another joins it."""
    windows = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    harness = harness_of(CountEvictor.of(10), windows=windows)
    assert outputs(harness, [("a", 0), ("b", 15), ("c", 8), ("d", 24)]) == []
    harness.watermark(100)
    assert [sorted(records) for records in harness.outputs()] == [["a", "b", "c", "d"]]


class Watching(Evictor):
    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        self.seen = [(element.get_value(), element.get_timestamp()) for element in elements]
        self.times = evictor_context.get_current_watermark(), evictor_context.get_current_processing_time()
        evictor_context.get_metric_group()

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        if elements[0].value == "bad":
            raise ValueError("can't evict")


def test_an_evictor_sees_timestamps_and_times() -> None:
    """An evictor of one's own could not tell old records from new ones."""
    evictor = Watching()
    harness = harness_of(evictor, windows=TumblingEventTimeWindows.of(Time.milliseconds(100)))
    outputs(harness, [("a", 7), ("b", 5)])
    harness.advance_ms(50)
    harness.watermark(99)
    assert evictor.seen == [("a", 7), ("b", 5)]
    assert evictor.times == (99, 50)


def test_a_failing_evictor_is_named() -> None:
    """The user would search for the mistake in the window function."""
    harness = harness_of(Watching(), windows=TumblingEventTimeWindows.of(Time.milliseconds(100)))
    harness.push("bad", 1)
    with pytest.raises(UserFunctionError, match=r"subtask 1 of 1, in Watching\.evict_after\n(.|\n)*can't evict"):
        harness.watermark(99)


def test_a_value_without_a_timestamp_says_so() -> None:
    """An evictor would compare with a timestamp from the beginning of time."""
    value = TimestampedValue("a")
    assert not value.has_timestamp() and TimestampedValue("a", 0).has_timestamp()
    with pytest.raises(ValueError, match="the record 'a' has no timestamp"):
        value.get_timestamp()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: CountEvictor.of(0), ValueError, "must be positive, got 0"),
        (lambda: CountEvictor.of("3"), TypeError, "must be a number of records"),
        (lambda: TimeEvictor.of(-1), ValueError, "must be positive, got -1 ms"),
        (lambda: DeltaEvictor.of("5", Distance()), TypeError, "the threshold must be a number, got '5'"),
        (lambda: DeltaEvictor.of(5, 3), TypeError, "expected a DeltaFunction or a callable"),
        (lambda: DeltaTrigger.of(5, Distance), TypeError, "expected a DeltaFunction, got the class Distance"),
        (lambda: harness_of(CountEvictor), TypeError, "expected an instance, got the class CountEvictor"),
        (lambda: harness_of(KeySelector.get_key), TypeError, r"expected an Evictor, e.g. CountEvictor.of\(100\)"),
        (
            lambda: harness_of(None, DeltaTrigger.of(5, Distance()), EventTimeSessionWindows.with_gap(3)),
            TypeError,
            r"merges windows, which DeltaTrigger\(5\) does not support",
        ),
    ],
)
def test_mistakes_are_refused_where_they_are_made(make: Any, error: type[Exception], text: str) -> None:
    """They would be found by a worker, in the middle of the job."""
    with pytest.raises(error, match=text):
        make()


def test_evictors_show_their_settings() -> None:
    """A plan would not say what is evicted."""
    shown_ones = [CountEvictor.of(3), TimeEvictor.of(5, True), DeltaEvictor.of(1.5, Distance()), All()]
    assert [*map(repr, shown_ones)] == ["CountEvictor(3)", "TimeEvictor(5 ms, after)", "DeltaEvictor(1.5)", "All()"]


class FirstIsKept(AggregateFunction):
    """Its accumulator is the first record itself."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value if accumulator is None else counted_in(accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator["n"]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return counted_in(acc_a, acc_b)


def counted_in(record: Any, other: Any) -> Any:
    """`record`, changed in place."""
    record["n"] += other["n"]
    return record


def changing(key: Any, window: Any, records: Any) -> Any:
    for record in records:
        record["n"] += 10
    yield sum(record["n"] for record in records)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (lambda windowed: windowed.aggregate(FirstIsKept()), [2, 2, 2]),
        (lambda windowed: windowed.reduce(counted_in), [{"n": 2}] * 3),
        (lambda windowed: windowed.apply(changing), [22] * 3),
    ],
)
def test_functions_may_change_what_they_are_given(finish: Any, expected: list[Any]) -> None:
    """The window would keep, and show next time, what a function has made of its records."""
    harness = harness_of(CountEvictor.of(2), CountTrigger.of(1), finish=finish)
    assert outputs(harness, [{"n": 1} for _ in range(4)])[1:] == expected


def test_a_record_in_several_windows_is_in_each_as_its_own() -> None:
    """An accumulator that is the record itself would count what belongs to the other window."""
    windows = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    harness = harness_of(None, CountTrigger.of(3), windows, lambda windowed: windowed.aggregate(FirstIsKept()))
    assert outputs(harness, [({"n": 1}, at) for at in (6, 7, 8)]) == [3, 3]
