"""Unions of Avro with records and other nested types, as Rows."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from penstock.common import Row
from penstock.connectors.files.formats.avro_format import AvroFormat, AvroWriterFactory
from penstock.connectors.files.source import FileSource
from penstock.connectors.formats.avro_rows import RowReader
from penstock.connectors.formats.avro_schema import fastavro
from penstock.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema, AvroSchema
from penstock.testing.conformance.source import read_all

A = {"type": "record", "name": "A", "fields": [{"name": "i", "type": "int"}]}
B = {"type": "record", "name": "B", "fields": [{"name": "a", "type": ["null", "A"]}, {"name": "n", "type": "int"}]}
TIMES = {
    name: {"type": "int" if name == "date" else "long", "logicalType": name}
    for name in ("date", "timestamp-millis", "timestamp-micros")
}
UTC = dt.datetime(2020, 7, 1, tzinfo=dt.UTC)
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
            with pytest.raises(ValueError, match="is not a record of"):
                writes.serialize(Row(u=[value] if isinstance(kind, dict) else value))
    wide = AvroRowSerializationSchema(avro_schema_string=of(["int", "long"]))
    assert wide.serialize(Row(u=1 << 31)) == written(of(["int", "long"]), 1 << 31)
    writes = AvroRowSerializationSchema(avro_schema_string=of("int"))
    assert writes.serialize(Row(u=(1 << 31) - 1)) == written(of("int"), (1 << 31) - 1)


@pytest.mark.parametrize(
    ("branches", "value", "read"),
    [
        (["float", "long"], (1 << 53) + 1, (1 << 53) + 1), (["double", "int", "long"], 5, 5),
        (["double", "int", "long"], 1 << 40, 1 << 40), (["long", "double"], 1.5, 1.5),
        (["float", "double"], 1e39, 1e39),
        (["null", "int"], 1.0, 1), (["null", "long"], np.int64(7), 7), (["double", "long"], np.int64(1 << 60), 1 << 60),
        (["int", "boolean"], True, True), (["null", "double"], 5, 5.0), (["null", "string"], "5", "5"),
        (["double", {"type": "long", "logicalType": "timestamp-micros"}, "long"], 5, 5.0),
        (["null", {"type": "int", "logicalType": "date"}, "long"], 5, 5),
        (["long", {"type": "long", "logicalType": "timestamp-micros"}, "double"], (1 << 60) + 1, (1 << 60) + 1),
    ],
)  # fmt: skip
def test_a_number_keeps_its_digits_in_a_union(branches: Any, value: Any, read: Any) -> None:
    """An id of 19 digits would be another one, as any number fits a branch of floats; 1.0 would be none of an int."""
    message = AvroRowSerializationSchema(avro_schema_string=of(branches)).serialize(Row(u=value))
    found = AvroRowDeserializationSchema(avro_schema_string=of(branches)).deserialize(message).u
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("branches", "value", "told"),
    [
        (["null", "int"], 1.5, "not a whole number"), (["null", "double"], (1 << 53) + 1, "more digits than a double"),
        (["null", "float"], (1 << 24) + 1, "more digits than a float"), (["null", "float", "string"], 1e39, "large"),
        (["null", TIMES["timestamp-millis"]], pd.Timestamp("2020-01-01 00:00:00.000001"), "finer than milliseconds"),
        (["null", TIMES["timestamp-micros"]], pd.Timestamp("2020-01-01 00:00:00.000000001"), "has nanoseconds"),
        (["null", TIMES["date"], "string"], dt.datetime(2020, 1, 1), "not a date"),
        ([{"type": "string", "logicalType": "uuid"}, "string"], "hello", "badly formed"),
        ([{"type": "array", "items": "int"}, "string"], b"ab", "does not fit any branch of the union"),
    ],
)  # fmt: skip
def test_what_no_branch_holds_is_refused(branches: Any, value: Any, told: str) -> None:
    """It would be cut silently."""
    with pytest.raises(ValueError, match=told):
        AvroRowSerializationSchema(avro_schema_string=of(branches)).serialize(Row(u=value))


def test_a_time_of_pandas_in_a_union_is_in_utc() -> None:
    """fastavro would take it for one of the zone of the worker's machine."""
    schema = of(["null", TIMES["timestamp-micros"], TIMES["date"]])
    message = AvroRowSerializationSchema(avro_schema_string=schema).serialize(Row(u=pd.Timestamp("2020-07-01 12:00")))
    assert message == AvroRowSerializationSchema(avro_schema_string=schema).serialize(
        Row(u=dt.datetime(2020, 7, 1, 12, tzinfo=dt.UTC))
    )


def test_of_several_records_each_is_looked_at() -> None:
    """Which one it is fastavro found; what of it does not fit was cut, in the zone of the worker's machine."""
    at = {"type": "record", "name": "At", "fields": [{"name": "t", "type": TIMES["timestamp-millis"]},
                                                     {"name": "f", "type": "float"}]}  # fmt: skip
    of_text = {"type": "record", "name": "Text", "fields": [{"name": "q", "type": "string"}]}
    schema = of(["null", at, of_text, {"type": "map", "values": "int"}])
    writes, reads = AvroRowSerializationSchema(avro_schema_string=schema), AvroRowDeserializationSchema(
        avro_schema_string=schema
    )  # fmt: skip
    noon = dt.datetime(2020, 7, 1, 12)
    for value, read in (
        ({"t": noon, "f": 1.5}, Row(t=noon.replace(tzinfo=dt.UTC), f=1.5)), (Row(q="x"), Row(q="x")),
        ((noon, 2), Row(t=noon.replace(tzinfo=dt.UTC), f=2.0)), ({"k": 1}, {"k": 1}), (None, None),
    ):  # fmt: skip
        assert reads.deserialize(writes.serialize(Row(u=value))) == Row(u=read)
    for value, told in (
        ({"t": noon.replace(microsecond=5), "f": 1.5}, "finer"), (Row(t=noon, f=1e39), "too large"),
        ({"k": 1.5}, "not a whole"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=told):
            writes.serialize(Row(u=value))


@pytest.mark.parametrize(
    ("branches", "value", "read"),
    [
        ([TIMES["date"], TIMES["timestamp-millis"]], dt.datetime(2020, 7, 1), dt.datetime(2020, 7, 1, tzinfo=dt.UTC)),
        ([TIMES["date"], TIMES["timestamp-millis"]], dt.date(2020, 7, 1), dt.date(2020, 7, 1)),
        ([{"type": "array", "items": "int"}, "bytes"], b"ab", b"ab"),
        ([{"type": "array", "items": "int"}, {"type": "fixed", "name": "F", "size": 3}], b"abc", b"abc"),
        (["long", TIMES["timestamp-millis"], TIMES["date"]], UTC.replace(tzinfo=None), UTC),
        (["string", {"type": "string", "logicalType": "uuid"}], "hello", "hello"),
        (["null", {"type": "array", "items": "int"}], np.array([1, 2]), [1, 2]),
    ],
)  # fmt: skip
def test_a_value_is_written_as_what_it_is(branches: Any, value: Any, read: Any) -> None:
    """fastavro takes the first branch that it fits: a moment would be its day, and bytes numbers."""
    message = AvroRowSerializationSchema(avro_schema_string=of(branches)).serialize(Row(u=value))
    assert AvroRowDeserializationSchema(avro_schema_string=of(branches)).deserialize(message) == Row(u=read)
