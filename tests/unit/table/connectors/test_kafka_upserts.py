"""Rows of a table as messages of Kafka, without a broker."""

from __future__ import annotations

import pyarrow as pa

from penstock.table.connectors.formats.json_encoding import JsonEncoder, JsonWriting
from penstock.table.connectors.kafka_encoding import KafkaTableSerialization, WrittenPart
from penstock.table.operators.table_columns import KIND


def part(*fields: tuple[str, pa.DataType]) -> WrittenPart:
    """Return these fields as JSON."""
    schema = pa.schema(fields)
    return WrittenPart(JsonEncoder(schema, JsonWriting()), tuple(schema.names), schema)


def test_rows_that_go_are_messages_without_a_value() -> None:
    """A topic that is compacted would keep deleted rows, or lose those that came instead of others."""
    key, name = ("id", pa.int64()), ("name", pa.string())
    serialization = KafkaTableSerialization("names", part(key, name), part(key), upserts=True)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([1, 1, 2, 3]), pa.array(["a", "b", "c", "d"]), pa.array([1, 2, 3, 0], pa.uint8())],
        names=["id", "name", KIND],
    )
    found = serialization.serialize_columns(batch)
    assert found.keys == [b'{"id":1}', b'{"id":1}', b'{"id":2}', b'{"id":3}']
    assert found.values == [None, b'{"id":1,"name":"b"}', None, b'{"id":3,"name":"d"}']
