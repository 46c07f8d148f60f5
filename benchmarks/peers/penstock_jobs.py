"""The four jobs in penstock, using its public API.

python penstock_jobs.py FIGURE RATE BUFFER_TIMEOUT_MS DIRECTORY
"""

import sys

from counting import KEYS, PARALLELISM, STRIDE, WINDOW_MS, Counter, now_us

from benchmarks.chunk_source import ChunkSource
from penstock.api.sink import Sink, SinkWriter
from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import (
    AggregateFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows


def records_of(numbers):
    created_us = now_us()
    return [(i * 2654435761 % KEYS, i, created_us) for i in numbers]


class RunningCount(KeyedProcessFunction):
    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.counter = Counter(self.directory)
        self.seen = 0

    def process_element(self, value, ctx):
        count = self.count
        count.update((count.value() or 0) + 1)
        self.seen = seen = self.seen + 1
        if not seen % STRIDE:
            self.counter.seen(seen)


class TimedRunningCount(RunningCount):
    def process_element(self, value, ctx):
        count = self.count
        count.update((count.value() or 0) + 1)
        self.counter.arrived(value[2])


class CountingSink(Sink):
    def __init__(self, directory):
        self.directory = directory

    def create_writer(self, context):
        return CountingWriter(self.directory)


class CountingWriter(SinkWriter):
    def __init__(self, directory):
        self.counter = Counter(directory, weight=2)
        self.seen = 0

    def write(self, value, timestamp):
        self.seen = seen = self.seen + 1
        if not seen % STRIDE:
            self.counter.seen(seen)


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class WindowResults(ProcessWindowFunction):
    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.counter = Counter(self.directory)

    def process(self, key, context, elements):
        for count in elements:
            self.counter.window(context.window().end, count)
        return ()


def main():
    figure, rate, buffer_timeout_ms, directory = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(PARALLELISM)
    if buffer_timeout_ms >= 0:
        env.set_buffer_timeout(buffer_timeout_ms)
    strategy = WatermarkStrategy.no_watermarks()
    if figure == "5":
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[2] // 1000)
    records = env.from_source(ChunkSource(records_of, rate), strategy, "records")
    keyed = records.key_by(lambda r: r[0], key_type=Types.LONG())
    if figure in ("1", "6"):
        keyed.process((TimedRunningCount if figure == "6" else RunningCount)(directory)).print()
    elif figure == "3":
        mapped = records.map(lambda r: (r[0], r[1] // PARALLELISM, r[2]))
        mapped.filter(lambda r: r[1] % 2 == 0).sink_to(CountingSink(directory))
    elif figure == "5":
        windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        windows.aggregate(Count(), WindowResults(directory)).print()
    env.execute(f"figure {figure}")


if __name__ == "__main__":
    main()
