"""Messages from batches of columns, byte for byte those of the same records."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any, NamedTuple

import pyarrow
import pytest
from tests.unit.connectors.test_written_columns import BATCHES, CHARACTERS, COLUMNS, shuffled

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.serialization import RowFieldExtractorSchema, SerializationSchema
from penstock.common.typeinfo import Types
from penstock.connectors.formats.csv_row import CsvRowSerializationSchema
from penstock.connectors.formats.json_row import JsonRowSerializationSchema
from penstock.connectors.formats.json_values import JsonSerializationSchema
from penstock.connectors.kafka.sink.serialization import KafkaProducerBatch, KafkaRecordSerializationSchema

DECLARED = {
    "text": Types.STRING(),
    "plain text": Types.STRING(),
    "float": Types.DOUBLE(),
    "usual float": Types.DOUBLE(),
    "narrow float": Types.FLOAT(),
    "int": Types.LONG(),
    "small int": Types.INT(),
    "byte": Types.BYTE(),
    "bool": Types.BOOLEAN(),
    "date": Types.SQL_DATE(),
    "timestamp": Types.SQL_TIMESTAMP(),
}
"""The types of fields whose columns are written as such; those of the other columns are not."""


def row_type(*names: str) -> Any:
    return Types.ROW_NAMED(list(names), [DECLARED[name] for name in names])


def assert_same_messages(schema: SerializationSchema, batch: pyarrow.RecordBatch, columns: RecordColumns) -> None:
    """Compare the messages of a batch with those of its records."""
    schema = pickle.loads(pickle.dumps(schema))
    assert schema.takes_columns(columns)
    assert list(schema.serialize_columns(batch)) == [schema.serialize(record) for record in columns.reader()(batch)]


CSV = [
    CsvRowSerializationSchema.Builder,
    lambda kind: CsvRowSerializationSchema.Builder(kind).set_line_delimiter("").set_null_literal("null"),
    lambda kind: CsvRowSerializationSchema.Builder(kind).set_line_delimiter("\r\n").set_field_delimiter("-"),
    lambda kind: CsvRowSerializationSchema.Builder(kind).set_quote_character("T").set_null_literal("T,"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: "+".join(batch.schema.names)[:40])
def test_messages_of_columns_are_those_of_records(batch: pyarrow.RecordBatch) -> None:
    """Readers of the topic would get other bytes because its job runs on columns."""
    columns = RecordColumns(batch.schema)
    assert_same_messages(JsonSerializationSchema(), batch, columns)
    names = [name for name in batch.schema.names if name in DECLARED]
    if names:
        assert_same_messages(JsonRowSerializationSchema(row_type(*names)), batch, columns)
        for builder in CSV:
            assert_same_messages(builder(row_type(*names)).build(), batch, columns)


@pytest.mark.parametrize("character", sorted({*CHARACTERS, *map(chr, range(33))}))
def test_json_of_a_single_unusual_character(character: str) -> None:
    """A message would not be JSON: most batches have no character that must be escaped, or one kind of them."""
    batch = pyarrow.RecordBatch.from_pydict({"text": ["plain", f"a{character}b"]})
    assert_same_messages(JsonSerializationSchema(), batch, RecordColumns(batch.schema))


def test_messages_of_rows_have_the_declared_fields_in_their_order() -> None:
    """A message would have a field that its type lacks, or have them in the order of the stream."""
    columns = RecordColumns(row_type("int", "text", "timestamp", "usual float"))
    batch = shuffled("int", "text", "timestamp", "usual float")
    some = row_type("timestamp", "int")
    for schema in (JsonRowSerializationSchema(some), CsvRowSerializationSchema.Builder(some).build()):
        assert_same_messages(schema, batch, columns)


class Pair(NamedTuple):
    number: int
    content: bytes


@dataclasses.dataclass
class Fields:
    number: int
    content: bytes


def test_the_bytes_of_a_field_are_the_key() -> None:
    """Messages with equal keys would be in different partitions."""
    batch = shuffled("int", "bytes").rename_columns(["number", "content"])
    rows = RecordColumns(Types.ROW_NAMED(["number", "content"], [Types.LONG(), Types.PRIMITIVE_ARRAY(Types.BYTE())]))
    assert_same_messages(RowFieldExtractorSchema(1), batch, rows)
    assert_same_messages(RowFieldExtractorSchema(1), batch, RecordColumns(Pair))
    # A number is not bytes, there is no third column, and an object has no positions.
    assert not RowFieldExtractorSchema(0).takes_columns(rows)
    assert not RowFieldExtractorSchema(2).takes_columns(rows)
    assert not RowFieldExtractorSchema(1).takes_columns(RecordColumns(Fields))
    assert not RowFieldExtractorSchema(1).takes_columns(RecordColumns(batch.schema))


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - DECLARED.keys()))
def test_columns_of_other_types_become_records(name: str) -> None:
    """A declared type is checked for each record: a column of another type would be written unchecked."""
    columns = RecordColumns(pyarrow.schema({name: COLUMNS[name][0]}))
    for kind in (Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()):
        declared = Types.ROW_NAMED([name], [kind])
        if kind.to_arrow() != COLUMNS[name][0]:
            assert not JsonRowSerializationSchema(declared).takes_columns(columns)
            assert not CsvRowSerializationSchema.Builder(declared).build().takes_columns(columns)


def test_what_needs_a_record_gets_it() -> None:
    """Functions of users would be left out, or get a batch in place of a value."""
    columns = RecordColumns(row_type("int", "text"))

    class Mine(JsonSerializationSchema):
        def serialize(self, element: Any) -> bytes:
            return b"mine"

    def builder(value: SerializationSchema | None = None) -> Any:
        schema = value or JsonSerializationSchema()
        return KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(schema)

    key = JsonRowSerializationSchema(row_type("int"))
    assert builder().build().takes_columns(columns)
    assert builder().set_key_serialization_schema(key).build().takes_columns(columns)
    assert not builder(Mine()).build().takes_columns(columns)
    assert not builder().set_key_serialization_schema(Mine()).build().takes_columns(columns)
    assert not builder().set_partitioner(lambda _: 0).build().takes_columns(columns)
    assert not builder().set_header_provider(lambda _: []).build().takes_columns(columns)
    topics = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda _: "t")
    assert not topics.set_value_serialization_schema(JsonSerializationSchema()).build().takes_columns(columns)
    unquoted = CsvRowSerializationSchema.Builder(row_type("int")).disable_quote_character().build()
    assert not unquoted.takes_columns(columns)
    assert not JsonRowSerializationSchema(row_type("int", "bool")).takes_columns(columns)


def test_keys_and_values_of_a_batch() -> None:
    """A message would have the key of another one."""
    columns = RecordColumns(row_type("int", "text"))
    batch = shuffled("int", "text")
    schema = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("t")
        .set_key_serialization_schema(CsvRowSerializationSchema.Builder(row_type("int")).set_line_delimiter("").build())
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    found = schema.serialize_columns(batch)
    assert isinstance(found, KafkaProducerBatch) and found.topic == "t"
    records = [schema.serialize(record, None) for record in columns.reader()(batch)]
    assert [*zip(found.keys or (), found.values, strict=True)] == [(one.key, one.value) for one in records if one]
