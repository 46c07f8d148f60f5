"""`window` and `window_all`: settings checked where they are written, and the operator built from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import cloudpickle
import pytest

from penstock.api.output_tag import OutputTag
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    NeverTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.window_operator import WindowOperator

TUMBLING = TumblingEventTimeWindows.of(Time.seconds(5))


class Count(AggregateFunction[Any, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Sizes(WindowFunction[Any, str, str, Any]):
    def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Iterable[str]:
        yield f"{key}: {len(list(inputs))}"


class Spans(ProcessWindowFunction[Any, Any, str, Any]):
    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield key, context.window().start, list(elements)


class AllSizes(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.end, len(list(inputs))


class AllSpans(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, list(elements)


@pytest.fixture
def stream() -> Any:
    """Pairs of a word and a number."""
    environment = StreamExecutionEnvironment.get_execution_environment()
    return environment.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.LONG()]))


@pytest.fixture
def keyed(stream: Any) -> Any:
    """The same by word."""
    return stream.key_by(lambda record: record[0], Types.STRING())


def operator_of(stream: Any) -> Any:
    """The operator as a worker gets it."""
    return cloudpickle.loads(cloudpickle.dumps(stream._transformation.operator))


def run(stream: Any, drive_once: Any) -> list[Any]:
    """What the operator of a stream makes of three records in one window."""
    driver = type(drive_once.sum(TUMBLING))(operator_of(stream))
    return driver.records((("a", 1), 1), (("b", 2), 2), (("a", 3), 3)).until(4_999).taken()  # type: ignore[no-any-return]


def test_every_way_to_a_result(keyed: Any, drive_once: Any) -> None:
    """A program of PyFlink's would not run, or give other results."""
    windowed = keyed.window(TUMBLING)
    reduce = lambda a, b: (a[0], a[1] + b[1])  # noqa: E731

    assert run(windowed.reduce(reduce), drive_once) == [("a", 4), ("b", 2)]
    assert run(windowed.reduce(reduce, Spans()), drive_once) == [("a", 0, [("a", 4)]), ("b", 0, [("b", 2)])]
    assert run(windowed.aggregate(Count()), drive_once) == [2, 1]
    assert run(windowed.aggregate(Count(), Sizes()), drive_once) == ["a: 1", "b: 1"]
    assert run(windowed.aggregate(Count(), lambda key, window, inputs: [(key, *inputs)]), drive_once) == [
        ("a", 2),
        ("b", 1),
    ]
    assert run(windowed.apply(Sizes()), drive_once) == ["a: 2", "b: 1"]
    assert run(windowed.process(Spans()), drive_once) == [("a", 0, [("a", 1), ("a", 3)]), ("b", 0, [("b", 2)])]
    assert run(windowed.process(lambda key, context, elements: [key]), drive_once) == ["a", "b"]


def test_every_way_over_all_records(stream: Any, drive_once: Any) -> None:
    """Windows over the whole stream would be per key, or in several subtasks."""
    windowed = stream.window_all(TUMBLING)

    assert run(windowed.aggregate(Count()), drive_once) == [3]
    assert run(windowed.aggregate(Count(), AllSpans()), drive_once) == [(0, [3])]
    assert run(windowed.reduce(max, AllSizes()), drive_once) == [(5_000, 1)]
    assert run(windowed.apply(AllSizes()), drive_once) == [(5_000, 3)]
    counted = windowed.process(AllSpans())
    assert run(counted, drive_once) == [(0, [("a", 1), ("b", 2), ("a", 3)])]
    assert counted._transformation.parallelism == 1
    with pytest.raises(ValueError, match="window_all processes all records"):
        counted.set_parallelism(2)


def test_types_of_results(keyed: Any) -> None:
    """Types that were declared or derived from hints would be lost, and records pickled."""
    windowed = keyed.window(TUMBLING)

    assert windowed.get_input_type() == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert windowed.reduce(max).get_type() == windowed.get_input_type()
    assert windowed.aggregate(Count()).get_type() == Types.LONG()
    assert windowed.aggregate(Count(), output_type=Types.INT()).get_type() == Types.INT()
    assert windowed.apply(Sizes()).get_type() == Types.STRING()
    assert windowed.process(Spans()).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert windowed.process(Spans(), Types.STRING()).get_type() == Types.STRING()


def test_settings_reach_the_operator(keyed: Any) -> None:
    """What a program configures for late records would have no effect."""
    tag = OutputTag("late")
    windowed = keyed.window(TUMBLING).allowed_lateness(Time.seconds(1)).side_output_late_data(tag)
    operator = operator_of(windowed.aggregate(Count(), accumulator_type=Types.LONG()))

    assert type(operator) is SlicedWindowOperator
    assert (operator.allowed_lateness_ms, operator.late_tag) == (1000, tag)
    assert operator.contents.type_info == Types.LONG()
    general = keyed.window(TUMBLING).trigger(CountTrigger.of(3)).reduce(max)
    assert type(operator_of(general)) is WindowOperator
    assert general._transformation.description == "Window(TumblingEventTimeWindows(5000 ms), CountTrigger(3), max)"
    assert general.get_name() == "TumblingEventTimeWindows"
    assert keyed.count_window(3).reduce(max).get_name() == "CountTumblingWindowAssigner"
    assert keyed.count_window(3, 2).reduce(max).get_name() == "CountSlidingWindowAssigner"


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda keyed: keyed.window(5), TypeError, "expected a WindowAssigner, e.g. Tumbling.*got 5"),
        (
            lambda keyed: keyed.window(GlobalWindows),
            TypeError,
            r"got the class GlobalWindows: create one with GlobalWindows\(",
        ),
        (lambda keyed: keyed.window(TUMBLING).trigger("now"), TypeError, "expected a Trigger, e.g. CountTrigger"),
        (lambda keyed: keyed.window(TUMBLING).allowed_lateness(-1), ValueError, "must be 0 ms or more, got -1 ms"),
        (lambda keyed: keyed.window(TUMBLING).side_output_late_data("late"), TypeError, "expected an OutputTag"),
        (lambda keyed: keyed.window(TUMBLING).reduce(5), TypeError, "expected a callable or a ReduceFunction"),
        (lambda keyed: keyed.window(TUMBLING).aggregate(max), TypeError, "AggregateFunction.*lacks create_accumulator"),
        (lambda keyed: keyed.window(TUMBLING).aggregate(Count), TypeError, "got the class Count"),
        (lambda keyed: keyed.window(TUMBLING).aggregate(Count(), 5), TypeError, "expected a callable or a WindowFunc"),
        (lambda keyed: keyed.window(TUMBLING).aggregate(Count(), None, int), TypeError, "got the class int"),
        (lambda keyed: keyed.window(TUMBLING).apply(Spans()), TypeError, "expected a callable or a WindowFunction"),
        (lambda keyed: keyed.window(TUMBLING).process(Spans), TypeError, r"create one with Spans\(\)"),
        (
            lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(5)).trigger(NeverTrigger()),
            TypeError,
            "merges windows, which NeverTrigger.*does not support",
        ),
        (lambda keyed: keyed.window_all(SlidingEventTimeWindows), TypeError, "got the class"),
        (lambda keyed: keyed.count_window(0), ValueError, "must be positive"),
    ],
)
def test_mistakes_are_told_where_they_are_written(keyed: Any, wrong: Any, error: type[Exception], message: str) -> None:
    """A mistake in one line would come to light in another, or in a worker."""
    with pytest.raises(error, match=message):
        wrong(keyed)


def test_sessions_need_merge(keyed: Any) -> None:
    """A function without merge would fail when two sessions join, days after the start of the job."""

    class NoMerge:
        create_accumulator, add, get_result = Count.create_accumulator, Count.add, Count.get_result

    keyed.window(TUMBLING).aggregate(NoMerge())
    with pytest.raises(TypeError, match="which lacks merge"):
        keyed.window(EventTimeSessionWindows.with_gap(5)).aggregate(NoMerge())
