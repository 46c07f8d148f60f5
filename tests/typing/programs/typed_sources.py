"""Sources that know their records: a misspelt field is found before the job runs."""

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

from penstock.common import Row, SimpleStringSchema, Types, WatermarkStrategy
from penstock.common.serialization import DeserializationSchema
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import (
    BulkFormat,
    FileSource,
    StreamFormat,
    UnreadableLine,
)
from penstock.datastream.connectors.kafka import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    UnreadableRecord,
)
from penstock.datastream.connectors.postgres import PostgresSource
from penstock.datastream.connectors.redis import RedisStreamEntry, RedisStreamSource
from penstock.datastream.connectors.sql import SqlSource
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonRowDeserializationSchema

env = StreamExecutionEnvironment.get_execution_environment()
none = WatermarkStrategy.no_watermarks()


@dataclass
class Click:
    user: str
    url: str


class Visit(TypedDict):
    page: str


# Files.
clicks = env.from_source(
    FileSource.for_record_stream_format(StreamFormat.json_lines_format(Click), "clicks").build(), none, "clicks"
)
assert_type(clicks, DataStream[Click])
clicks.map(lambda click: click.usr)  # E: "Click" has no attribute "usr"
clicks.key_by(lambda click: click.user).map(lambda click: click.urll)  # E: "Click" has no attribute "urll"
visits = FileSource.for_record_stream_format(StreamFormat.json_lines_format(Visit), "visits").process_static_file_set()
env.from_source(visits.build(), none, "visits").map(lambda visit: visit["pge"])  # E: TypedDict "Visit" has no key "pge"
checked = FileSource.for_record_stream_format(StreamFormat.json_lines_format(Click, on_error="emit"), "clicks").build()
assert_type(checked, FileSource[Click | UnreadableLine])
anything = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), "clicks").build()
assert_type(env.from_source(anything, none, "json"), DataStream[Any])
assert_type(
    FileSource.for_record_stream_format(StreamFormat.text_line_format(), "words").monitor_continuously(1_000).build(),
    FileSource[str],
)
assert_type(
    FileSource.for_record_stream_format(StreamFormat.csv_format(["a"]), "csv").build(), FileSource[dict[str, Any]]
)
assert_type(FileSource.for_bulk_file_format(BulkFormat.parquet_format(as_row=True), "rows").build(), FileSource[Row])
assert_type(FileSource.for_bulk_file_format(BulkFormat.parquet_format(), "rows").build(), FileSource[dict[str, Any]])
StreamFormat.json_lines_format(Click, on_error="sometimes")  # E: No overload variant

# Kafka.
read = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("clicks")
typed = read.set_value_only_deserializer(JsonDeserializationSchema(Click)).set_group_id("readers")
assert_type(typed.build(), KafkaSource[Click])
env.from_source(typed.build(), none, "clicks").filter(lambda click: click.use == "x")  # E: "Click" has no attribute
assert_type(typed.set_on_error("emit").build(), KafkaSource[Click | UnreadableRecord])
assert_type(read.set_value_only_deserializer(SimpleStringSchema()).build(), KafkaSource[str])
rows = JsonRowDeserializationSchema.builder().type_info(Types.ROW([Types.INT()])).build()
assert_type(read.set_value_only_deserializer(rows).build(), KafkaSource[Row])


class Keys(KafkaRecordDeserializationSchema[bytes]):
    def deserialize(self, record: KafkaRecord) -> bytes | None:
        return record.key


class Loose(DeserializationSchema):
    """As programs for PyFlink write it: the type is not named."""

    def deserialize(self, message: bytes) -> Any:
        return message


class Wrong(DeserializationSchema[Click]):
    def deserialize(self, message: bytes) -> str | None:  # E: Return type "str | None" of "deserialize" incompatible
        return message.decode()


assert_type(read.set_deserializer(Keys()).build(), KafkaSource[bytes])
assert_type(read.set_value_only_deserializer(Loose()).build(), KafkaSource[Any])


# Databases, and streams of Redis.
def click_of(entry: RedisStreamEntry) -> Click | None:
    return Click("a", "b") if entry.fields else None


assert_type(SqlSource(url="sqlite://", table="clicks", partition_column="id"), SqlSource[Row])
assert_type(SqlSource(url="sqlite://", table="clicks", partition_column="id", record_class=Click), SqlSource[Click])
assert_type(
    PostgresSource(url="postgresql://", table="clicks", partition_column="id", record_class=Click),
    PostgresSource[Click],
)
assert_type(RedisStreamSource(url="redis://", streams=["clicks"], deserializer=click_of), RedisStreamSource[Click])
assert_type(
    RedisStreamSource(
        url="redis://", streams=["clicks"], value_field="json", value_deserializer=JsonDeserializationSchema(Click)
    ),
    RedisStreamSource[Click],
)
SqlSource(url="sqlite://", table="clicks", partition_column="id", record_class=3)  # E: incompatible type "int"
columns = CsvSchema.builder().add_number_column("id").build()
assert_type(FileSource.for_record_stream_format(CsvReaderFormat.for_schema(columns), "csv").build(), FileSource[Row])
