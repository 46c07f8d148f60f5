"""Kafka with binary formats: Avro and a schema registry by the program of the page, and Protobuf."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.kafka_topics import Topics, bounded, source_of
from tests.snippets import SNIPPETS

from penstock.common import Row
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from penstock.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.datastream.formats.protobuf import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.schema_registry_server import SchemaRegistryServer

pytest.importorskip("fastavro")
Timestamp = pytest.importorskip("google.protobuf.timestamp_pb2").Timestamp
pytestmark = pytest.mark.connectors


def test_the_program_of_the_page(topics: Topics) -> None:
    """A newcomer's first program would fail, or not understand what others write by the same registry."""
    (page,) = (one.program for one in SNIPPETS if one.page == "kafka" and "ConfluentRegistry" in one.text)
    names: dict[str, Any] = {"__name__": "program"}
    created = {name: topics.create() for name in ("flights", "delays", "by-airport", "late")}
    with SchemaRegistryServer() as registry:
        program = page.replace("localhost:9092", topics.bootstrap).replace("http://localhost:8081", registry.url)
        for name, topic in created.items():
            for setter in ("topic", "topics"):
                program = program.replace(f'set_{setter}("{name}")', f"set_{setter}({topic!r})")
        exec(compile(program, "kafka.md", "exec"), names)
        delay: AvroSchema = names["delay"]
        older = AvroSchema.parse_string(json.dumps({**delay.definition, "fields": delay.definition["fields"][:2]}))
        write = ConfluentRegistryAvroSerializationSchema.for_generic("by-airport-value", older, registry.url)
        topics.write(
            created["by-airport"], [write.serialize({"airport": "JFK", "minutes": minutes}) for minutes in (5, 90)]
        )

        run = SourceInTest(names["by_airport"])
        arrivals = run.values(2)
        run.close()
        assert arrivals == [{"airport": "JFK", "minutes": minutes, "carrier": None} for minutes in (5, 90)]

        writer = names["late"].create_writer(SimpleSinkContext())
        writer.write_chunk(arrivals[1:], None)
        writer.flush(True)
        writer.close()
        read = ConfluentRegistryAvroDeserializationSchema.for_generic(delay, registry.url)
        assert [read.deserialize(content) for content in topics.values(created["late"])] == arrivals[1:]


def test_protobuf_goes_through_a_topic(topics: Topics) -> None:
    """Rows would be others behind the topic, or one message that can't be read would end the job."""
    topic = topics.create()
    schema = ProtobufSchema.of(Timestamp)
    value = KafkaRecordSerializationSchema.builder().set_topic(topic)
    serializer = value.set_value_serialization_schema(ProtobufRowSerializationSchema(schema)).build()
    sink = KafkaSink.builder().set_bootstrap_servers(topics.bootstrap).set_record_serializer(serializer).build()
    rows = [Row("seconds", "nanos")(seconds, 7) for seconds in range(3)]
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk(rows, None)
    writer.flush(True)
    writer.close()
    topics.write(topic, [b"\xff"])

    skipping = ProtobufRowDeserializationSchema(schema, ignore_parse_errors=True)
    run = SourceInTest(bounded(source_of(topics, topic).set_value_only_deserializer(skipping)).build())
    assert run.values() == rows
    run.close()
