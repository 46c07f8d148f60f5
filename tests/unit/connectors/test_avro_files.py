"""Avro: container files, and rows as messages."""

import datetime as dt
import io
import json
import pickle
from decimal import Decimal
from random import Random

import pytest

from penstock.common.errors import SourceError
from penstock.common.types import Row
from penstock.connectors.files.formats.avro_format import AvroWriterFactory
from penstock.connectors.files.source import BulkFormat, FileSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters
from penstock.testing.conformance.source import check_source, read_all

pytest.importorskip("fastavro")

TEXT = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "origin", "type": ["null", "string"]},
            {"name": "delay", "type": "long"},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "legs", "type": {"type": "array", "items": "string"}},
            {"name": "seats", "type": {"type": "map", "values": "int"}},
            {
                "name": "gate",
                "type": [
                    "null",
                    {"type": "record", "name": "Gate", "fields": [{"name": "terminal", "type": "int"}]},
                ],
            },
        ],
    }
)
SCHEMA = AvroSchema.parse_string(TEXT)
FLIGHTS = [
    {
        "origin": f"airport {n % 7}" if n % 5 else None,
        "delay": n,
        "day": dt.date(2013, 1, 1) + dt.timedelta(n),
        "fare": Decimal(n) / 4,
        "legs": [f"leg {i}" for i in range(n % 3)],
        "seats": {"coach": n},
        "gate": {"terminal": n} if n % 2 else None,
    }
    for n in range(2_000)
]


def as_row(flight):
    gate = flight["gate"]
    return Row(**{**flight, "gate": None if gate is None else Row(**gate)})


def written(records, factory) -> bytes:
    stream = io.BytesIO()
    writer = pickle.loads(pickle.dumps(factory)).create(stream)
    writer.add_elements(records[:3])
    for record in records[3:]:
        writer.add_element(record)
        if record["delay"] % 10 == 0:
            writer.flush()
    writer.finish()
    return stream.getvalue()


def source(path, **options):
    return FileSource.for_bulk_file_format(BulkFormat.avro_format(**options), path).build()


def test_what_was_written_is_read(tmp_path) -> None:
    """Fields would change on their way through a file, the nested ones in particular."""
    (tmp_path / "a.avro").write_bytes(written(FLIGHTS, AvroBulkWriters.for_generic_record(SCHEMA)))
    assert read_all(source(tmp_path), 1) == FLIGHTS
    assert read_all(source(tmp_path, as_row=True), 1) == list(map(as_row, FLIGHTS))
    (tmp_path / "a.avro").write_bytes(written(list(map(as_row, FLIGHTS)), AvroBulkWriters.for_generic_record(SCHEMA)))
    assert read_all(source(tmp_path), 1) == FLIGHTS


def test_any_position_can_be_resumed(tmp_path) -> None:
    """A restart inside a file would lose or repeat records."""
    for name in "ab":
        (tmp_path / name).write_bytes(written(FLIGHTS[:25], AvroBulkWriters.for_generic_record(SCHEMA)))
    check_source(lambda: AvroInputFormat(tmp_path, SCHEMA))


def test_records_become_those_of_the_given_schema(tmp_path) -> None:
    """Files that were written before a field was added could not be read any more."""
    (tmp_path / "a").write_bytes(written(FLIGHTS[:2], AvroBulkWriters.for_generic_record(SCHEMA)))
    newer = json.dumps(
        {
            "type": "record",
            "name": "Flight",
            "fields": [{"name": "delay", "type": "long"}, {"name": "plane", "type": "string", "default": "?"}],
        }
    )
    schema = AvroSchema.parse_string(newer)
    assert read_all(AvroInputFormat(tmp_path, schema), 1) == [{"delay": 0, "plane": "?"}, {"delay": 1, "plane": "?"}]


@pytest.mark.parametrize("field", [{"name": "plane", "type": "string"}, {"name": "delay", "type": "string"}])
def test_a_schema_that_records_can_not_become_is_said_before_the_job_starts(tmp_path, field) -> None:
    """It would end a running job, by an error without the file's name."""
    (tmp_path / "a").write_bytes(written(FLIGHTS[:2], AvroBulkWriters.for_generic_record(SCHEMA)))
    newer = AvroSchema.parse_string(json.dumps({"type": "record", "name": "Flight", "fields": [field]}))
    with pytest.raises(SourceError, match=r"cannot read the records of .*/a as .*(plane|string)"):
        FileSource.for_bulk_file_format(BulkFormat.avro_format(newer), tmp_path).build().validate()


def test_an_input_format_is_a_stream(tmp_path) -> None:
    """A program of PyFlink would end with an AttributeError."""
    (tmp_path / "a").write_bytes(written(FLIGHTS[:2], AvroBulkWriters.for_generic_record(SCHEMA)))
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(tmp_path, SCHEMA))
    assert stream.get_type() == GenericRecordAvroTypeInfo(AvroSchema.parse_string(TEXT))


def test_a_header_that_is_not_text_is_said_to_be_that(tmp_path) -> None:
    """A user would read that a file is not one of Avro, of which other readers take each record."""
    data = written(FLIGHTS[:5], AvroWriterFactory(SCHEMA))
    (tmp_path / "a").write_bytes(data.replace(b"avro.codec\x08null", b"avro.codec\x08\xff\xfell", 1))
    with pytest.raises(SourceError, match=r"a: an entry of the header is not UTF-8: .*binary metadata"):
        read_all(source(tmp_path / "a"), 1)


def test_what_can_not_be_read_is_named(tmp_path) -> None:
    """A damaged file among thousands could not be found."""
    path = tmp_path / "a"
    path.write_text("no avro")
    with pytest.raises(SourceError, match="a is not an Avro file"):
        source(tmp_path).validate()
    path.write_bytes(written(FLIGHTS[:100], AvroBulkWriters.for_generic_record(SCHEMA))[:-20])
    with pytest.raises(SourceError, match="a: damaged after"):
        read_all(source(tmp_path), 1)


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_flipped_bit_names_the_file_whatever_it_makes_of_the_bytes(tmp_path, codec) -> None:
    """What decompresses, and what parses the schema, raise errors of their own: of no file, and of no source."""
    whole = written(FLIGHTS[:50], AvroWriterFactory(SCHEMA, codec=codec))
    random, told = Random(5), 0
    for _ in range(150):
        flipped = bytearray(whole)
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
        (tmp_path / "a").write_bytes(flipped)
        try:
            read_all(source(tmp_path / "a"), 1)
        except SourceError as error:
            assert f"{tmp_path / 'a'}" in str(error)
            told += 1
    assert told > 50


def test_records_that_do_not_fit_are_named() -> None:
    """The record with the wrong field could not be found."""
    with pytest.raises(TypeError, match=r"'delay': 'late'.*is not a record of"):
        written([{**FLIGHTS[0], "delay": "late"}], AvroBulkWriters.for_generic_record(SCHEMA))


@pytest.mark.parametrize("text", ["{", '"what"', '{"type": "record", "name": "a", "fields": [{}]}', "{}"])
def test_what_is_no_schema_is_refused(text) -> None:
    """The first message would fail, hours after the start."""
    with pytest.raises(ValueError, match="Avro schema"):
        AvroSchema.parse_string(text)


def test_rows_as_messages() -> None:
    """Messages of other systems could not be read, nor would they read ours."""
    write = pickle.loads(pickle.dumps(AvroRowSerializationSchema(avro_schema_string=TEXT)))
    read = pickle.loads(pickle.dumps(AvroRowDeserializationSchema(avro_schema_string=TEXT)))
    for flight in FLIGHTS[:10]:
        row = as_row(flight)
        assert read.deserialize(write.serialize(row)) == row
        assert write.serialize(flight) == write.serialize(row) == write.serialize(Row(*row))
    assert read.deserialize(None) is None


NESTED = json.dumps(
    {
        "type": "record",
        "name": "Trip",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "leg",
                "type": {"type": "record", "name": "Leg", "fields": [{"name": "to", "type": "string"}]},
            },
            {"name": "others", "type": {"type": "array", "items": "Leg"}},
            {"name": "by", "type": ["null", {"type": "map", "values": "Leg"}]},
            {"name": "back", "type": ["null", "Leg", "long"]},
            {"name": "next", "type": ["null", "Trip"]},
        ],
    }
)
TRIP = Row(1, Row("JFK"), [Row("LAX"), ("BOS",)], {"train": Row(f0="DCA")}, Row("EWR"), None)
NAMED_TRIP = {
    "id": 1,
    "leg": {"to": "JFK"},
    "others": [{"to": "LAX"}, {"to": "BOS"}],
    "by": {"train": {"to": "DCA"}},
    "back": {"to": "EWR"},
    "next": None,
}


def test_nested_rows_without_names_are_written_by_position(tmp_path) -> None:
    """A PyFlink program, whose rows have no names on any level, would fail with its first record."""
    write = AvroRowSerializationSchema(avro_schema_string=NESTED)
    read = AvroRowDeserializationSchema(avro_schema_string=NESTED)
    outer = Row(2, Row("SFO"), [], None, 5, TRIP)
    assert write.serialize(TRIP) == write.serialize(NAMED_TRIP)
    assert read.deserialize(write.serialize(outer)).next.as_dict(recursive=True) == NAMED_TRIP
    stream = io.BytesIO()
    file = AvroBulkWriters.for_generic_record(AvroSchema.parse_string(NESTED)).create(stream)
    file.add_element(outer)
    file.finish()
    (tmp_path / "trips").write_bytes(stream.getvalue())
    assert [record["next"] for record in read_all(source(tmp_path), 1)] == [NAMED_TRIP]
    with pytest.raises(ValueError, match=r"has 2 values, expected 1: to"):
        write.serialize(Row(1, Row("JFK", "LAX"), [], None, None, None))


def test_messages_of_another_schema() -> None:
    """Bytes that happen to fit would be taken for a record."""
    text = '{"type": "record", "name": "a", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}'
    write, read = AvroRowSerializationSchema(None, text), AvroRowDeserializationSchema(None, text)
    assert write.serialize(Row(1, "a")) == b"\x02\x02a"
    # What a map with the type ROW([LONG(), STRING()]) emits, as PyFlink's example of Avro in Kafka does.
    assert write.serialize(Row(f0=1, f1="a")) == b"\x02\x02a"
    with pytest.raises(ValueError, match=r"has 3 values, expected 2"):
        write.serialize(Row(1, "a", 2))
    for message in (b"", b"\x02", b"\x02\x02", b"\x02\x02ab", b"\x02\x03a"):
        with pytest.raises(ValueError, match=r"Avro (record )?of"):
            read.deserialize(message)
    with pytest.raises(ValueError, match="is not a record of"):
        write.serialize(Row("a", 1))


def test_messages_need_a_schema_of_records() -> None:
    """PyFlink's other argument would be ignored: it a Java class."""
    with pytest.raises(TypeError, match="a Java class"):
        AvroRowSerializationSchema("org.example.Flight")
    with pytest.raises(TypeError, match="avro_schema_string is missing"):
        AvroRowDeserializationSchema()
    with pytest.raises(ValueError, match="must be a record"):
        AvroRowSerializationSchema(avro_schema_string='{"type": "array", "items": "int"}')


def test_parquet_by_an_avro_schema(tmp_path) -> None:
    """Programs with `AvroParquetWriters` would need another schema for the same records."""
    stream = io.BytesIO()
    writer = AvroParquetWriters.for_generic_record(SCHEMA).create(stream)
    writer.add_elements(FLIGHTS[:10])
    writer.finish()
    (tmp_path / "a").write_bytes(stream.getvalue())
    read = FileSource.for_bulk_file_format(AvroParquetReaders.for_generic_record(SCHEMA), tmp_path).build()
    # Maps are pairs in Parquet.
    assert [{**flight, "seats": dict(flight["seats"])} for flight in read_all(read, 1)] == FLIGHTS[:10]


def test_columns_have_one_type() -> None:
    """The first record of the second type would fail."""
    union = '{"type": "record", "name": "a", "fields": [{"name": "n", "type": ["int", "string"]}]}'
    with pytest.raises(ValueError, match="field 'n': expected one type in addition to null, got 2"):
        AvroParquetWriters.for_generic_record(AvroSchema.parse_string(union))
