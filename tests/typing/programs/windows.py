"""Windows of keyed streams and of whole ones."""

from collections.abc import Iterable
from typing import Any, assert_type

from penstock.common import Time
from penstock.datastream import (
    AggregateFunction,
    DataStream,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from penstock.datastream.window import (
    CountEvictor,
    CountTrigger,
    DeltaTrigger,
    Evictor,
    TimestampedValue,
    TimeWindow,
    TumblingEventTimeWindows,
)

Reading = tuple[str, float]


class Mean(AggregateFunction[Reading, tuple[int, float], float]):
    def create_accumulator(self) -> tuple[int, float]:
        return 0, 0.0

    def add(self, value: Reading, accumulator: tuple[int, float]) -> tuple[int, float]:
        return accumulator[0] + 1, accumulator[1] + value[1]

    def get_result(self, accumulator: tuple[int, float]) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: tuple[int, float], acc_b: tuple[int, float]) -> tuple[int, float]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Highest(ReduceFunction[Reading]):
    def reduce(self, value1: Reading, value2: Reading) -> Reading:
        return max(value1, value2)


class Count(ProcessWindowFunction[Reading, str, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Reading]
    ) -> Iterable[str]:
        assert_type(context.window(), TimeWindow)
        assert_type(context.current_watermark(), int)
        context.window_state().get_state("count")  # E: incompatible type "str"; expected "ValueStateDescriptor"
        yield f"{key} {context.window().start} {len([*elements])}"


class First(WindowFunction[Reading, float, str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Reading]) -> Iterable[float]:
        return [next(iter(inputs))[1]]


class CountAll(ProcessAllWindowFunction[Reading, int, TimeWindow]):
    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Reading]
    ) -> Iterable[int]:
        yield len([*elements])


class Cold(Evictor[Reading, TimeWindow]):
    def evict_before(
        self,
        elements: list[TimestampedValue[Reading]],
        size: int,
        window: TimeWindow,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        assert_type(elements[0].get_value(), tuple[str, float])
        elements[:] = [element for element in elements if element.value[1] > 0]
        elements.append(("hall", 3.0))  # E: Argument 1 to "append" of "list"

    def evict_after(
        self,
        elements: list[TimestampedValue[Reading]],
        size: int,
        window: TimeWindow,
        evictor_context: Evictor.EvictorContext,
    ) -> None:
        assert_type(evictor_context.get_current_watermark(), int)


env = StreamExecutionEnvironment.get_execution_environment()
readings = env.from_collection([("hall", 20.5), ("roof", 3.0)])
minute = TumblingEventTimeWindows.of(Time.minutes(1))
windows = readings.key_by(lambda reading: reading[0]).window(minute)
late: OutputTag[Reading] = OutputTag("late")

assert_type(windows.reduce(Highest()), DataStream[tuple[str, float]])
assert_type(windows.reduce(lambda a, b: max(a, b)), DataStream[tuple[str, float]])
assert_type(windows.aggregate(Mean()), DataStream[float])
assert_type(windows.aggregate(Mean(), lambda key, window, means: means), DataStream[Any])
assert_type(windows.process(Count()), DataStream[str])
assert_type(windows.apply(First()), DataStream[float])
assert_type(windows.apply(lambda key, window, inputs: [key]), DataStream[str])
assert_type(windows.trigger(CountTrigger.of(3)).allowed_lateness(1_000).process(Count()), DataStream[str])
assert_type(windows.side_output_late_data(late).process(Count()).get_side_output(late), DataStream[tuple[str, float]])
assert_type(readings.window_all(minute).process(CountAll()), DataStream[int])
assert_type(readings.window_all(minute).aggregate(Mean()), DataStream[float])

assert_type(windows.evictor(CountEvictor.of(3)).evictor(Cold()).process(Count()), DataStream[str])
assert_type(
    windows.trigger(DeltaTrigger.of(3, lambda old, new: new[1] - old[1])).reduce(Highest()), DataStream[Reading]
)

windows.evictor("last")  # E: Argument 1 to "evictor"
windows.aggregate(Highest())  # E: "aggregate" of
windows.process(CountAll())  # E: Argument 1 to "process" of "WindowedStream" has incompatible type "CountAll"
windows.trigger("each")  # E: Argument 1 to "trigger"
readings.window_all(minute).process(Count())  # E: Argument 1 to "process" of "AllWindowedStream"
readings.key_by(lambda reading: reading[1]).window(minute).process(Count())  # E: incompatible type "Count"
readings.window(minute)  # E: "DataStream[tuple[str, float]]" has no attribute "window"
