"""Windows restored from a snapshot, and windows whose contents are in a snapshot or in a store."""

from __future__ import annotations

from typing import Any

from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows, TumblingProcessingTimeWindows
from penstock.runtime.operators.function import UserFunction
from penstock.runtime.windows.contents import Reduced
from penstock.runtime.windows.evaluation import Evaluation


class SharedByWindows(Reduced):
    """As it was up to manifest version 3: a slice was in the contents of all its windows."""

    have_been_shared = False

    def can_share(self) -> bool:
        return True


def add(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def restored(job: Any, into: Any) -> Any:
    """A job that goes on from a full snapshot of another."""
    for name, table in job.operator.backend.tables.items():
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
        job = restored(job, of_kind(Reduced))
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
