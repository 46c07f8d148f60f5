"""Protobuf: messages as Rows, and files of messages behind their lengths."""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Row, Types
from penstock.common.errors import SourceError
from penstock.connectors.files.source import FileSource
from penstock.connectors.formats.protobuf_schema import protobuf
from penstock.datastream.formats.protobuf import (
    ProtobufEncoder,
    ProtobufFormat,
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
    ProtobufSchema,
)
from penstock.testing.conformance.source import check_source, read_all

pytest.importorskip("google.protobuf")

_KINDS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group")
_NUMBERS = {kind: number for number, kind in enumerate(_KINDS, 1)} | {"message": 11, "bytes": 12, "enum": 14}


def field(message: Any, name: str, kind: str, **options: Any) -> None:
    """Add one, with the next number."""
    number = max([one.number for one in message.field], default=0) + 1
    kinds: dict[str, Any] = {"type": _NUMBERS[kind], "label": 1}
    message.field.add(name=name, number=number, **(kinds | options))


def descriptors(*, later: bool = False) -> bytes:
    """What protoc makes of a file with the message flights.Flight. `later`: with two more fields and one more enum."""
    import google.protobuf.timestamp_pb2 as timestamp

    found = protobuf().descriptor_pb2.FileDescriptorSet()
    timestamp.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(name="flights.proto", package="flights", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    for number, name in enumerate(["PLANNED", "GONE", *(["LOST"] if later else [])]):
        state.value.add(name=name, number=number)
    gate = file.message_type.add(name="Gate")
    field(gate, "terminal", "int32")
    flight = file.message_type.add(name="Flight")
    entry = flight.nested_type.add(name="SeatsEntry")
    entry.options.map_entry = True
    field(entry, "key", "string")
    field(entry, "value", "int64")
    field(flight, "origin", "string")
    flight.oneof_decl.add(name="_delay")
    field(flight, "delay", "int64", proto3_optional=True, oneof_index=0)
    field(flight, "state", "enum", type_name=".flights.State")
    field(flight, "gate", "message", type_name=".flights.Gate")
    field(flight, "gates", "message", type_name=".flights.Gate", label=3)
    field(flight, "legs", "string", label=3)
    field(flight, "seats", "message", type_name=".flights.Flight.SeatsEntry", label=3)
    field(flight, "at", "message", type_name=".google.protobuf.Timestamp")
    field(flight, "raw", "bytes")
    field(flight, "next", "message", type_name=".flights.Flight")
    if later:
        field(flight, "carrier", "string")
        field(flight, "fuel", "float")
    return bytes(found.SerializeToString())


SCHEMA = ProtobufSchema.from_descriptor_set(descriptors(), "flights.Flight")
LATER = ProtobufSchema.from_descriptor_set(descriptors(later=True), "flights.Flight")
NAMES = ["origin", "delay", "state", "gate", "gates", "legs", "seats", "at", "raw", "next"]
GATE, TIME = Row("terminal"), Row("seconds", "nanos")
FULL = Row(*NAMES)(
    "JFK", 7, "GONE", GATE(4), [GATE(1), GATE(0)], ["a", "b"], {"coach": 3}, TIME(5, 6), b"\0\xff",
    Row(*NAMES)("EWR", None, "PLANNED", None, [], [], {}, None, b"", None),
)  # fmt: skip
EMPTY = Row(*NAMES)("", None, "PLANNED", None, [], [], {}, None, b"", None)


def there_and_back(value: Any, **options: Any) -> Any:
    """Written and read by schemas that were sent to workers."""
    write, read = pickle.loads(
        pickle.dumps((ProtobufRowSerializationSchema(SCHEMA, **options), ProtobufRowDeserializationSchema(SCHEMA)))
    )
    return read.deserialize(write.serialize(value))


def test_each_kind_of_field_comes_back() -> None:
    """Values would be lost, or be others, on their way through a topic."""
    assert there_and_back(FULL) == FULL
    assert there_and_back(FULL.as_dict(True)) == FULL, "dicts are rows, on all levels"
    assert there_and_back(tuple(FULL)) == FULL, "without names by position"
    assert there_and_back({}) == EMPTY


def test_absent_fields() -> None:
    """A program could not distinguish a delay of 0 from an unknown one."""
    with_defaults = ProtobufRowDeserializationSchema(SCHEMA, read_default_values=True)
    assert with_defaults.deserialize(b"").as_dict() == EMPTY.as_dict() | {"delay": 0}
    assert ProtobufRowDeserializationSchema(SCHEMA).deserialize(None) is None  # type: ignore[arg-type]


def test_null_in_lists_and_maps() -> None:
    """They can't hold None: a job would fail by it, or shift what follows."""
    row = {"legs": ["a", None], "seats": {"coach": None}, "gates": [None, {"terminal": 2}]}
    found = there_and_back(row, write_null_string_literal="n/a")
    assert (found.legs, found.seats, found.gates) == (["a", "n/a"], {"coach": 0}, [GATE(0), GATE(2)])


def test_the_type_of_the_rows() -> None:
    """Tables and typed states would know nothing of the fields."""
    gate = Types.ROW_NAMED(["terminal"], [Types.INT()])
    assert SCHEMA.row_type() == Types.ROW_NAMED(
        NAMES,
        [
            Types.STRING(), Types.LONG(), Types.STRING(), gate, Types.LIST(gate), Types.LIST(Types.STRING()),
            Types.MAP(Types.STRING(), Types.LONG()), Types.ROW_NAMED(["seconds", "nanos"], [Types.LONG(), Types.INT()]),
            Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.PICKLED_BYTE_ARRAY(),
        ],
    )  # fmt: skip
    assert ProtobufRowDeserializationSchema(SCHEMA).get_produced_type() == SCHEMA.row_type()


def test_schemas_of_other_versions() -> None:
    """When a producer is updated before a job, or after it, the job would fail by the first message."""
    newer = ProtobufRowSerializationSchema(LATER).serialize({"origin": "JFK", "state": "LOST", "carrier": "AA"})
    older = ProtobufRowDeserializationSchema(SCHEMA).deserialize(newer)
    assert (older.origin, older.state) == ("JFK", "2"), "what is unknown is left out; an unknown enum is its number"
    assert ProtobufRowSerializationSchema(LATER).serialize({**older.as_dict(), "carrier": "AA"}) == newer
    assert ProtobufRowDeserializationSchema(LATER).deserialize(b"").carrier == ""


def test_what_does_not_fit_is_told() -> None:
    """A user would learn of bytes at position 3, but not of the message or field."""
    read = ProtobufRowDeserializationSchema(SCHEMA)
    with pytest.raises(ValueError, match=r"b'\\xff' cannot be read as flights.Flight: "):
        read.deserialize(b"\xff")
    assert ProtobufRowDeserializationSchema(SCHEMA, ignore_parse_errors=True).deserialize(b"\xff") is None
    write = ProtobufRowSerializationSchema(SCHEMA)
    for row, told in [
        ({"delay": "soon"}, "field 'delay'"),
        ({"state": "LOST"}, "field 'state': 'LOST' is not one of flights.State: PLANNED, GONE"),
        ({"gates": [{"terminal": "x"}]}, "field 'gates': field 'terminal'"),
        ({"raw": 5}, "field 'raw': expected bytes, got 5"),
        ({"state": 1.7}, "field 'state': 'float' object"),
        ({"legs": "JFK"}, "field 'legs': expected a list, got 'JFK'"),
        ({"gate": {"terminal": 2**31}}, "field 'gate': field 'terminal'"),
        ({"origin": "\ud800"}, "field 'origin': .* is not valid UTF-8 text"),
        (("JFK", 1), "expected a record with the fields origin, delay"),
    ]:
        with pytest.raises(ValueError, match=told):
            write.serialize(row)
    with pytest.raises(TypeError, match="a message class that protoc generated, got 'Flight'"):
        ProtobufRowSerializationSchema("Flight")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"cannot find the message flights.Train in these descriptors.*--include_imports"
    ):
        ProtobufSchema.from_descriptor_set(descriptors(), "flights.Train")


def test_a_float_of_32_bits_holds_what_it_can() -> None:
    """1e39 would silently be infinity in the message."""
    write, read = ProtobufRowSerializationSchema(LATER), ProtobufRowDeserializationSchema(LATER)
    for value in (1.5, 3, float("inf")):
        assert read.deserialize(write.serialize({"fuel": value})).fuel == value
    with pytest.raises(ValueError, match=r"field 'fuel': 1e\+39 is too large for a FLOAT"):
        write.serialize({"fuel": 1e39})


def test_a_generated_class_is_a_schema() -> None:
    """Programs have such classes, and would need another output of protoc in addition; workers may lack the module."""
    import google.protobuf.struct_pb2 as struct

    schema = pickle.loads(pickle.dumps(ProtobufSchema.of(struct.ListValue)))
    assert schema == ProtobufSchema.of(struct.ListValue) and str(schema) == "google.protobuf.ListValue"
    found = ProtobufRowDeserializationSchema(schema).deserialize(
        struct.ListValue(values=[struct.Value(number_value=1.5)]).SerializeToString()
    )
    assert found.values[0].number_value == 1.5 and found.values[0].string_value is None


def test_files_are_those_of_other_languages() -> None:
    """Other programs could not read the written messages."""
    import google.protobuf.proto as proto

    theirs = io.BytesIO()
    for row in ({"delay": 1}, {"origin": "x" * 300}):
        proto.serialize_length_prefixed(SCHEMA.message_class()(**row), theirs)
    ours = b"".join(map(ProtobufEncoder(SCHEMA).encode, ({"delay": 1}, {"origin": "x" * 300})))
    assert ours == theirs.getvalue()


def written(path: Path, count: int) -> list[dict[str, Any]]:
    """Flights in a file, a few of them longer than a block."""
    encoder = pickle.loads(pickle.dumps(ProtobufEncoder(SCHEMA)))
    flights = [{"origin": "x" * (200_000 if n % 10 == 7 else n % 300), "delay": n} for n in range(count)]
    data = b"".join(map(encoder.encode, flights))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return flights


@pytest.mark.parametrize("name", ["flights.pb", "flights.pb.gz"])
def test_files(tmp_path: Path, name: str) -> None:
    """A restored reader would read messages twice, or begin in the midst of one."""
    flights = written(tmp_path / name, 24)
    source = FileSource.for_record_stream_format(ProtobufFormat(SCHEMA), str(tmp_path)).build()
    found = read_all(source, 1)
    assert [(one["origin"], one["delay"]) for one in found] == [(one["origin"], one["delay"]) for one in flights]
    check_source(lambda: source, (1, 2))
    rows = FileSource.for_record_stream_format(ProtobufFormat(SCHEMA, as_row=True), str(tmp_path)).build()
    assert rows.get_produced_type() == SCHEMA.row_type() and read_all(rows, 1)[3].delay == 3


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:-1], "ends within the message at byte"),
        (lambda data: data[:-1] + b"\xff" * 9, "expected the length of a message at byte"),
        (lambda data: data + b"\x01\xff", "cannot read message 3 after byte 0 as flights.Flight"),
    ],
)
def test_damaged_files(tmp_path: Path, damage: Any, told: str) -> None:
    """The truncated part would be missing silently."""
    written(tmp_path / "flights.pb", 3)
    data = (tmp_path / "flights.pb").read_bytes()
    (tmp_path / "flights.pb").write_bytes(damage(data))
    source = FileSource.for_record_stream_format(ProtobufFormat(SCHEMA), str(tmp_path)).build()
    with pytest.raises(SourceError, match=told):
        read_all(source, 1)
