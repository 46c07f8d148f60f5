"""Numbers that users' code gives: whole ones become ints, lengths of time become milliseconds, all else is refused."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from penstock.common import Duration, Time, WatermarkStrategy
from penstock.common.errors import UserFunctionError
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.functions import RuntimeContext
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    DeltaTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    Window,
    WindowAssigner,
)
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.time.event_time import EventTime
from penstock.testing import KeyedOneInputHarness, OperatorHarness


class Index:
    """A whole number of a library's."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


WHOLE = {"int": 10, "numpy": np.int64(10), "numpy, small": np.uint8(10), "__index__": Index(10)}
LENGTHS: dict[str, Any] = WHOLE | {
    "timedelta": dt.timedelta(milliseconds=10),
    "Duration": Duration.of_millis(10),
    "Time": Time.milliseconds(10),
}
NO_LENGTHS: list[Any] = [10.5, 10.0, np.float64(10), None, "10 ms", True, dt.datetime(2020, 1, 1)]
NO_NUMBERS: list[Any] = [*NO_LENGTHS, dt.timedelta(milliseconds=10)]
lengths = pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS.keys())
whole = pytest.mark.parametrize("number", WHOLE.values(), ids=WHOLE.keys())


def numbers() -> DataStream[Any]:
    env = StreamExecutionEnvironment()
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")


def first(value: Any) -> int:
    return 0


def count(key: int, window: Any, values: Any) -> list[tuple[Any, int]]:
    return [(window, len(list(values)))]


def sessions(gap: Any) -> OperatorHarness:
    windows = EventTimeSessionWindows.with_dynamic_gap(lambda value: gap)
    return OperatorHarness(lambda stream: stream.key_by(first).window(windows).apply(count))


@lengths
def test_the_gap_of_a_session(length: Any) -> None:
    """Sessions of numpy's numbers end a job with RocksDB, or have other names of state than those of ints."""
    with sessions(length) as harness:
        for time in (0, 5, 50):
            harness.push("x", timestamp=time)
        harness.finish()
        assert harness.outputs_with_timestamps() == [((TimeWindow(0, 15), 2), 14), ((TimeWindow(50, 60), 1), 59)]
        windows = [window for window, _ in harness.outputs()]
    assert {type(bound) for window in windows for bound in window} == {int}


@pytest.mark.parametrize("gap", NO_LENGTHS)
def test_what_is_no_gap(gap: Any) -> None:
    """The error would blame a trigger of penstock's."""
    with sessions(gap) as harness, pytest.raises(UserFunctionError) as raised:
        harness.push("x", timestamp=0)
    assert "the gap extractor sessions.<locals>.<lambda> returned" in str(raised.value)


class OfTen(WindowAssigner[Any, TimeWindow]):
    """Windows of a length that a function computes."""

    def __init__(self, make: Callable[[int], Window]) -> None:
        self.make = make

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return [self.make(timestamp)]

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> Any:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return True


class Day(Window):
    """A window of a user's own."""

    def __init__(self, end: Any) -> None:
        self.end = end

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Day)

    def max_timestamp(self) -> Any:
        return self.end


def assigned(make: Callable[[int], Any]) -> OperatorHarness:
    return OperatorHarness(lambda stream: stream.key_by(first).window(OfTen(make)).apply(count))


@whole
def test_windows_of_an_own_assigner(number: Any) -> None:
    """A window is a part of the name of its state: of numpy's numbers it would be another one after a restore."""
    with assigned(lambda time: TimeWindow(np.int64(0), number)) as harness:
        harness.push("x", timestamp=3)
        harness.finish()
        ((window, records),) = harness.outputs()
        assert (window, records) == (TimeWindow(0, 10), 1)
        assert [type(bound) for bound in window] == [int, int]
        assert harness.outputs_with_timestamps()[0][1] == 9
    with assigned(lambda time: Day(np.int64(10))) as harness:
        harness.push("x", timestamp=3)
        harness.finish()
        ((_, time),) = harness.outputs_with_timestamps()
        assert (time, type(time)) == (10, int)
    assert type(CountWindow(number).id) is int
    assert pickle.loads(pickle.dumps(TimeWindow(0, number))) == TimeWindow(0, 10)


@pytest.mark.parametrize("number", NO_NUMBERS)
def test_what_is_no_window(number: Any) -> None:
    """It would never fire, or fail in a trigger of penstock's."""
    for make in (
        lambda time: TimeWindow(0, number),
        lambda time: TimeWindow(number, 100),
        lambda time: CountWindow(number),
    ):
        with assigned(make) as harness, pytest.raises(UserFunctionError, match=r"of a window must be an int, got"):
            harness.push("x", timestamp=0)


def test_an_own_window_without_an_end() -> None:
    """As above."""
    with (
        assigned(lambda time: Day(10.5)) as harness,
        pytest.raises(UserFunctionError, match=r"what Day\.max_timestamp"),
    ):
        harness.push("x", timestamp=0)


class Emits(WatermarkGenerator):
    def __init__(self, watermark: Any) -> None:
        self.watermark = watermark

    def on_event(self, value: Any, timestamp: int, output: Any) -> None:
        output.emit_watermark(self.watermark)

    def on_periodic_emit(self, output: Any) -> None:
        """Nothing."""


class Mark:
    """A watermark as PyFlink has it."""

    def __init__(self, timestamp: Any) -> None:
        self.timestamp = timestamp


def watermark_of(given: Any) -> Any:
    errors: list[BaseException] = []

    def user_error(error: BaseException, *rest: Any, **more: Any) -> Exception:
        errors.append(error)
        return RuntimeError(str(error))

    times = EventTime(WatermarkStrategy.for_generator(lambda: Emits(given)), 200, lambda: 0, user_error)
    list(times.pieces(Rows(["a"], [1])))
    return times.take_watermark()


@whole
def test_a_watermark(number: Any) -> None:
    """A generator that computes with numpy would fail: its numbers have no `timestamp`."""
    for given in (number, Mark(number)):
        taken = watermark_of(given)
        assert (taken, type(taken)) == (10, int)


@pytest.mark.parametrize("given", [value for value in NO_NUMBERS if value is not True])
def test_what_is_no_watermark(given: Any) -> None:
    """The error would speak of an attribute that is missing."""
    with pytest.raises(RuntimeError, match="a watermark must be an int of milliseconds, got"):
        watermark_of(given)


class Waits(AsyncRetryStrategy[Any]):
    def __init__(self, pause: Any) -> None:
        self.pause = pause

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts < 2

    def get_backoff_time_millis(self, current_attempts: int) -> Any:
        return self.pause

    def get_retry_predicate(self) -> Any:
        return AsyncRetryStrategy.fixed_delay(1, 1, lambda results: True, None).get_retry_predicate()


class Echo(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def retried(strategy: Any) -> OperatorHarness:
    return OperatorHarness(
        lambda stream: AsyncDataStream.unordered_wait_with_retry(stream, Echo(), Time.seconds(9), strategy)
    )


@lengths
def test_the_pause_before_a_retry(length: Any) -> None:
    """A strategy that computes with timedelta would fail with the first call that fails."""
    for strategy in (Waits(length), AsyncRetryStrategy.fixed_delay(1, length, lambda results: True)):
        with retried(strategy) as harness:
            harness.push(1)
            assert harness.outputs() == []
            harness.advance_ms(10)
            assert harness.outputs() == [1]


def test_what_is_no_pause() -> None:
    """As above; and the error would not name the strategy."""
    with retried(Waits("1 s")) as harness, pytest.raises(UserFunctionError, match=r"Waits.get_backoff_time_millis"):
        harness.push(1)


SIZES: dict[str, Callable[[Any], Any]] = {
    "count window": lambda n: CountTumblingWindowAssigner.of(n).size,
    "count trigger": lambda n: CountTrigger.of(n)._window_size,
    "count evictor": lambda n: CountEvictor.of(n)._max_count,
    "parallelism": lambda n: numbers().map(first).set_parallelism(n)._transformation.parallelism,
    "max parallelism": lambda n: numbers().map(first).set_max_parallelism(n)._transformation.max_parallelism,
    "parallelism of all": lambda n: StreamExecutionEnvironment().set_parallelism(n).get_parallelism(),
    "sequence": lambda n: NumberSequenceSource(np.int64(1), n)._end,
    "generator": lambda n: DataGeneratorSource(first, n)._count,
    "field": lambda n: numbers().key_by(first).max(n)._transformation.operator.function.instance.field,
    "projection": lambda n: numbers().project(n)._transformation.operator.function.instance.indexes[0],
    "capacity": lambda n: AsyncDataStream.unordered_wait(numbers(), Echo(), 9, n)._transformation.operator.capacity,
    "window": lambda n: TumblingEventTimeWindows.of(n).size_ms,
    "Time": lambda n: Time.milliseconds(n).to_milliseconds(),
    "Duration": lambda n: Duration.of_millis(n).to_millis(),
}


@whole
@pytest.mark.parametrize("size", SIZES)
def test_a_size(size: str, number: Any) -> None:
    """A number that pandas has computed would be refused, or travel with the plan and need numpy to be read."""
    found = SIZES[size](number)
    assert (found, type(found)) == (10, int)


@pytest.mark.parametrize("number", [10.5, "10", True])
@pytest.mark.parametrize("size", SIZES)
def test_what_is_no_size(size: str, number: Any) -> None:
    """A fraction or a text would be found by a worker."""
    if size in ("field", "projection") and number == "10":
        pytest.skip("a text is the name of a field")
    with pytest.raises((TypeError, ValueError), match=r"10\.5|'10'|True"):
        SIZES[size](number)


class Remembers(KeyedProcessFunction[Any, Any, Any]):
    def __init__(self, ttl: Any) -> None:
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("seen")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(self.ttl).build())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.seen.value()
        self.seen.update(value)


@lengths
def test_a_time_to_live(length: Any) -> None:
    """State would expire at another time, or never."""
    with KeyedOneInputHarness(Remembers(length), first) as harness:
        harness.push(1)
        harness.advance_ms(9)
        harness.push(2)
        harness.advance_ms(10)
        harness.push(3)
        assert harness.outputs() == [None, 1, None]


@pytest.mark.parametrize("threshold", [1, 1.0, np.int64(1), np.float32(1)])
def test_a_threshold(threshold: Any) -> None:
    """A distance may be a fraction."""
    trigger = DeltaTrigger.of(threshold, lambda old, new: new - old)
    with OperatorHarness(
        lambda stream: stream.key_by(first).window(TumblingEventTimeWindows.of(1000)).trigger(trigger).apply(count)
    ) as harness:
        harness.push(1, timestamp=0)
        harness.push(5, timestamp=1)
        assert [records for _, records in harness.outputs()] == [2]


@pytest.mark.parametrize("index", [1.0, "1", None])
def test_the_index_that_a_partitioner_returns(index: Any) -> None:
    """ "list indices must be integers" says nothing of the partitioner."""
    from penstock.engine.runtime.network.partitioners import CustomPartitioner

    partitioner = CustomPartitioner(lambda key, channels: index, first)
    partitioner.setup([None, None], 0)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="the partitioner returned"):
        partitioner.probe(1)
    partitioner.partition = lambda key, channels: np.int64(1)  # type: ignore[assignment]
    partitioner.probe(1)
