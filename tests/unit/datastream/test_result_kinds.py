"""Async and generator functions where a value is expected are refused by the call that takes them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import Time, WatermarkStrategy
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.function_sink import FunctionSink
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import (
    AsyncDataStream,
    AsyncFunction,
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import AggregatingStateDescriptor, ReducingStateDescriptor
from penstock.datastream.window import (
    CountTumblingWindowAssigner,
    DeltaTrigger,
    EventTimeSessionWindows,
    Evictor,
    Trigger,
)

Stream = DataStream[Any]
PAIRS = CountTumblingWindowAssigner.of(2)


def numbers() -> Stream:
    env = StreamExecutionEnvironment()
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")


def one(value: Any) -> Any:
    return value


def kinds(count: int) -> list[Any]:
    """An async function, an async generator and a generator of so many arguments, and a callable object."""
    names = ", ".join(f"a{number}" for number in range(count))
    scope: dict[str, Any] = {}
    exec(
        f"async def fetch({names}):\n return a0\n"
        f"async def each({names}):\n yield a0\n"
        f"def some({names}):\n yield a0\n"
        f"class Called:\n async def __call__(self, {names}):\n  return a0\n",
        scope,
    )
    return [scope["fetch"], scope["each"], scope["some"], scope["Called"](), functools.partial(scope["fetch"])]


class FetchingMap(MapFunction):
    async def map(self, value: Any) -> Any:  # type: ignore[override]
        return value


class OpenedAsync(MapFunction):
    async def open(self, runtime_context: Any) -> None:  # type: ignore[override]
        """Connects."""

    def map(self, value: Any) -> Any:
        return value


class ClosedByYield(MapFunction):
    def close(self) -> Any:
        yield

    def map(self, value: Any) -> Any:
        return value


class AsyncTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [timestamp]


class AsyncSecond(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    async def map2(self, value: Any) -> Any:  # type: ignore[override]
        return value


class YieldingAdd(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> Any:
        yield accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class AsyncTimeout(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]

    async def timeout(self, value: Any) -> list[Any]:  # type: ignore[override]
        return [value]


class AsyncAssigner(TimestampAssigner):
    async def extract_timestamp(self, value: Any, record_timestamp: int) -> int:  # type: ignore[override]
        return 0


class YieldingWatermarks(WatermarkGenerator):
    def on_event(self, value: Any, event_timestamp: int, output: Any) -> Any:
        yield

    def on_periodic_emit(self, output: Any) -> None:
        """Nothing."""


class AsyncTrigger(Trigger[Any, Any]):
    async def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> Any:
        raise AssertionError

    on_processing_time = on_event_time = on_element  # type: ignore[assignment]
    on_merge = clear = one  # type: ignore[assignment]


class YieldingEvictor(Evictor[Any, Any]):
    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> Any:
        yield

    evict_after = evict_before


CALLS: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "map": (1, lambda f: numbers().map(f)),
    "filter": (1, lambda f: numbers().filter(f)),
    "key_by": (1, lambda f: numbers().key_by(f)),
    "keyed map": (1, lambda f: numbers().key_by(one).map(f)),
    "reduce": (2, lambda f: numbers().key_by(one).reduce(f)),
    "window reduce": (2, lambda f: numbers().key_by(one).window(PAIRS).reduce(f)),
    "partition_custom": (2, lambda f: numbers().partition_custom(f, one)),
    "partition_custom key": (1, lambda f: numbers().partition_custom(lambda key, count: 0, f)),
    "join": (2, lambda f: joined(f)),
    "timestamps": (2, lambda f: WatermarkStrategy.no_watermarks().with_timestamp_assigner(f)),
    "session gap": (1, lambda f: EventTimeSessionWindows.with_dynamic_gap(f)),
    "delta": (2, lambda f: DeltaTrigger.of(1.0, f)),
    "reducing state": (2, lambda f: ReducingStateDescriptor("s", f)),
    "sink": (1, lambda f: FunctionSink(f)),
    "encoder": (1, lambda f: FileSink.for_row_format("out", f)),
    "generator": (1, lambda f: DataGeneratorSource(f, 3)),
}
SEVERAL: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "flat_map": (1, lambda f: numbers().flat_map(f)),
    "apply": (3, lambda f: numbers().key_by(one).window(PAIRS).apply(f)),
    "window_all": (2, lambda f: numbers().window_all(PAIRS).apply(f)),
}
OBJECTS: dict[str, Callable[[], Any]] = {
    "FetchingMap.map": lambda: numbers().map(FetchingMap()),
    "OpenedAsync.open": lambda: numbers().map(OpenedAsync()),
    "ClosedByYield.close": lambda: numbers().map(ClosedByYield()),
    "AsyncTimer.on_timer": lambda: numbers().key_by(one).process(AsyncTimer()),
    "AsyncSecond.map2": lambda: connected().map(AsyncSecond()),
    "YieldingAdd.add": lambda: numbers().key_by(one).window(PAIRS).aggregate(YieldingAdd()),
    "YieldingAdd.add, in state": lambda: AggregatingStateDescriptor("s", YieldingAdd()),
    "AsyncTimeout.timeout": lambda: AsyncDataStream.unordered_wait(numbers(), AsyncTimeout(), Time.seconds(1)),
    "AsyncAssigner.extract_timestamp": lambda: WatermarkStrategy.no_watermarks().with_timestamp_assigner(
        AsyncAssigner()
    ),
    "YieldingWatermarks.on_event": lambda: WatermarkStrategy.for_generator(YieldingWatermarks).create_generator(),
    "AsyncTrigger.on_element": lambda: numbers().key_by(one).window(PAIRS).trigger(AsyncTrigger()),
    "YieldingEvictor.evict_after": lambda: numbers().key_by(one).window(PAIRS).evictor(YieldingEvictor()),
}


def connected() -> Any:
    stream = numbers()
    return stream.connect(stream.map(one))


def joined(function: Any) -> Any:
    stream = numbers()
    return stream.join(stream.map(one)).where(one).equal_to(one).window(PAIRS).apply(function)


@pytest.mark.parametrize("call", [*CALLS, *SEVERAL])
def test_an_async_function(call: str) -> None:
    """A filter would keep every record, since a coroutine counts as true; others would emit what can't be sent."""
    count, take = (CALLS | SEVERAL)[call]
    fetch, each, _, called, partial = kinds(count)
    for function in (fetch, each, called, partial):
        with pytest.raises(TypeError, match=r"is an async function.* remove `async`, or make it the `async_invoke`"):
            take(function)


@pytest.mark.parametrize("call", CALLS)
def test_a_generator_function(call: str) -> None:
    """The function would never run: a call of it gives a generator, which counts as true."""
    count, take = CALLS[call]
    with pytest.raises(TypeError, match=r"contains `yield`, so a call of it returns a generator, not a value"):
        take(kinds(count)[2])


@pytest.mark.parametrize("call", SEVERAL)
def test_a_generator_function_may_emit_several_values(call: str) -> None:
    """`yield` is how functions emit."""
    count, take = SEVERAL[call]
    take(kinds(count)[2])


@pytest.mark.parametrize("method", OBJECTS)
def test_a_method_that_is_async_or_a_generator(method: str) -> None:
    """`open` would not connect, a timer would emit nothing, and Python would warn of it at most."""
    with pytest.raises(TypeError, match=method.partition(",")[0]):
        OBJECTS[method]()
