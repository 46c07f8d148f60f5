"""Avro messages from and to columns, plain and of a registry, compared with those of records."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.test_messages_as_columns import outcome

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.serialization import SerializationSchema
from penstock.connectors.formats.avro_row import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.connectors.formats.avro_schema import AvroSchema
from penstock.connectors.kafka.schema_registry.avro import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.connectors.kafka.source.deserialization import OnError

pytest.importorskip("fastavro")
FIELDS: dict[str, tuple[Any, Any, pyarrow.DataType, list[Any]]] = {
    "i": ("int", 7, pyarrow.int32(), [0, -1, 64, 2**31 - 1, -(2**31)]),
    "l": ("long", 8, pyarrow.int64(), [0, 63, -65, 2**63 - 1, -(2**63)]),
    "d": ("double", 1.5, pyarrow.float64(), [0.0, -0.0, float("nan"), float("inf"), 1e300]),
    "f": ("float", 0.5, pyarrow.float32(), [0.5, -1.0, float("nan")]),
    "b": ("boolean", True, pyarrow.bool_(), [True, False]),
    "s": ("string", "x", pyarrow.string(), ["", "é", "a" * 200]),
    "n": (["null", "string"], None, pyarrow.string(), ["", "n", None]),
    "day": ({"type": "int", "logicalType": "date"}, 0, pyarrow.date32(), [date(1, 1, 1), date(2024, 2, 29)]),
    "at": (
        {"type": "long", "logicalType": "timestamp-micros"},
        0,
        pyarrow.timestamp("us", "UTC"),
        [datetime(2024, 2, 29, 12, 0, 0, 5, UTC), datetime(1969, 12, 31, tzinfo=UTC)],
    ),
}


def schema_of(names: list[str], with_defaults: bool = False) -> str:
    fields = [
        {"name": name, "type": FIELDS[name][0]} | ({"default": FIELDS[name][1]} if with_defaults else {})
        for name in names
    ]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


def written(data: st.DataObject, names: list[str], count: int) -> tuple[AvroRowSerializationSchema, list[bytes]]:
    """Draw messages, one of which may be damaged."""
    schema = AvroRowSerializationSchema(avro_schema_string=schema_of(names))
    messages = [
        schema.serialize({name: data.draw(st.sampled_from(FIELDS[name][3])) for name in names}) for _ in range(count)
    ]
    if messages and data.draw(st.integers(0, 2)) == 0:
        at = data.draw(st.integers(0, count - 1))
        one = messages[at]
        messages[at] = data.draw(st.sampled_from([one[:-1], one + b"\0", b"", b"\xff" * 12, one[1:]]))
    return schema, messages


def draw_names(data: st.DataObject) -> list[str]:
    return data.draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, unique=True))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_columns_of_avro_are_those_of_rows(data: st.DataObject) -> None:
    """A value would change, or a message be lost, by the move of a job to columns."""
    names = draw_names(data)
    read = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    columns = RecordColumns(pyarrow.schema({name: FIELDS[name][2] for name in read}))
    _, messages = written(data, names, data.draw(st.integers(0, 5)))
    contents = [None, *messages] if data.draw(st.booleans()) else messages
    schema = AvroRowDeserializationSchema(avro_schema_string=schema_of(names))
    assert schema.column_decoder(columns) is not None
    rows, as_columns = outcome(schema, columns, data.draw(st.sampled_from([OnError.FAIL, OnError.SKIP])), contents)
    assert as_columns == rows


class Registry:
    """Schemas by their ids."""

    capacity = 10

    def __init__(self, *schemas: str) -> None:
        self._schemas = schemas

    def parsed(self, schema_id: int) -> Any:
        return AvroSchema.parse_string(self._schemas[schema_id]).parsed()

    def id_for(self, subject: str, schema: AvroSchema) -> int:
        return 5


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_columns_of_several_writers_are_those_of_values(data: st.DataObject) -> None:
    """A message of an older schema would have other values, or be lost, by the move of a job to columns."""
    wanted = draw_names(data)
    names = [wanted, *(draw_names(data) for _ in range(2))]
    registry: Any = Registry(*map(schema_of, names))
    messages = []
    for _ in range(data.draw(st.integers(0, 3))):
        writer = data.draw(st.integers(0, 2))
        some = written(data, names[writer], data.draw(st.integers(1, 3)))[1]
        messages += [struct.pack(">bI", 0, writer) + message for message in some]
    if data.draw(st.integers(0, 9)) == 0:
        messages.insert(0, data.draw(st.sampled_from([b"", b"\0\0", b"\1\0\0\0\0\0"])))
    read = data.draw(st.lists(st.sampled_from(wanted), min_size=1, unique=True))
    columns = RecordColumns(pyarrow.schema({name: FIELDS[name][2] for name in read}))
    schema = AvroSchema.parse_string(schema_of(wanted, with_defaults=True))
    values: Any = ConfluentRegistryAvroDeserializationSchema(schema, registry, data.draw(st.booleans()))
    assert values.column_decoder(columns) is not None
    policy = data.draw(st.sampled_from([OnError.FAIL, OnError.SKIP]))
    rows, as_columns = outcome(values, columns, policy, messages)
    assert as_columns == rows


def test_usual_messages_make_no_record() -> None:
    """The conversion would cost as much as that of rows."""
    columns = RecordColumns(pyarrow.schema({"s": pyarrow.string(), "l": pyarrow.int64()}))
    old, new = schema_of(["l"]), schema_of(["l", "s"], with_defaults=True)
    write = AvroRowSerializationSchema(avro_schema_string=old)
    messages = [struct.pack(">bI", 0, 0) + write.serialize({"l": number}) for number in range(3)]
    registry: Any = Registry(old)
    decode = ConfluentRegistryAvroDeserializationSchema(AvroSchema.parse_string(new), registry, True).column_decoder(
        columns
    )
    assert decode is not None
    assert decode(messages).to_pylist() == [{"s": "x", "l": number} for number in range(3)]
    plain = AvroRowDeserializationSchema(avro_schema_string=old).column_decoder(columns.only(["l"]))
    assert plain is not None and plain([write.serialize({"l": 4})]).to_pylist() == [{"l": 4}]


@settings(max_examples=66, deadline=None)
@given(data=st.data())
def test_messages_of_columns_are_those_of_records(data: st.DataObject) -> None:
    """Readers of the topic would get other bytes because its job runs on columns."""
    names = draw_names(data)
    rows = data.draw(st.integers(0, 5))
    arrays = {
        name: pyarrow.array([data.draw(st.sampled_from(FIELDS[name][3])) for _ in range(rows)], FIELDS[name][2])
        for name in data.draw(st.permutations(names))
    }
    batch = pyarrow.RecordBatch.from_pydict(arrays)
    columns = RecordColumns(batch.schema)
    text = schema_of(names)
    registry: Any = Registry()
    schemas: list[SerializationSchema] = [
        AvroRowSerializationSchema(avro_schema_string=text),
        ConfluentRegistryAvroSerializationSchema("s", AvroSchema.parse_string(text), registry),
    ]
    for schema in schemas:
        assert schema.takes_columns(columns)
        assert list(schema.serialize_columns(batch)) == [schema.serialize(one) for one in columns.reader()(batch)]


def test_what_columns_cannot_be_made_of_remains_rows() -> None:
    """The job would fail when it starts."""
    columns = RecordColumns(pyarrow.schema({"own": pyarrow.list_(pyarrow.int64())}))
    text = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "own", "type": {"type": "array", "items": "long"}}]}
    )
    registry: Any = SimpleNamespace()
    schema = AvroSchema.parse_string(text)
    assert AvroRowDeserializationSchema(avro_schema_string=text).column_decoder(columns) is None
    assert ConfluentRegistryAvroDeserializationSchema(schema, registry, False).column_decoder(columns) is None
    assert not AvroRowSerializationSchema(avro_schema_string=text).takes_columns(columns)
    assert not ConfluentRegistryAvroSerializationSchema("s", schema, registry).takes_columns(columns)
