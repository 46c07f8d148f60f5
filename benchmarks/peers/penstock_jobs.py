"""The four jobs in penstock, using its public API.

python penstock_jobs.py FIGURE RATE BUFFER_TIMEOUT_MS DIRECTORY [FORM]

FORM: "rows", "columns" (figures 1, 3, 5), or "local" (5) for columns that are aggregated before the exchange as well.
"""

import sys

from counting import KEYS, PARALLELISM, STRIDE, WINDOW_MS, Counter, now_us

from benchmarks.chunk_source import ChunkSource
from penstock.api.sink import Sink, SinkWriter
from penstock.common import Configuration, Time, Types, WatermarkStrategy
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


RECORD = Types.ROW_NAMED(["key", "number", "created_ms"], [Types.LONG()] * 3)


def batch_of(numbers):
    import numpy
    import pyarrow

    number = numpy.arange(numbers.start, numbers.stop, numbers.step)
    created_ms = numpy.full(len(number), now_us() // 1000)
    return pyarrow.record_batch({"key": number * 2654435761 % KEYS, "number": number, "created_ms": created_ms})


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


class WindowSink(Sink):
    def __init__(self, directory):
        self.directory = directory

    def create_writer(self, context):
        return WindowWriter(self.directory)


class WindowWriter(SinkWriter):
    def __init__(self, directory):
        self.counter = Counter(directory)

    def write(self, value, timestamp):
        self.counter.window(value.end, value.n)


class CountingColumnsSink(Sink):
    def __init__(self, directory, weight):
        self.directory = directory
        self.weight = weight

    def takes_columns(self, columns):
        return True

    def create_writer(self, context):
        return CountingColumnsWriter(self.directory, self.weight)


class CountingColumnsWriter(SinkWriter):
    def __init__(self, directory, weight):
        self.counter = Counter(directory, weight)

    def write(self, value, timestamp):
        self.counter.more(1)

    def write_columns(self, batch, timestamps=None):
        self.counter.more(batch.num_rows)


def on_columns(env, figure, rate, directory, local):
    configuration = Configuration()
    configuration.set_string("penstock.columns.local-aggregation", str(local).lower())
    env.configure(configuration)
    strategy = WatermarkStrategy.no_watermarks()
    if figure == "5":
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("created_ms")
    source = ChunkSource(records_of, rate, make_batch=batch_of)
    records = env.from_source(source, strategy, "records", type_info=RECORD).as_columns()
    if figure == "1":
        records.key_by("key").aggregate({"n": "count"}).sink_to(CountingColumnsSink(directory, weight=1))
    elif figure == "3":
        mapped = records.map_batches(
            lambda batch: {**batch, "number": batch["number"] // PARALLELISM}, "numpy", output_type=RECORD
        )
        kept = mapped.filter_batches(lambda batch: batch["number"] % 2 == 0, "numpy")
        kept.sink_to(CountingColumnsSink(directory, weight=2))
    else:
        windows = records.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        windows.aggregate({"n": "count", "end": "window_end"}).sink_to(WindowSink(directory))


def main():
    figure, rate, buffer_timeout_ms, directory = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    form = sys.argv[5] if len(sys.argv) > 5 else "rows"
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(PARALLELISM)
    if buffer_timeout_ms >= 0:
        env.set_buffer_timeout(buffer_timeout_ms)
    if form != "rows":
        on_columns(env, figure, rate, directory, local=form == "local")
        env.execute(f"figure {figure}")
        return
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
