"""Windows of thousands of slices: put together of few blocks, whatever comes late, and after a restart."""

from __future__ import annotations

import pickle
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.windows.conftest import Drive

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import SlidingEventTimeWindows
from penstock.engine.runtime.windows.slicing import parts_of


class Joined(AggregateFunction[Any, list[Any], list[Any]]):
    """The values of a window in the order of their slices: accumulators that can be changed, and merges that count."""

    def __init__(self, shares: bool = True) -> None:
        self.shares_slices = shares
        self.merges = 0

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value[1])
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        self.merges += 1
        a.extend(b)
        return a


RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 120)), max_size=25)


@pytest.mark.parametrize("slide", [1, 2])
@settings(max_examples=60)
@given(steps=st.lists(st.tuples(RECORDS, st.integers(0, 60)), max_size=5), lateness=st.sampled_from([0, 7, 60]))
def test_results_are_those_of_windows_that_share_nothing(
    drive_once: Any, slide: int, steps: list[Any], lateness: int
) -> None:
    """A window would lack a slice, or have it twice, after records that came late or keys that paused."""
    jobs = [
        drive_once.aggregate(SlidingEventTimeWindows.of(40, slide), Joined(shares), lateness=lateness)
        for shares in (True, False)
    ]
    taken: list[Any] = []
    for job in jobs:
        now, results = 0, []
        for records, step in steps:
            job.records(*(((key, number), at) for number, (key, at) in enumerate(records)))
            now += step
            job.until(now)
            results.append(sorted((at, sorted(values)) for values, at in job.take()))
        results.append(sorted((at, sorted(values)) for values, at in job.until(MAX_TIMESTAMP).take()))
        taken.append((results, job.late))
        assert job.is_empty
    assert taken[0] == taken[1]


def test_a_result_of_thousands_of_slices_takes_few_merges(drive_once: Any) -> None:
    """Each firing of a window of an hour, by the second, would merge 3,600 slices."""
    function = Joined()
    job = drive_once.aggregate(SlidingEventTimeWindows.of(2_000, 1), function)
    job.records(*((("a", at), at) for at in range(2_200)))
    job.until(1_999)
    function.merges = 0
    results = job.until(2_199).take()[-200:]
    assert [values for values, _ in results] == [list(range(at - 1_999, at + 1)) for _, at in results]
    assert function.merges < 200 * 25
    # A record that comes late changes the blocks of its slice alone.
    function.merges = 0
    job.records((("a", "late"), 1_500)).until(2_200)
    assert "late" in job.taken()[-1]
    assert function.merges < 60


def test_a_record_of_a_new_key_waits_for_one_window(drive_once: Any) -> None:
    """Each key of each second would be noted for 3,600 windows: hundreds of megabytes for a thousand keys."""
    job = drive_once.aggregate(SlidingEventTimeWindows.of(2_000, 1), Joined())
    job.records((("a", 1), 5_000))
    assert len(job.operator.backend.tables["(windows) waiting"].slices) == 1
    assert len(job.until(MAX_TIMESTAMP).take()) == 2_000


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_parts_of_a_window_are_its_slices(first: int, length: int) -> None:
    """A block would be missing from a window, or reach beyond it."""
    parts = parts_of(first, first + length)
    slices = [at for level, number in parts for at in range(number << level, (number + 1) << level)]
    assert slices == list(range(first, first + length))
    assert len(parts) <= 2 * max(1, length).bit_length()


class Failing(Joined):
    """A merge that fails."""

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        if a and b:
            raise KeyError("no such product")
        return a or b


def test_an_error_of_merge_names_the_function_and_the_key(drive_once: Any) -> None:
    """The user would see a bare KeyError out of penstock."""
    job = drive_once.aggregate(SlidingEventTimeWindows.of(2_000, 1), Failing())
    job.records((("a", 1), 4), (("a", 2), 5))
    with pytest.raises(UserFunctionError, match="merge") as raised:
        job.until(MAX_TIMESTAMP)
    assert "'a'" in str(raised.value) and "no such product" in str(raised.value)


def restarted(job: Any, into: Any) -> Any:
    """`into`, a new job of the same operator, with the state of `job`: event time begins anew."""
    frozen = {name: table.freeze(True) for name, table in job.operator.backend.tables.items()}
    for name, pieces in pickle.loads(pickle.dumps({name: list(one.pieces()) for name, one in frozen.items()})).items():
        for entry_keys, values in pieces:
            into.operator.restored_table(name, "").restore(entry_keys, values)
    into.operator.open()
    return into


@pytest.mark.parametrize("lateness", [0, 30])
@pytest.mark.parametrize("stored", [False, True], ids=["heap", "store"])
def test_what_comes_late_after_a_restart_changes_no_other_result(stored: bool, lateness: int) -> None:
    """Keys would be missing in all windows behind one that fires again, or windows fire twice without a new record."""
    drive = Drive(general=False, stored=stored)
    for seed in range(10):
        taken = []
        for shares in (True, False):
            random, numbers = Random(seed), count()

            def records(first: int, end: int, some: int, random: Any = random, numbers: Any = numbers) -> list[Any]:
                times = [random.randrange(max(first, 0), end) for _ in range(some)]
                return [((random.choice("abcd"), (next(numbers), at)), at) for at in times]

            jobs = [
                drive.aggregate(SlidingEventTimeWindows.of(40, 1), Joined(shares), lateness=lateness) for _ in range(2)
            ]
            now = random.randrange(45, 70)
            jobs[0].records(*records(0, 60, 30)).until(40).records(*records(41, 80, 10)).until(now)
            job, first_new = restarted(*jobs), next(numbers)
            job.records(*records(now - 70, now + 20, 4)).until(now - 5).records(*records(now - 10, now + 30, 5))
            results = [(at, sorted(values)) for values, at in job.until(MAX_TIMESTAMP).take()]
            assert not [
                values for at, values in results if at <= now and all(number < first_new for number, _ in values)
            ], f"seed {seed}: fired before"
            taken.append(sorted(result for result in results if result[0] > now))
        assert taken[0] == taken[1], f"seed {seed}"
