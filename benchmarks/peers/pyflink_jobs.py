"""The four jobs in PyFlink. The source is FlinkJobs.Source, or, without its jar, a range and a Python map.

python pyflink_jobs.py FIGURE RATE BUFFER_TIMEOUT_MS DIRECTORY JAR MODE BUNDLE_SIZE BUNDLE_TIME_MS

JAR `-`: no jar. MODE is process or thread. BUNDLE_SIZE and BUNDLE_TIME_MS -1: the default.
"""

import sys
from pathlib import Path

from counting import KEYS, PARALLELISM, STRIDE, WINDOW_MS, Counter, now_us
from pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import (
    AggregateFunction,
    DataStream,
    FlatMapFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors import Sink
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.datastream.window import TumblingEventTimeWindows
from pyflink.java_gateway import get_gateway

RECORD = Types.TUPLE([Types.INT(), Types.LONG(), Types.LONG()])


class RunningCount(KeyedProcessFunction):
    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.counter = Counter(self.directory)
        self.seen = 0

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen += 1
        if not self.seen % STRIDE:
            self.counter.seen(self.seen)


class TimedRunningCount(RunningCount):
    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.counter.arrived(value[2])


class CountAndDrop(FlatMapFunction):
    """Replaces a sink: PyFlink's sinks are in Java."""

    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.counter = Counter(self.directory, weight=2)
        self.seen = 0

    def flat_map(self, value):
        self.seen += 1
        if not self.seen % STRIDE:
            self.counter.seen(self.seen)
        return ()


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

    def clear(self, context):
        pass


class CreatedAt(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2] // 1000


def environment(buffer_timeout_ms, jar, mode, bundle_size, bundle_time_ms):
    config = Configuration()
    config.set_string("python.executable", sys.executable)
    config.set_string("python.client.executable", sys.executable)
    config.set_string("python.execution-mode", mode)
    if bundle_size >= 0:
        config.set_string("python.fn-execution.bundle.size", str(bundle_size))
    if bundle_time_ms >= 0:
        config.set_string("python.fn-execution.bundle.time", str(bundle_time_ms))
    if jar != "-":
        config.set_string("pipeline.jars", Path(jar).resolve().as_uri())
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(PARALLELISM)
    env.add_python_file(str(Path(__file__).with_name("counting.py")))
    if buffer_timeout_ms >= 0:
        env.set_buffer_timeout(buffer_timeout_ms)
    return env


def source(env, rate, event_time, with_jar):
    if with_jar:
        jobs = get_gateway().jvm.FlinkJobs
        return DataStream(
            env._j_stream_execution_environment.addSource(jobs.source(rate, event_time), "records", jobs.recordType())
        )
    if rate:
        sys.exit("without a JDK there is no source that emits at a rate")
    numbers = NumberSequenceSource(0, 2**62)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    stream = stream.map(lambda i: (i * 2654435761 % KEYS, i, now_us()), output_type=RECORD)
    if event_time:
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(CreatedAt())
        stream = stream.assign_timestamps_and_watermarks(strategy)
    return stream


def main():
    figure, rate, buffer_timeout_ms, directory, jar, mode = sys.argv[1:7]
    env = environment(int(buffer_timeout_ms), jar, mode, int(sys.argv[7]), int(sys.argv[8]))
    records = source(env, float(rate), figure == "5", jar != "-")
    if figure == "3":
        mapped = records.map(lambda r: (r[0], r[1] // PARALLELISM, r[2]), output_type=RECORD)
        results = mapped.filter(lambda r: r[1] % 2 == 0).flat_map(CountAndDrop(directory), output_type=Types.LONG())
    else:
        keyed = records.key_by(lambda r: r[0], key_type=Types.INT())
        if figure == "5":
            windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
            results = windows.aggregate(
                Count(), WindowResults(directory), accumulator_type=Types.LONG(), output_type=Types.LONG()
            )
        else:
            count = (TimedRunningCount if figure == "6" else RunningCount)(directory)
            results = keyed.process(count, output_type=Types.LONG())
    discarding = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    results.sink_to(Sink(discarding))
    env.execute(f"figure {figure}")


if __name__ == "__main__":
    main()
