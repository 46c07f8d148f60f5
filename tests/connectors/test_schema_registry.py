"""Messages of Avro whose schemas are in a registry, against a registry."""

from __future__ import annotations

import io
import json
import pickle
import traceback
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from tests.connectors.tls import certificate

from penstock.common.errors import SourceError
from penstock.common.types import Row
from penstock.connectors.kafka.schema_registry.access import Access
from penstock.connectors.kafka.schema_registry.requests import request
from penstock.connectors.kafka.source.deserialization import (
    Deserializer,
    KafkaRecordDeserializationSchema,
    OnError,
    UnreadableRecord,
)
from penstock.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
    GenericRecordAvroTypeInfo,
    SchemaRegistryError,
)
from penstock.testing.schema_registry_server import SchemaRegistryServer

fastavro = pytest.importorskip("fastavro")
pytestmark = pytest.mark.connectors

PASSWORD = "s3cret-of-alice"
READ = ConfluentRegistryAvroDeserializationSchema
WRITE = ConfluentRegistryAvroSerializationSchema


def schema_of(*fields: dict[str, Any]) -> AvroSchema:
    return AvroSchema.parse_string(json.dumps({"type": "record", "name": "Flight", "fields": list(fields)}))


ORIGIN, DELAY = {"name": "origin", "type": "string"}, {"name": "delay", "type": "int"}
FIRST = schema_of(ORIGIN, DELAY)
SECOND = schema_of(ORIGIN, {"name": "delay", "type": "long"}, {"name": "gate", "type": "string", "default": "?"})
FLIGHT = {"origin": "JFK", "delay": 3}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as server:
        yield server


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    """Return a subject for each test, with characters that must be quoted in a path."""
    return f"{request.node.name}/ö-value"


class Message(NamedTuple):
    """As much of a message as a deserializer asks for."""

    content: bytes

    def topic(self) -> str:
        return "flights"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 0, 0

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def value(self) -> bytes:
        return self.content


def test_what_is_written_is_read(registry: SchemaRegistryServer, subject: str) -> None:
    """Messages would not be those that other clients of a registry write and read."""
    write = pickle.loads(pickle.dumps(WRITE.for_generic(subject, FIRST, registry.url)))
    read = pickle.loads(pickle.dumps(READ.for_generic(FIRST, registry.url)))
    messages = [write.serialize(one) for one in (FLIGHT, Row(**FLIGHT), Row("JFK", 3))]

    registered = request(Access(registry.url, None), "GET", f"/subjects/{_quoted(subject)}/versions/latest")
    body = io.BytesIO()
    fastavro.schemaless_writer(body, FIRST.parsed(), FLIGHT)
    assert set(messages) == {b"\0" + registered["id"].to_bytes(4, "big") + body.getvalue()}
    assert read.deserialize_batch(messages) == [FLIGHT] * 3 and read.deserialize(None) is None
    assert read.get_produced_type() == GenericRecordAvroTypeInfo(FIRST)
    rows = READ.for_row(FIRST, registry.url)
    assert rows.deserialize(messages[0]) == Row(**FLIGHT)
    # What was learned stays behind, and is learned again.
    assert pickle.loads(pickle.dumps(read)).deserialize(messages[0]) == FLIGHT
    assert pickle.loads(pickle.dumps(write)).serialize(FLIGHT) == messages[0]


def test_a_schema_that_evolves(registry: SchemaRegistryServer, subject: str) -> None:
    """A topic could have writers of one version only, and a job would have to be changed with them."""
    older, newer = (WRITE.for_generic(subject, schema, registry.url) for schema in (FIRST, SECOND))
    mixed = [older.serialize(FLIGHT), newer.serialize({**FLIGHT, "gate": "B7"}), older.serialize(FLIGHT)]
    assert len({message[:5] for message in mixed}) == 2

    with_gate = [{**FLIGHT, "gate": "?"}, {**FLIGHT, "gate": "B7"}, {**FLIGHT, "gate": "?"}]
    # One that remembers a single schema asks again, and again.
    for capacity in (1, 1000):
        assert READ.for_generic(SECOND, registry.url, capacity).deserialize_batch(mixed) == with_gate
    assert READ.for_generic(schema_of(ORIGIN), registry.url).deserialize_batch(mixed) == [{"origin": "JFK"}] * 3


def test_defaults_and_logical_types_are_those_of_the_readers_schema(
    registry: SchemaRegistryServer, subject: str
) -> None:
    """A date that messages of before lack would be a number, and rows would fail over a record without its fields."""
    day = {"type": "int", "logicalType": "date"}
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "bytes", "default": "\u00ff"}]}
    reader = schema_of(
        {"name": "delay", "type": day},
        {"name": "day", "type": day, "default": 0},
        {"name": "inner", "type": inner, "default": {}},
    )
    messages = [WRITE.for_generic(subject, FIRST, registry.url).serialize(FLIGHT)] * 2

    first, second = READ.for_generic(reader, registry.url).deserialize_batch(messages)
    assert first == {"delay": date(1970, 1, 4), "day": date(1970, 1, 1), "inner": {"x": b"\xff"}}
    assert first == second and first["inner"] is not second["inner"]
    row = READ.for_row(reader, registry.url).deserialize(messages[0])
    assert row == Row(delay=date(1970, 1, 4), day=date(1970, 1, 1), inner=Row(x=b"\xff"))
    moment = schema_of({"name": "delay", "type": {"type": "long", "logicalType": "timestamp-millis"}})
    dated = WRITE.for_generic(f"{subject}.day", schema_of({"name": "delay", "type": day}), registry.url)
    with pytest.raises(ValueError, match="the logical type date cannot be read as timestamp-millis"):
        READ.for_generic(moment, registry.url).deserialize(dated.serialize({"delay": 3}))


def test_a_schema_that_is_not_compatible_is_refused(registry: SchemaRegistryServer, subject: str) -> None:
    """Readers of the topic would fail at the first message, and the one who has written it would not know why."""
    WRITE.for_generic(subject, FIRST, registry.url).serialize(FLIGHT)
    other = schema_of(ORIGIN, {"name": "gate", "type": "string"})
    refused = rf"(?s)subject '{subject}' is not compatible .* 409: .*/gate has no default.*Write to another subject"
    with pytest.raises(SchemaRegistryError, match=refused.replace("[", r"\[")):
        WRITE.for_generic(subject, other, registry.url).serialize({"origin": "JFK", "gate": "B7"})


def test_schemas_that_are_registered_by_others(registry: SchemaRegistryServer, subject: str) -> None:
    """Where few users may register schemas, no job could write; or each would register unreviewed ones."""
    configs = {"auto.register.schemas": "false"}
    only_looks = WRITE.for_generic(subject, FIRST, registry.url, registry_configs=configs)
    with pytest.raises(SchemaRegistryError, match="Register it first"):
        only_looks.serialize(FLIGHT)
    registered = WRITE.for_generic(subject, FIRST, registry.url).serialize(FLIGHT)
    assert only_looks.serialize(FLIGHT) == registered


def test_types_of_other_subjects(registry: SchemaRegistryServer, subject: str) -> None:
    """Messages of a schema that refers to others could not be read."""
    access, path = Access(registry.url, None), f"/subjects/{_quoted(subject)}"
    gate = {"type": "record", "name": "Gate", "fields": [{"name": "number", "type": "int"}]}
    request(access, "POST", f"{path}.gate/versions", {"schema": json.dumps(gate)})
    flight = {"type": "record", "name": "Flight", "fields": [{"name": "gate", "type": "Gate"}]}
    references = [{"name": "Gate", "subject": f"{subject}.gate", "version": 1}]
    given = {"schema": json.dumps(flight), "references": references}
    schema_id = request(access, "POST", f"{path}/versions", given)["id"]

    whole = AvroSchema.parse_string(json.dumps({**flight, "fields": [{"name": "gate", "type": gate}]}))
    message = b"\0" + schema_id.to_bytes(4, "big") + b"\x0e"
    assert READ.for_generic(whole, registry.url).deserialize(message) == {"gate": {"number": 7}}


def test_values_that_are_no_records(registry: SchemaRegistryServer, subject: str) -> None:
    """Keys, which are mostly texts or numbers, could not be written."""
    texts = '{"type": "array", "items": "string"}'
    for kind, (definition, value) in enumerate((('"string"', "JFK"), (texts, ["JFK", "LGA"]))):
        schema = AvroSchema.parse_string(definition)
        write = WRITE.for_generic(f"{subject}-{kind}", schema, registry.url)
        message = write.serialize(value)
        assert READ.for_generic(schema, registry.url).deserialize(message) == value
        assert READ.for_row(schema, registry.url).deserialize(message) == value
        with pytest.raises(ValueError, match="3 is not a record of"):
            write.serialize(3)


def test_a_value_that_the_schema_does_not_describe(registry: SchemaRegistryServer, subject: str) -> None:
    """Only the first reader, if any, would detect the written error."""
    write = WRITE.for_generic(subject, FIRST, registry.url)
    for value in ({"origin": "JFK"}, Row("JFK"), Row("JFK", "late"), None):
        with pytest.raises(ValueError, match="is not a record of"):
            write.serialize(value)


POISON = {
    "no header": (lambda good: b"JFK", "does not begin with a zero byte"),
    "another format": (lambda good: b"\x01" + good[1:], "does not begin with a zero byte"),
    "an unknown id": (lambda good: b"\0\x7f\xff\xff\xff" + good[5:], "has no schema with the id 2147483647"),
    "cut": (lambda good: good[:-1], "is not a value of the schema with the id"),
    "too long": (lambda good: good + b"\0", "is longer than a value"),
}


@pytest.mark.parametrize(("spoilt", "told"), POISON.values(), ids=POISON)
def test_a_message_that_can_not_be_read_does_what_the_source_does_with_such(
    registry: SchemaRegistryServer, spoilt: Callable[[bytes], bytes], told: str
) -> None:
    """A message that the user allows to skip would stop the job for good; or it would vanish."""
    good = WRITE.for_generic("poison", FIRST, registry.url).serialize(FLIGHT)
    messages = [Message(good), Message(spoilt(good)), Message(good)]

    def values(on_error: OnError) -> list[Any]:
        schema = KafkaRecordDeserializationSchema.value_only(READ.for_generic(FIRST, registry.url))
        return Deserializer(schema, on_error, lambda: None).values_of(messages)[0]

    with pytest.raises(SourceError, match=f"(?s)offset 7 .*{told}"):
        values(OnError.FAIL)
    assert values(OnError.SKIP) == [FLIGHT, FLIGHT]
    first, second, third = values(OnError.EMIT)
    assert (first, third) == (FLIGHT, FLIGHT) and isinstance(second, UnreadableRecord) and told in second.error


def test_a_schema_that_can_not_become_the_readers(registry: SchemaRegistryServer, subject: str) -> None:
    """Values of another meaning would be taken for those of the reader's fields."""
    message = WRITE.for_generic(subject, FIRST, registry.url).serialize(FLIGHT)
    other = schema_of({"name": "origin", "type": "long"})
    with pytest.raises(ValueError, match="cannot be read by"):
        READ.for_generic(other, registry.url).deserialize(message)


@pytest.mark.parametrize("on_error", [OnError.SKIP, OnError.EMIT])
def test_no_message_is_left_out_because_a_registry_refuses(on_error: OnError) -> None:
    """All messages of a topic would be thrown away with a password that has expired."""
    with SchemaRegistryServer("alice:" + PASSWORD) as server:
        configs = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": f"alice:{PASSWORD}"}
        good = WRITE.for_generic("a", FIRST, server.url, registry_configs=configs).serialize(FLIGHT)
        schema = KafkaRecordDeserializationSchema.value_only(READ.for_generic(FIRST, server.url))
        with pytest.raises(SchemaRegistryError, match="401: Unauthorized\nCheck user and password"):
            Deserializer(schema, on_error, lambda: None).values_of([Message(good)])


def test_a_registry_that_is_started_again() -> None:
    """A job would fail with each update of the registry."""
    with SchemaRegistryServer() as server:
        message = WRITE.for_generic("a", FIRST, server.url).serialize(FLIGHT)
        known = READ.for_generic(FIRST, server.url)
        assert known.deserialize(message) == FLIGHT
        server.kill()
        assert known.deserialize(message) == FLIGHT
        # Another one of the same registry answers.
        server.start()
        assert READ.for_generic(FIRST, f"http://127.0.0.1:1, {server.url}").deserialize(message) == FLIGHT


def test_tls_and_a_password_that_is_told_to_nobody_but_the_registry(tmp_path: Path) -> None:
    """Registries with access control would be unusable; or readers of logs and plans could change all schemas."""
    key_and_certificate = certificate(tmp_path)
    with SchemaRegistryServer("alice:" + PASSWORD, key_and_certificate) as server:
        trusts = {"schema.registry.ssl.truststore.location": str(tmp_path / "ca.pem")}
        trusts["schema.registry.ssl.truststore.type"] = "PEM"
        with_user = server.url.replace("//", f"//alice:{PASSWORD}@")
        of_url = WRITE.for_generic("a", FIRST, with_user, registry_configs=trusts)
        message = of_url.serialize(FLIGHT)
        given = {**trusts, "schema.registry.basic.auth.user.info": f"alice:{PASSWORD}"}
        assert READ.for_generic(FIRST, server.url, registry_configs=given).deserialize(message) == FLIGHT

        wrong = READ.for_generic(FIRST, with_user.replace("alice", "bob"), registry_configs=trusts)
        with pytest.raises(SchemaRegistryError, match="401") as refused:
            wrong.deserialize(message)
        with pytest.raises(SchemaRegistryError, match=r"is not trusted.*'ssl\.ca\.location'") as untrusted:
            READ.for_generic(FIRST, with_user).deserialize(message)
    told = [line for raised in (refused, untrusted) for line in traceback.format_exception(raised.value)]
    assert PASSWORD not in "".join([*told, repr(of_url), str(Access(with_user, given)), repr(Access(with_user, given))])


def _quoted(subject: str) -> str:
    return quote(subject, safe="")
