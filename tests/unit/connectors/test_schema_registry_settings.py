"""Addresses and credentials that a registry's client accepts."""

from __future__ import annotations

import base64

import pytest

from penstock.connectors.kafka.schema_registry.access import Access
from penstock.datastream.formats.avro import (
    AvroSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)

URL = "http://registry:8081"
SECRET = "s3cret"


def basic(user_info: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(user_info.encode()).decode()}"}


@pytest.mark.parametrize(
    ("url", "configs", "headers"),
    [
        (URL, {}, {}),
        (URL, {"basic.auth.user.info": "me:a:b"}, basic("me:a:b")),
        (URL, {"schema.registry.basic.auth.user.info": "me:x"}, basic("me:x")),
        ("http://me:a%40b@registry", {"basic.auth.credentials.source": "URL"}, basic("me:a@b")),
        ("http://me:x@registry", {}, basic("me:x")),
        (
            URL,
            {"bearer.auth.token": "t", "bearer.auth.credentials.source": "STATIC_TOKEN"},
            {"Authorization": "Bearer t"},
        ),
    ],
)
def test_who_asks(url: str, configs: dict[str, str], headers: dict[str, str]) -> None:
    """Configs that work for a Flink job would be refused by the registry."""
    assert Access(url, configs).headers == headers


def test_where_it_is() -> None:
    """Messages would name no registry, or show a password."""
    access = Access(f"http://me:{SECRET}@a:8081/registry/, https://b", {})
    assert str(access) == "http://a:8081/registry, https://b" and SECRET not in repr(access.addresses)


@pytest.mark.parametrize(
    ("url", "configs", "told"),
    [
        (f"registry:{SECRET}", {}, "must begin with http://"),
        (f"http://me:{SECRET}@registry:port", {}, "cannot read the url"),
        (URL, {"basic.auth.user.info": SECRET}, "user:password"),
        (URL, {"basic.auth.credentials.source": "SASL_INHERIT"}, "must be USER_INFO or URL"),
        (URL, {"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.token": SECRET}, "STATIC_TOKEN"),
        (URL, {"auto.register.schemas": "no"}, "'true' or 'false'"),
        (URL, {"use.latest.version": SECRET}, "got use.latest.version"),
        (URL, {"schema.registry.ssl.truststore.location": "a.jks"}, "got a JKS file"),
    ],
)
def test_what_can_not_be_meant_is_refused_and_not_shown(url: str, configs: dict[str, str], told: str) -> None:
    """A job would fail at its first message, or the program's output would show a password."""
    with pytest.raises(ValueError, match=told) as refused:
        Access(url, configs)
    assert SECRET not in str(refused.value)


def test_arguments_are_checked() -> None:
    """A mistake in a program would be seen by the first subtask that reads a message."""
    pytest.importorskip("fastavro")
    schema = AvroSchema.parse_string('"string"')
    read, write = ConfluentRegistryAvroDeserializationSchema, ConfluentRegistryAvroSerializationSchema
    with pytest.raises(TypeError, match="expected an AvroSchema"):
        read.for_generic('"string"', URL)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a str, got a NoneType"):
        read.for_row(schema, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be str, got 'auto\.register\.schemas' and bool"):
        write.for_generic("a-value", schema, URL, registry_configs={"auto.register.schemas": False})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="1 or more, got 0"):
        read.for_generic(schema, URL, 0)
    with pytest.raises(ValueError, match="subject of a schema must be a name"):
        write.for_generic("", schema, URL)


@pytest.mark.parametrize("message", [b"", b"\0", b"JFK"])
def test_a_first_message_without_a_header_is_said_to_be_one(message: bytes) -> None:
    """An empty message would fail the job with an error of struct, which names neither the message nor a schema."""
    read = ConfluentRegistryAvroDeserializationSchema.for_generic(AvroSchema.parse_string('"string"'), URL)
    with pytest.raises(ValueError, match=r"does not begin with a zero byte and a schema id"):
        read.deserialize(message)
