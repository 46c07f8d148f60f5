"""Kafka with Avro and a schema registry: the program of the page, against a broker and a registry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.kafka_topics import Topics
from tests.snippets import SNIPPETS

from penstock.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.schema_registry_server import SchemaRegistryServer

pytest.importorskip("fastavro")
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
