"""Rows from messages: how many a second a schema makes of JSON, CSV, Avro and Protobuf, in one thread. Item 34.

A row has five fields: two integers, a float, a timestamp, a text of 20 characters. Batches are of 500 messages, as a
source polls them.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable

from benchmarks.measurement import options, tell
from penstock.common import Row, Types
from penstock.common.serialization import DeserializationSchema
from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.datastream.formats.protobuf import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)

_NAMES = ["id", "count", "value", "at", "name"]
_TYPE = Types.ROW_NAMED(_NAMES, [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.SQL_TIMESTAMP(), Types.STRING()])
_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Measured",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "count", "type": ["null", "long"]},
            {"name": "value", "type": "double"},
            {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "name", "type": "string"},
        ],
    }
)
_BEGAN = dt.datetime(2026, 1, 1)
_BATCH = 500


def rows(count: int) -> list[Row]:
    """Rows whose fields differ."""
    second = dt.timedelta(seconds=1)
    return [
        Row(id=i, count=i % 1000, value=i * 0.25, at=_BEGAN + i * second, name=f"name-{i:015d}") for i in range(count)
    ]


def protobuf_schema() -> ProtobufSchema:
    """A message of proto3 with the five fields, two of them optional. Protobuf has no times: it is a text."""
    from google.protobuf import descriptor_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="measured.proto", package="bench", syntax="proto3")
    message = file.message_type.add(name="Measured")
    types = [kinds.TYPE_INT64, kinds.TYPE_INT64, kinds.TYPE_DOUBLE, kinds.TYPE_STRING, kinds.TYPE_STRING]
    for number, (name, kind) in enumerate(zip(_NAMES, types, strict=True), 1):
        field = message.field.add(name=name, number=number, type=kind, label=kinds.LABEL_OPTIONAL)
        if name in ("count", "name"):
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{name}")
    files = descriptor_pb2.FileDescriptorSet(file=[file])
    return ProtobufSchema.from_descriptor_set(files.SerializeToString(), "bench.Measured")


def schemas() -> dict[str, tuple[DeserializationSchema, Callable[[Row], bytes]]]:
    """What reads the messages of a format, and what writes them."""
    protobuf = protobuf_schema()
    in_protobuf = ProtobufRowSerializationSchema(protobuf)
    return {
        "json": (
            JsonRowDeserializationSchema.builder().type_info(_TYPE).build(),
            JsonRowSerializationSchema.builder().with_type_info(_TYPE).build().serialize,
        ),
        "csv": (
            CsvRowDeserializationSchema.Builder(_TYPE).build(),
            CsvRowSerializationSchema.Builder(_TYPE).build().serialize,
        ),
        "avro": (
            AvroRowDeserializationSchema(avro_schema_string=_AVRO),
            AvroRowSerializationSchema(avro_schema_string=_AVRO).serialize,
        ),
        "protobuf": (
            ProtobufRowDeserializationSchema(protobuf),
            lambda row: in_protobuf.serialize({**row.as_dict(), "at": row["at"].isoformat()}),
        ),
    }


def rate(schema: DeserializationSchema, batches: list[list[bytes]], seconds: float) -> float:
    """Rows a second."""
    for batch in batches:
        schema.deserialize_batch(batch)
    made, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for batch in batches:
            made += len(schema.deserialize_batch(batch))
    return made / (time.perf_counter() - began)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--format", choices=["json", "csv", "avro", "protobuf"], default="json")
    arguments = parser.parse_args()
    schema, serialize = schemas()[arguments.format]
    messages = [serialize(row) for row in rows(20 * _BATCH)]
    batches = [messages[start : start + _BATCH] for start in range(0, len(messages), _BATCH)]
    tell({"records_per_s": rate(schema, batches, arguments.seconds)})


if __name__ == "__main__":
    main()
