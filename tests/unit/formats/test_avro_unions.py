"""Unions of Avro with records and other nested types, as Rows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Row
from penstock.connectors.files.formats.avro_format import AvroFormat, AvroWriterFactory
from penstock.connectors.files.source import FileSource
from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema, AvroSchema
from penstock.formats.avro_rows import RowReader
from penstock.formats.avro_schema import fastavro
from penstock.testing.conformance.source import read_all

A = {"type": "record", "name": "A", "fields": [{"name": "i", "type": "int"}]}
B = {"type": "record", "name": "B", "fields": [{"name": "a", "type": ["null", "A"]}, {"name": "n", "type": "int"}]}
BRANCHES: list[Any] = ["null", A, B, {"type": "map", "values": "A"}, {"type": "array", "items": ["A", "string"]}]
CASES: list[tuple[Any, Any]] = [
    (None, None),
    ({"i": 1}, Row(i=1)),
    ({"a": {"i": 2}, "n": 3}, Row(a=Row(i=2), n=3)),
    ({"k": {"i": 1}}, {"k": Row(i=1)}),
    ({"a": {"i": 2}}, {"a": Row(i=2)}),
    ([{"i": 1}, "x"], [Row(i=1), "x"]),
]


def of(branches: Any) -> str:
    return json.dumps({"type": "record", "name": "n.R", "fields": [{"name": "u", "type": branches}]})


def written(schema: str, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro().schemaless_writer(stream, AvroSchema.parse_string(schema).parsed(), {"u": value})
    return stream.getvalue()


@pytest.mark.parametrize(("value", "expected"), CASES, ids=str)
def test_unions_of_what_is_nested(value: Any, expected: Any) -> None:
    """A message that its schema allows would be taken for one that can't be read, and be skipped."""
    reads = AvroRowDeserializationSchema(avro_schema_string=of(BRANCHES))
    assert reads.deserialize(written(of(BRANCHES), value)) == Row(u=expected)


def test_a_map_with_the_names_of_a_record() -> None:
    """A map would become a record where its keys are the names of one."""
    schema = of(["null", A, {"type": "map", "values": "int"}])
    reads = AvroRowDeserializationSchema(avro_schema_string=schema)
    assert reads.deserialize(written(schema, ("n.A", {"i": 1}))) == Row(u=Row(i=1))
    message = bytes([4, 2, 2]) + b"i" + bytes([2, 0])
    assert reads.deserialize(message) == Row(u={"i": 1})


@pytest.mark.parametrize(("value", "expected"), CASES, ids=str)
def test_unions_of_another_writer(value: Any, expected: Any) -> None:
    """The same after a change of the schema, when the names of records are not told."""
    former = AvroSchema.parse_string(of(["string", *BRANCHES])).parsed()
    now = AvroSchema.parse_string(of(BRANCHES)).parsed()
    message = written(of(["string", *BRANCHES]), value)
    found = fastavro().schemaless_reader(io.BytesIO(message), former, now)
    read = RowReader(now, is_resolved=True).read
    assert read is not None and read(found) == Row(u=expected)


@pytest.mark.parametrize("given", [True, False])
def test_unions_in_files(tmp_path: Path, given: bool) -> None:
    """The same in files."""
    schema = AvroSchema.parse_string(of(BRANCHES))
    with (tmp_path / "a.avro").open("wb") as stream:
        writer = AvroWriterFactory(schema).create(stream)
        writer.add_elements([{"u": value} for value, _ in CASES])
        writer.finish()
    source = FileSource.for_bulk_file_format(AvroFormat(schema if given else None, as_row=True), tmp_path).build()
    assert read_all(source, 1) == [Row(u=expected) for _, expected in CASES]


def test_integers_that_an_int_does_not_have_are_not_written() -> None:
    """Other programs would refuse the message, or read another number."""
    for value in (1 << 31, -(1 << 31) - 1):
        for kind in ("int", ["null", "int"], {"type": "array", "items": "int"}):
            writes = AvroRowSerializationSchema(avro_schema_string=of(kind))
            with pytest.raises(ValueError, match="is no record of"):
                writes.serialize(Row(u=[value] if isinstance(kind, dict) else value))
    wide = AvroRowSerializationSchema(avro_schema_string=of(["int", "long"]))
    assert wide.serialize(Row(u=1 << 31)) == written(of(["int", "long"]), 1 << 31)
    writes = AvroRowSerializationSchema(avro_schema_string=of("int"))
    assert writes.serialize(Row(u=(1 << 31) - 1)) == written(of("int"), (1 << 31) - 1)
