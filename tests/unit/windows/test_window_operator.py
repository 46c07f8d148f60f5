"""Windows of time, on both operators: in order, late, too late; results, state and timestamps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.datastream.functions import AggregateFunction, ProcessWindowFunction
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.contents import Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation

TUMBLING = TumblingEventTimeWindows.of(10)


class Average(AggregateFunction[tuple[str, float], tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: tuple[str, float], accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


def test_a_window_fires_when_the_watermark_passes_its_end(drive: Any) -> None:
    """Results would come before all records of the window, or never.

    0────────10────────20     watermark 8: nothing; 9: the first; 19: the second
    1  2     3
    """
    job = drive.sum(TUMBLING).records((("a", 1), 2), (("b", 5), 4), (("a", 2), 9), (("a", 3), 10))

    assert job.until(8).take() == []
    assert job.until(9).take() == [(("a", 3), 9), (("b", 5), 9)]
    assert job.until(19).take() == [(("a", 3), 19)]
    assert job.watermarks == [8, 9, 19]
    assert job.is_empty


def test_a_record_out_of_order_is_in_time_until_the_watermark_passes(drive: Any) -> None:
    """Disorder within bounds would change results."""
    job = drive.sum(TUMBLING).records((("a", 1), 12), (("a", 2), 3)).until(7).records((("a", 4), 1))

    assert job.until(9).take() == [(("a", 6), 9)]
    assert job.until(MAX_TIMESTAMP).take() == [(("a", 1), 19)]
    assert job.late == 0


def test_a_record_after_the_end_is_dropped_and_counted(drive: Any) -> None:
    """Records would vanish without a trace."""
    job = drive.sum(TUMBLING).until(9).records((("a", 1), 9), (("a", 2), 10))

    assert job.late == 1
    assert job.until(MAX_TIMESTAMP).take() == [(("a", 2), 19)]
    assert job.is_empty


def test_late_records_go_to_the_side_output(drive: Any) -> None:
    """What came too late could not be repaired afterwards; each record is in a window or on the side, never both."""
    job = drive.sum(TUMBLING, late_tag=OutputTag("late")).until(9).records((("a", 1), 9), (("a", 2), 10))

    assert job.side == [(("a", 1), 9)]
    assert job.late == 0


def test_within_the_allowed_lateness_a_window_fires_again(drive: Any) -> None:
    """A late record would be dropped though it was allowed to be late.

    window [0, 10), allowed lateness 5: fires at 9, is updated until 13, over at 14
    """
    job = drive.sum(TUMBLING, lateness=5).records((("a", 1), 1)).until(9)

    assert job.take() == [(("a", 1), 9)]
    assert job.records((("a", 10), 2)).take() == [(("a", 11), 9)]
    assert job.records((("b", 7), 3), (("b", 1), 3)).take() == [(("b", 7), 9), (("b", 8), 9)]
    assert job.until(13).records((("a", 100), 4)).take() == [(("a", 111), 9)]
    assert job.until(14).take() == []
    assert job.records((("a", 1000), 5)).take() == []
    assert job.late == 1
    assert job.is_empty


def test_sliding_windows_share_records(drive: Any) -> None:
    """A record would be missing from one of its windows, or twice in another.

         0    5    10   15   20
    -5────────)
         ──────────)
              ──────────)
    """
    job = drive.sum(SlidingEventTimeWindows.of(10, 5)).records((("a", 1), 1), (("a", 2), 6), (("b", 4), 6))

    assert job.until(4).take() == [(("a", 1), 4)]
    assert job.until(9).take() == [(("a", 3), 9), (("b", 4), 9)]
    assert sorted(job.until(14).take()) == [(("a", 2), 14), (("b", 4), 14)]
    assert job.is_empty


def test_a_sliding_record_is_late_only_when_all_its_windows_are(drive: Any) -> None:
    """A record would be dropped though a window that holds it is still open.

    watermark 9: [0, 10) is over, [5, 15) is not
    """
    job = drive.sum(SlidingEventTimeWindows.of(10, 5)).until(9).records((("a", 1), 7), (("a", 2), 4))

    assert job.late == 1
    assert job.until(MAX_TIMESTAMP).take() == [(("a", 1), 14)]
    assert job.is_empty


def test_sliding_with_offset_and_negative_timestamps(drive: Any) -> None:
    """Records before 1970 would be in the wrong windows."""
    job = drive.lists(SlidingEventTimeWindows.of(6, 3, 1)).records((("a", 1), -3), (("a", 2), -1))

    assert job.until(MAX_TIMESTAMP).taken() == [
        ("a", (-8, -2), [1]),
        ("a", (-5, 1), [1, 2]),
        ("a", (-2, 4), [2]),
    ]


def test_late_firings_of_sliding_windows_come_from_the_latest_to_the_earliest(drive: Any) -> None:
    """Each window that has fired would not be updated by a late record."""
    job = drive.sum(SlidingEventTimeWindows.of(10, 5), lateness=10).records((("a", 1), 7)).until(14)

    assert job.take() == [(("a", 1), 9), (("a", 1), 14)]
    assert job.records((("a", 2), 8)).take() == [(("a", 3), 14), (("a", 3), 9)]
    assert job.until(24).is_empty


def test_sliding_with_gaps_between_windows(drive: Any) -> None:
    """A record in no window would count as late."""
    job = drive.sum(SlidingEventTimeWindows.of(2, 5)).records((("a", 1), 3), (("a", 2), 5))

    assert job.until(6).take() == [(("a", 2), 6)]
    assert job.late == 0
    assert job.records((("a", 1), 3)).late == 1


def test_a_reduce_function_sees_records_in_the_order_of_their_arrival(drive: Any) -> None:
    """Texts that are joined, or differences, would be others than in Flink when records come out of order."""
    joined = Reduced(UserFunction(lambda a, b: (a[0], f"({a[1]} {b[1]})"), "reduce"))
    job = drive(SlidingEventTimeWindows.of(10, 5), joined, Evaluation())
    job.records((("a", "x"), 6), (("a", "y"), 1), (("a", "z"), 7))
    assert job.until(9).take() == [(("a", "y"), 4), (("a", "((x y) z)"), 9)]
    job.records((("a", "late"), 5))
    assert job.until(14).take() == [(("a", "((x z) late)"), 14)]


def test_a_reduce_function_that_changes_its_argument_does_no_harm(drive: Any) -> None:
    """A record would be in a window several times, since all windows have it."""

    def collect(one: tuple[str, list[int]], other: tuple[str, list[int]]) -> tuple[str, list[int]]:
        one[1].extend(other[1])
        return one

    job = drive(SlidingEventTimeWindows.of(10, 5), Reduced(UserFunction(collect, "reduce")), Evaluation())
    job.records((("a", [1]), 6), (("a", [2]), 7), (("a", [3]), 1), (("a", [4]), 11))
    assert job.until(MAX_TIMESTAMP).take() == [
        (("a", [3]), 4), (("a", [1, 2, 3]), 9), (("a", [1, 2, 4]), 14), (("a", [4]), 19)
    ]  # fmt: skip


def test_aggregates_with_and_without_merge(drive: Any) -> None:
    """A function whose merge was left unwritten would fail, or give nonsense, in sliding windows."""

    class NoMerge(Average):
        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            raise NotImplementedError

    class NothingFromMerge(Average):
        def merge(self, acc_a: Any, acc_b: Any) -> Any:
            pass

    for function in (Average(), NoMerge(), NothingFromMerge()):
        job = drive.aggregate(SlidingEventTimeWindows.of(10, 5), function)
        job.records((("a", 1.0), 1), (("a", 2.0), 6))
        assert job.until(MAX_TIMESTAMP).take() == [(1.0, 4), (1.5, 9), (2.0, 14)]


def test_a_merge_that_changes_its_arguments_does_no_harm(drive: Any) -> None:
    """A window would change what later windows see of the records that they share."""

    class Values(AggregateFunction[Any, list[int], list[int]]):
        def create_accumulator(self) -> list[int]:
            return []

        def add(self, value: Any, accumulator: list[int]) -> list[int]:
            accumulator.append(value[1])
            return accumulator

        def get_result(self, accumulator: list[int]) -> list[int]:
            return sorted(accumulator)

        def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
            smaller, larger = sorted((acc_a, acc_b), key=len)
            larger.extend(smaller)
            return larger

    job = drive.aggregate(SlidingEventTimeWindows.of(6, 2), Values())
    job.records((("a", 1), 0), (("a", 2), 3), (("a", 3), 4), (("a", 4), 4))

    assert job.until(MAX_TIMESTAMP).taken() == [[1], [1, 2], [1, 2, 3, 4], [2, 3, 4], [3, 4]]


class Remember(ProcessWindowFunction[Any, Any, str, Any]):
    """Counts its firings per window and per key, and notes which windows were cleared."""

    cleared: list[Any]

    def open(self, runtime_context: Any) -> None:
        self.firings = ValueStateDescriptor("firings")
        self.cleared = []

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        here, everywhere = (store.get_state(self.firings) for store in (context.window_state(), context.global_state()))
        for state in (here, everywhere):
            state.update((state.value() or 0) + 1)
        values = [value for _, value in elements]
        yield key, context.window().start, values, here.value(), everywhere.value(), context.current_watermark()

    def clear(self, context: Any) -> None:
        self.cleared.append(context.window().start)
        context.window_state().get_state(self.firings).clear()


def test_process_window_function_has_state_of_the_window_and_of_the_key(drive: Any) -> None:
    """State would be shared between windows, or lost between firings of one."""
    function = Remember()
    job = drive.process(TUMBLING, function, lateness=20).records((("a", 1), 1), (("a", 2), 11))

    assert job.until(9).taken() == [("a", 0, [1], 1, 1, 9)]
    assert job.records((("a", 3), 2)).taken() == [("a", 0, [1, 3], 2, 2, 9)]
    assert job.until(19).taken() == [("a", 10, [2], 1, 3, 19)]
    assert function.cleared == []
    job.until(29)
    assert function.cleared == [0]
    job.until(MAX_TIMESTAMP)
    assert function.cleared == [0, 10]


def test_state_of_a_window_is_cleared_with_it(drive: Any) -> None:
    """State of windows long over would fill the memory."""
    function = Remember()
    job = drive.process(TUMBLING, function).records((("a", 1), 1), (("b", 1), 1)).until(9)

    assert function.cleared == [0, 0]
    assert not job.operator.backend.tables["window/firings"]


def test_a_window_function_sees_what_reduce_left(drive: Any) -> None:
    """The window function would be called with every record, or with none."""
    from penstock.engine.runtime.windows.contents import Aggregated
    from penstock.engine.runtime.windows.evaluation import Apply

    apply = Apply(UserFunction(lambda key, window, inputs: [(key, window.end, list(inputs))], "apply"))
    reduce = Reduced(UserFunction(lambda a, b: (a[0], max(a[1], b[1])), "reduce"))
    records = [(("a", 1.0), 1), (("a", 3.0), 2)]

    assert drive(TUMBLING, reduce, apply).records(*records).until(9).taken() == [("a", 10, [("a", 3.0)])]
    aggregate = Aggregated(UserFunction(Average(), "add"))
    assert drive(TUMBLING, aggregate, apply).records(*records).until(9).taken() == [("a", 10, [2.0])]


def test_side_outputs_of_a_window_function(drive: Any) -> None:
    """Alerts of a window function would end up among its results."""
    tag = OutputTag("alerts")
    job = drive.apply(TUMBLING, lambda key, window, inputs: [key, (tag, window.start)]).records((("a", 1), 1)).until(9)

    assert job.take() == [("a", 9)]
    assert job.side == [(0, 9)]


def test_elements_may_be_used_up(drive: Any) -> None:
    """A function that empties the list it is given would empty the window."""
    job = drive.apply(TUMBLING, lambda key, window, inputs: [inputs.pop()[1] for _ in range(len(inputs))], lateness=9)

    assert job.records((("a", 1), 1), (("a", 2), 1)).until(9).taken() == [2, 1]
    assert job.records((("a", 3), 1)).taken() == [3, 2, 1]


def test_processing_time(drive: Any) -> None:
    """Windows of the clock would fire while records that belong to them still come.

    now 3, 9: in [0, 10), also at 9.999; it fires at 10
    """
    job = drive.sum(TumblingProcessingTimeWindows.of(10))

    assert job.clock(3).untimed(("a", 1)).clock(9).take() == []
    assert job.untimed(("a", 2)).clock(10).take() == [(("a", 3), 9)]
    assert job.untimed(("a", 4)).clock(100).take() == [(("a", 4), 19)]
    assert job.is_empty
    assert job.operator.wake_at_ms() is None


def test_sliding_processing_time(drive: Any) -> None:
    """Records of the clock's windows would be in one of them only."""
    job = drive.sum(SlidingProcessingTimeWindows.of(10, 5)).clock(7).records((("a", 1), -50)).until(100)

    assert job.take() == []
    assert job.clock(10).take() == [(("a", 1), 9)]
    assert job.clock(15).take() == [(("a", 1), 14)]
    assert job.late == 0
    assert job.is_empty


def test_batched_mode_has_no_late_records(drive: Any) -> None:
    """A bounded job would drop records for the order in which its files were read."""
    job = drive.sum(TUMBLING, batched=True).records((("a", 1), 95), (("a", 2), 3)).records((("a", 4), 1))

    assert job.take() == []
    assert job.end_key().take() == [(("a", 6), 9), (("a", 1), 99)]
    assert job.late == 0
    assert job.is_empty
    assert job.records((("b", 1), 5)).end_key().take() == [(("b", 1), 9)]


def test_batched_mode_fires_windows_of_the_clock(drive: Any) -> None:
    """Windows of the clock would be lost at the end of a key."""
    job = drive.sum(TumblingProcessingTimeWindows.of(10), batched=True).untimed(("a", 1)).end_key()

    assert job.take() == [(("a", 1), 9)]
    assert job.is_empty


@pytest.mark.parametrize("lateness", [0, 5])
def test_firing_many_windows_is_paused(drive: Any, lateness: int) -> None:
    """A watermark that fires a million windows would hold up barriers, flushes and cancellation."""
    records = [((f"key {i}", 1), i % 40) for i in range(400)]
    job = drive.sum(TUMBLING, lateness=lateness, patient=True, chunk_records=16).records(*records).until(100)

    assert len(job.results) == 400
    assert [at for _, at in job.results] == sorted(at for _, at in job.results)
    assert max(job.chunks) <= 16
    assert job.pauses >= 20
    assert job.watermarks == [100]
    assert job.is_empty


def test_late_firings_and_endless_results_are_paused(drive: Any) -> None:
    """A window function with many results, called for a late record, would fill the memory."""
    job = drive.apply(
        TUMBLING, lambda key, window, inputs: iter(range(100)), lateness=50, patient=True, chunk_records=8
    )
    job.until(9).records((("a", 1), 1), (("b", 1), 2))

    assert job.taken() == [*range(100), *range(100)]
    assert job.pauses >= 20


def test_records_without_timestamps_are_refused(drive: Any) -> None:
    """Without assigned timestamps, the user would wait for results for ever."""
    with pytest.raises(ProgramError, match=r"operator 'window': .*is assign_timestamps_and_watermarks missing"):
        drive.sum(TUMBLING).untimed(("a", 1))


def test_failures_of_users_functions_name_the_record(drive: Any) -> None:
    """The author of the function would have to guess on which record it failed."""
    job = drive.sum(TUMBLING)
    with pytest.raises(UserFunctionError, match=r"(?s)lambda.*value \('a', 'x'\)   key 'a'.*TypeError"):
        job.records((("a", 1), 1), (("b", 1), 1), (("a", "x"), 1))

    class Divides(Average):
        def get_result(self, accumulator: Any) -> float:
            return 1 / accumulator[0]

    job = drive.aggregate(TUMBLING, Divides()).records((("a", 1.0), 1), (("b", 0.0), 1))
    with pytest.raises(UserFunctionError, match=r"(?s)key 'b'   timestamp 9.*ZeroDivisionError"):
        job.until(9)

    job = drive.apply(TUMBLING, lambda key, window, inputs: 1 / 0).records((("a", 1), 1))
    with pytest.raises(UserFunctionError, match=r"(?s)key 'a'   timestamp 9.*ZeroDivisionError"):
        job.until(9)
