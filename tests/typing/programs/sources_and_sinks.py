"""Sources give streams their type; sinks take it."""

from typing import assert_type

from pyspark.sql import DataFrame

from penstock.common import Encoder, JobExecutionResult, Row, Types, WatermarkStrategy
from penstock.datastream import DataStream, DataStreamSink, StreamExecutionEnvironment
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
none = WatermarkStrategy.no_watermarks()

# Sources.
numbers = env.from_source(NumberSequenceSource(1, 10), none, "numbers")
assert_type(numbers, DataStream[int])
assert_type(env.from_collection(["a"], Types.STRING()), DataStream[str])
assert_type(env.socket_text_stream("localhost", 9_999), DataStream[str])
env.from_source([1, 2], none, "numbers")  # E: incompatible type "list[int]"
env.from_source(NumberSequenceSource(1, 10), "numbers")  # E: Missing positional argument "source_name"  # E: "str"
NumberSequenceSource("1", 10)  # E: Argument 1 to "NumberSequenceSource" has incompatible type "str"
DataGeneratorSource(str, "ten")  # E: Argument 2 to "DataGeneratorSource" has incompatible type "str"
env.socket_text_stream(9_999)  # E: Missing positional argument "port"  # E: incompatible type "int"


# Sinks.
files = FileSink.for_row_format("out", Encoder.simple_string_encoder()).build()
assert_type(numbers.sink_to(files), DataStreamSink)
assert_type(numbers.sink_to(files).name("files").set_parallelism(1), DataStreamSink)
assert_type(numbers.print(), DataStreamSink)
numbers.sink_to("out")  # E: Argument 1 to "sink_to" of "DataStream" has incompatible type "str"
numbers.print().map(str)  # E: "DataStreamSink" has no attribute "map"
numbers.print(3)  # E: Argument 1 to "print" of "DataStream" has incompatible type "int"

# The job.
assert_type(env.execute("job"), JobExecutionResult)
env.set_parallelism("2")  # E: incompatible type "str"; expected "int"
env.exekute("job")  # E: "StreamExecutionEnvironment" has no attribute "exekute"


def frames_of_spark(frame: DataFrame) -> None:
    rows = env.from_data_frame(frame)
    assert_type(rows, DataStream[Row])
    assert_type(rows.to_data_frame("job", directory="out"), DataFrame)
    env.from_data_frame([1])  # E: incompatible type
