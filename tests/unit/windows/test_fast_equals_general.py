"""The fast window operator is the general one, only faster: same results, late records, timestamps and what is left.

And so it is with its state in a key-value store.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from penstock.api.output_tag import OutputTag
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.contents import Aggregated, AllRecords, Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation, Process


class Sums(AggregateFunction[Any, Any, Any]):
    """Sum and count; the accumulator is a dict that `merge` changes in place."""

    def create_accumulator(self) -> Any:
        return {"sum": 0, "count": 0}

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator["sum"] += value[1]
        accumulator["count"] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator["sum"], accumulator["count"]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        acc_b["sum"] += acc_a["sum"]
        acc_b["count"] += acc_a["count"]
        return acc_b


class Shared(Sums):
    shares_slices = True


class Unmergeable(Sums):
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


class EmitsAll:
    """A window function that emits all it can see."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        window = context.window()
        yield key, window.start, window.end, context.current_watermark(), list(elements)

    def clear(self, context: Any) -> None:
        pass


CONTENTS: dict[str, Any] = {
    # Neither commutative nor associative.
    "reduce": lambda: (Reduced(UserFunction(lambda a, b: (a[0], 3 * a[1] - b[1]), "reduce")), Evaluation()),
    "aggregate": lambda: (Aggregated(UserFunction(Sums(), "add")), Evaluation()),
    "aggregate that shares": lambda: (Aggregated(UserFunction(Shared(), "add")), Evaluation()),
    "aggregate without merge": lambda: (Aggregated(UserFunction(Unmergeable(), "add")), Evaluation()),
    "aggregate and process": lambda: (
        Aggregated(UserFunction(Shared(), "add")),
        Process(UserFunction(EmitsAll(), "process")),
    ),
    "process": lambda: (AllRecords(), Process(UserFunction(EmitsAll(), "process"))),
}


class KeepsTheFirst(Sums):
    """The accumulator is the first record itself, which is changed for each further one."""

    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value if accumulator is None else changed(accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        raise NotImplementedError


def changed(record: Any, by: Any) -> Any:
    """`record`, changed in place."""
    record[1]["n"] = 3 * record[1]["n"] - by[1]["n"]
    return record


class Changes(EmitsAll):
    """A window function that changes all it is given."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        for element in elements:
            yield key, context.window().end, repr(element)
            element[1]["n"] += 1_000


CHANGING: dict[str, Any] = {
    "reduce that changes the first": lambda: (Reduced(UserFunction(changed, "reduce")), Evaluation()),
    "reduce that keeps the second": lambda: (
        Reduced(UserFunction(lambda a, b: b if b[1]["n"] % 2 else changed(a, b), "reduce")),
        Evaluation(),
    ),
    "reduce and process": lambda: (
        Reduced(UserFunction(changed, "reduce")),
        Process(UserFunction(Changes(), "process")),
    ),
    "aggregate": lambda: (Aggregated(UserFunction(KeepsTheFirst(), "add")), Evaluation()),
    "aggregate and process": lambda: (
        Aggregated(UserFunction(KeepsTheFirst(), "add")),
        Process(UserFunction(Changes(), "process")),
    ),
    "process": lambda: (AllRecords(), Process(UserFunction(Changes(), "process"))),
}

records = st.lists(
    st.tuples(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), st.integers(-40, 60)), min_size=1, max_size=12
)
steps = st.lists(st.one_of(records, st.integers(1, 25)), max_size=12)

ORIGINS = [0, MIN_TIMESTAMP + 41, MAX_TIMESTAMP - 61]
"""What timestamps of `records` are counted from: the ends of time are as good as any."""


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int]:
    size = draw(st.integers(1, 24))
    slide = draw(st.integers(1, size))
    return size, slide, draw(st.integers(1 - slide, slide - 1))


def counted(results: list[Any]) -> Counter[str]:
    return Counter(map(repr, results))


SETTINGS: dict[str, Any] = {
    "windows": sizes(),
    "lateness": st.integers(0, 30),
    "steps": steps,
    "side": st.booleans(),
    "patient": st.booleans(),
    "origin": st.sampled_from(ORIGINS),
}


@pytest.mark.parametrize("contents", CONTENTS)
@settings(max_examples=40)
# A record behind the end of time, of windows that reach beyond it.
@example(
    windows=(15, 1, 0),
    lateness=0,
    steps=[1, 1, 4, 25, [(("a", 0), 0)], 25, 25, 25, [(("a", 0), 48)]],
    side=False,
    patient=False,
    origin=MAX_TIMESTAMP - 61,
)
@given(**SETTINGS)
def test_event_time(drivers: Any, contents: str, **drawn: Any) -> None:
    """The fast operator would give other results, or lose records whose window goes beyond the end of time."""
    run_beside(drivers, CONTENTS[contents], lambda value: value, **drawn)


@pytest.mark.parametrize("contents", CHANGING)
@settings(max_examples=40)
@given(**SETTINGS)
def test_functions_that_change_what_they_are_given(drivers: Any, contents: str, **drawn: Any) -> None:
    """A window would have what another one, or an earlier firing, has made of its records, if none was stored since."""
    run_beside(drivers, CHANGING[contents], lambda value: (value[0], {"n": value[1]}), **drawn)


def run_beside(
    drivers: Any,
    make: Any,
    record: Any,
    windows: Any,
    lateness: int,
    steps: list[Any],
    side: bool,
    patient: bool,
    origin: int,
) -> None:
    """Run the same steps with sliding windows."""
    run_steps(
        drivers,
        make,
        record,
        SlidingEventTimeWindows.of(*windows),
        lateness=lateness,
        steps=steps,
        side=side,
        patient=patient,
        origin=origin,
    )


def run_steps(
    drivers: Any,
    make: Any,
    record: Any,
    assigner: Any,
    *,
    lateness: int,
    steps: list[Any],
    side: bool,
    patient: bool,
    origin: int,
) -> None:
    """Run the same steps on all operators, each with records of its own, and compare."""
    jobs = []
    for drive in drivers:
        kept, evaluation = make()
        tag = OutputTag("late") if side else None
        jobs.append(
            drive(assigner, kept, evaluation, lateness=lateness, late_tag=tag, patient=patient, chunk_records=3)
        )
    fast, general, stored = jobs
    watermark = max(origin - 45, MIN_TIMESTAMP)
    for step in [*steps, MAX_TIMESTAMP - watermark]:
        for job in jobs:
            if isinstance(step, list):
                job.records(*((record(value), origin + at) for value, at in step))
            else:
                job.until(min(watermark + step, MAX_TIMESTAMP))
        if not isinstance(step, list):
            watermark += step
        taken = fast.take()
        assert counted(taken) == counted(general.take()) == counted(stored.take())
        if not isinstance(step, list):
            assert [at for _, at in taken] == sorted(at for _, at in taken)
        for other in (general, stored):
            assert (fast.late, counted(fast.side)) == (other.late, counted(other.side))
    # At the end of time nothing is left to remove a window for: the general operator sets no timer for it.
    assert all(job.is_empty for job in (jobs if origin <= 0 else [fast]))


@settings(max_examples=60)
@given(windows=sizes(), steps=st.lists(st.one_of(records, st.integers(1, 15)), max_size=10))
def test_processing_time(drivers: Any, windows: Any, steps: list[Any]) -> None:
    """The fast operator would give other results for processing-time windows."""
    jobs = []
    for drive in drivers:
        kept, evaluation = CONTENTS["reduce"]()
        jobs.append(drive(SlidingProcessingTimeWindows.of(*windows), kept, evaluation))
    fast, general, stored = jobs
    now = 0
    for step in [*steps, 1000]:
        now += 0 if isinstance(step, list) else step
        for job in jobs:
            if isinstance(step, list):
                job.records(*step)
            else:
                job.clock(now)
        assert counted(fast.take()) == counted(general.take()) == counted(stored.take())
        assert fast.operator.wake_at_ms() == general.operator.wake_at_ms()
    assert all(job.is_empty for job in jobs)


@settings(max_examples=60)
@given(windows=sizes(), chunks=st.lists(records, max_size=6))
def test_batched(drivers: Any, windows: Any, chunks: list[Any]) -> None:
    """The fast operator would give other results for a bounded program."""
    results = []
    for drive in drivers:
        kept, evaluation = CONTENTS["aggregate and process"]()
        job = drive(SlidingEventTimeWindows.of(*windows), kept, evaluation, batched=True)
        for chunk in chunks:
            job.records(*chunk)
        results.append(counted(job.end_key().take()))
        assert job.late == 0
        assert job.is_empty
    assert results[0] == results[1] == results[2]


def test_the_fast_operator_is_the_one_that_programs_get(drive_once: Any) -> None:
    """Windows would be slow where they need not be."""
    from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator

    for assigner in (TumblingEventTimeWindows.of(5), SlidingProcessingTimeWindows.of(10, 5)):
        assert isinstance(drive_once.sum(assigner).operator, SlicedWindowOperator)
    assert not isinstance(drive_once.sum(SlidingEventTimeWindows.of(2, 5)).operator, SlicedWindowOperator)


class OnlyEven(Sums):
    """Sums that are None: of an odd value as the accumulator, of a total over 9 as the result."""

    def add(self, value: Any, accumulator: Any) -> Any:
        return None if value[1] % 2 else super().add(value, accumulator)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator["sum"] if accumulator["sum"] < 10 else None


class SharedOnlyEven(OnlyEven):
    shares_slices = True


@pytest.mark.parametrize("function", [OnlyEven, SharedOnlyEven])
@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5), EventTimeSessionWindows.with_gap(10)],
)
def test_an_accumulator_or_a_result_that_is_none_is_not_emitted(
    drive: Any, assigner: Any, evaluated: bool, function: Any
) -> None:
    """`get_result(None)` would fail the job for one kind of windows, and another kind would lose the record silently.

    Flink: HeapAggregatingState creates an accumulator in place of null; WindowOperator emits no contents that are null.
    """
    evaluation = Process(UserFunction(EmitsAll(), "process")) if evaluated else None
    job = drive(assigner, Aggregated(UserFunction(function(), "add")), evaluation)
    job.records(
        (("none", 1), 5), (("again", 1), 5), (("again", 2), 6), (("large", 10), 5), (("some", 4), 5),
        (("none at last", 2), 5), (("none at last", 1), 6),
    )  # fmt: skip
    results = job.until(MAX_TIMESTAMP).taken()
    values = [(result[0], *result[-1]) for result in results] if evaluated else results
    windows = 2 if isinstance(assigner, SlidingEventTimeWindows) else 1
    assert sorted(values) == sorted(windows * ([("again", 2), ("some", 4)] if evaluated else [2, 4]))
    assert job.is_empty
