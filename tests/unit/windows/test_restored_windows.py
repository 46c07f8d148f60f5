"""Windows restored from a snapshot, and windows whose contents are in a snapshot or in a store."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common.errors import CheckpointError
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.contents import Aggregated, Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.sliced_window_operator import OWN_TABLE, SHARED_TABLE, SLICES_TABLE


class SharedByWindows(Reduced):
    """A slice is in the contents of all its windows."""

    shares = True


class Sum(AggregateFunction):
    """Without a `merge` that could be called."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value[1]

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> Any:
        raise NotImplementedError


class MergeableSum(Sum):
    def merge(self, acc_a: int, acc_b: int) -> Any:
        return acc_a + acc_b


class SharedSum(MergeableSum):
    shares_slices = True


def add(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def restored(job: Any, into: Any, former: bool = False) -> Any:
    """A job that goes on from a full snapshot of another. `former`: as of version 3, one table for all slices."""
    for name, table in job.operator.backend.tables.items():
        if former and name in (SHARED_TABLE, OWN_TABLE):
            name = SLICES_TABLE
        for entry_keys, values in table.freeze(True).pieces():
            into.operator.restored_table(name, "").restore(entry_keys, values)
    into.operator.open()
    return into


def test_a_late_record_after_a_restart_makes_its_window_fire_again(drive: Any) -> None:
    """The update of a result would be lost, since event time has restarted and the key is known."""
    for assigner in (TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5)):
        job = drive.sum(assigner, lateness=100)
        job.records((("k", 1), 5)).until(20)
        fired = job.taken()
        job = restored(job, drive.sum(assigner, lateness=100))
        assert job.until(20).take() == [], "nothing has come"
        job = restored(job, drive.sum(assigner, lateness=100))
        job.records((("k", 10), 6)).until(30)
        assert job.taken() == [("k", 11)] * len(fired)
        assert job.until(1_000).take() == []
        assert job.is_empty


def test_slices_that_windows_have_shared_are_shared_on(drive: Any) -> None:
    """After an upgrade of penstock a window would have the records of its first slice alone."""
    kinds = SharedByWindows, Reduced
    for first in kinds:
        of_kind = lambda kind: drive(  # noqa: E731
            SlidingEventTimeWindows.of(10, 5), kind(UserFunction(add, "reduce")), Evaluation()
        )
        job = of_kind(first)
        job.records((("k", 1), 1), (("k", 2), 6), (("k", 4), 11)).until(8)
        assert job.taken() == [("k", 1)]
        job = restored(job, of_kind(Reduced), former=first is SharedByWindows)
        job.records((("k", 8), 12))
        job = restored(job, of_kind(Reduced))
        job.records((("k", 16), 16))
        assert job.until(9).taken() == [("k", 3)]
        assert job.until(100).taken() == [("k", 14), ("k", 28), ("k", 16)]
        assert job.is_empty
        job = restored(job, of_kind(Reduced))
        job.records((("k", 32), 106)).until(200)
        assert job.taken() == [("k", 32), ("k", 32)]
        assert job.is_empty


def sliding(drive: Any, function: type[Sum]) -> Any:
    return drive(SlidingEventTimeWindows.of(10, 5), Aggregated(UserFunction(function(), "add")), Evaluation())


@pytest.mark.parametrize("second", [Sum, MergeableSum, SharedSum])
@pytest.mark.parametrize("first", [Sum, MergeableSum, SharedSum])
def test_a_new_version_of_an_aggregate_finds_what_the_one_before_has_kept(
    drive: Any, first: type[Sum], second: type[Sum]
) -> None:
    """Sums would be too high or too low, silently, after `merge` was written, or was said to be one for slices."""
    job = sliding(drive, first).records((("k", 1), 1), (("k", 2), 6), (("k", 4), 8))
    if SHARED_TABLE in job.operator.backend.tables and first is SharedSum and second is Sum:
        with pytest.raises(CheckpointError, match=r"`merge` of Sum\.add can no longer merge them"):
            restored(job, sliding(drive, second))
        return
    job = restored(job, sliding(drive, second)).records((("k", 8), 11)).until(100)
    assert job.taken() == [1, 7, 14, 8]
    assert job.is_empty


@pytest.mark.parametrize(("written_by", "read_by"), [(Sum, Sum), (SharedSum, MergeableSum), (SharedSum, SharedSum)])
def test_aggregates_of_version_3_are_shared_where_they_were(
    drive: Any, written_by: type[Sum], read_by: type[Sum]
) -> None:
    """A job would lose sums by an upgrade of penstock: those that could be merged were shared, and others were not."""
    job = sliding(drive, written_by).records((("k", 1), 1), (("k", 2), 6), (("k", 4), 8))
    job = restored(job, sliding(drive, read_by), former=True).records((("k", 8), 11)).until(100)
    assert job.taken() == [1, 7, 14, 8]
    assert job.is_empty


class Placeholder(Sum):
    """Of a program that has no windows that merge."""

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a


class Arrivals(AggregateFunction):
    """Values in the order of their arrival."""

    def create_accumulator(self) -> tuple[int, ...]:
        return ()

    def add(self, value: Any, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        return *accumulator, value[1]

    def get_result(self, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        return accumulator

    def merge(self, acc_a: tuple[int, ...], acc_b: tuple[int, ...]) -> tuple[int, ...]:
        return acc_a + acc_b


@pytest.mark.parametrize(("function", "right"), [(Placeholder, [2, 7, 5]), (Arrivals, [(2,), (1, 2, 4), (1, 4)])])
def test_merge_is_called_only_where_it_was_said_to_be_one_for_slices(drive: Any, function: Any, right: Any) -> None:
    """A function that Flink runs would give other results: Flink calls `merge` only for windows that merge."""
    job = drive(SlidingEventTimeWindows.of(10, 5), Aggregated(UserFunction(function(), "add")), Evaluation())
    job.records((("k", 1), 7)).records((("k", 2), 2)).records((("k", 4), 8)).until(100)
    assert job.taken() == right


def test_a_window_that_had_fired_is_over_after_a_restart(drive: Any) -> None:
    """It would wait for ever, with no key in it."""
    job = drive.sum(TumblingEventTimeWindows.of(10))
    job.records((("k", 1), 5), (("k", 1), 15)).until(12)
    assert job.taken() == [("k", 1)]
    job = restored(job, drive.sum(TumblingEventTimeWindows.of(10)))
    assert job.until(30).taken() == [("k", 1)]
    assert job.is_empty


def test_a_clock_that_was_set_back_opens_the_window_anew(drive: Any) -> None:
    """What had been dropped would be read from the snapshot or the store, and the new record would be lost."""
    job = drive.sum(TumblingProcessingTimeWindows.of(10))
    job.now_ms = 5
    job.untimed(("k", 1))
    for table in job.operator.backend.tables.values():
        table.freeze(False).release()
    while job.operator.backend.compact(10):
        pass
    assert job.clock(11).taken() == [("k", 1)]
    job.now_ms = 8
    job.untimed(("k", 100))
    assert job.clock(30).taken() == [("k", 100)]
    assert job.is_empty


def test_a_function_that_keeps_nothing_of_a_window(drive: Any) -> None:
    """After a restart it would fail with an error that names no function."""

    def forgets(a: Any, b: Any) -> None:
        """A user who has forgotten `return`."""

    def make() -> Any:
        return drive(TumblingEventTimeWindows.of(10), Reduced(UserFunction(forgets, "reduce")))

    job = restored(make().records((("k", 1), 5), (("k", 2), 6)), make())
    assert job.until(20).taken() in ([], [None])
