"""Avro files of all codecs, damaged ones, and records that become those of another schema."""

import io
import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path

import fastavro
import pytest

from penstock.common.errors import ConfigurationError, SourceError
from penstock.common.types import Row
from penstock.connectors.files.formats.avro_format import AvroWriterFactory
from penstock.connectors.files.source import BulkFormat
from penstock.connectors.files.split import FoundFile, whole
from penstock.datastream.formats.avro import AvroRowSerializationSchema, AvroSchema

SHARED = Path(__file__).parents[3].parent / "shared/cases/data-in/data"
SNAPPY = pytest.mark.skipif(find_spec("cramjam") is None, reason="the extra avro is not installed with its codecs")
CODECS = ["null", "deflate", "bzip2", "xz", *(pytest.param(codec, marks=SNAPPY) for codec in ("snappy", "zstandard"))]
RECORDS = [{"n": n, "text": f"text {n}"} for n in range(50)]


def record(*fields, name="Reading"):
    return {"type": "record", "name": name, "fields": list(fields)}


PLAIN = record({"name": "n", "type": "int"}, {"name": "text", "type": "string"})


def schema(definition):
    return AvroSchema.parse_string(json.dumps(definition))


def write(path, records=RECORDS, definition=PLAIN, **options):
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(definition), records, **options)


def read(path, reader=None, **options):
    avro = BulkFormat.avro_format(None if reader is None else schema(reader), **options)
    file = FoundFile(str(path), path.stat().st_size)
    avro.check(file)
    return [value for chunk in avro.read(whole(file), lambda count: None) for value in chunk.values]


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(tmp_path, codec):
    """Spark's files have the codec snappy, and were said to be damaged."""
    path = tmp_path / "a.avro"
    with path.open("wb") as out:
        writer = AvroWriterFactory(schema(PLAIN), codec=codec).create(out)
        writer.add_elements(RECORDS)
        writer.finish()
    assert read(path) == RECORDS
    assert [block.codec for block in fastavro.block_reader(io.BytesIO(path.read_bytes()))] == [codec]


@pytest.mark.parametrize("codec", CODECS)
def test_a_file_that_was_cut_anywhere_is_refused(tmp_path, codec):
    """Its last block would be missing, and the job end as if it had read all."""
    path = tmp_path / "cut.avro"
    write(path, RECORDS * 2, codec=codec, sync_interval=300)
    data = path.read_bytes()
    blocks = list(fastavro.block_reader(io.BytesIO(data)))
    assert len(blocks) > 1
    # Between two blocks a file is whole: nothing in it says how many there are.
    ends = {block.offset + block.size for block in blocks} | {blocks[0].offset}
    for size in range(blocks[0].offset - 3, len(data)):
        if size not in ends and (size % 7 == 0 or size + 1 in ends or size - 1 in ends):
            path.write_bytes(data[:size])
            with pytest.raises(SourceError, match=r"cut\.avro"):
                read(path)


@pytest.mark.parametrize(
    ("codec", "reason"),
    [
        pytest.param("snappy", "the checksum of a block is wrong", marks=SNAPPY),
        ("xz", "Corrupt input data"),
        ("bzip2", "Invalid data stream"),
    ],
)
def test_a_block_with_another_checksum_is_refused(tmp_path, codec, reason):
    """A bit that a disk has flipped would be another letter, and nothing would say so."""
    path = tmp_path / "bits.avro"
    write(path, [{"n": 1, "text": "abcdefgh"}], codec=codec)
    data = bytearray(path.read_bytes())
    # Before checksum and sync marker.
    data[-16 - 4 - 1 if codec == "snappy" else -16 - 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=rf"bits\.avro.* after 0 records, in the block at byte \d+ .*{reason}"):
        read(path)


def test_bytes_that_are_no_records_are_refused(tmp_path):
    """Records would be missing: fastavro reads as many as the block says, and leaves the rest."""
    path = tmp_path / "rest.avro"
    write(path, [{"n": n, "text": ""} for n in range(60)])
    block = next(fastavro.block_reader(io.BytesIO(path.read_bytes())))
    data = bytearray(path.read_bytes())
    data[block.offset] = 2 * 59
    path.write_bytes(data)
    with pytest.raises(SourceError, match="a block has 2 bytes after its records"):
        read(path)
    data[block.offset] = 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match="a block has -1 records"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(SourceError, match=r"rest\.avro is not an Avro file: it is empty"):
        read(path)


@pytest.mark.skipif(find_spec("lz4") is not None, reason="the package of the codec is installed")
def test_a_missing_package_is_no_damage(tmp_path):
    """A user who reads that a file is damaged looks for another copy, not for a package."""
    path = tmp_path / "a.avro"
    write(path)
    path.write_bytes(path.read_bytes().replace(b"\x08null", b"\x06lz4", 1))
    with pytest.raises(ConfigurationError, match=r"a\.avro has the codec lz4, whose package is not installed: pip"):
        read(path)
    path.write_bytes(path.read_bytes().replace(b"\x06lz4", b"\x06abc", 1))
    with pytest.raises(SourceError, match=r"not an Avro file.*abc|codec: abc"):
        read(path)


INNER = record({"name": "x", "type": "bytes", "default": "\u00ff"}, name="Inner")
DEFAULTS = [
    ("null", None, None),
    ("boolean", True, True),
    ("long", 5, 5),
    ("double", 5, 5.0),
    ("float", "NaN", None),
    ("string", "text", "text"),
    ("bytes", "\u00ff", b"\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, "\u0000\u00ff", b"\0\xff"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
    ({"type": "map", "values": INNER}, {"k": {}}, {"k": {"x": b"\xff"}}),
    (INNER, {}, {"x": b"\xff"}),
    (INNER, {"x": "a"}, {"x": b"a"}),
    (["null", "bytes"], None, None),
    (["bytes", "null"], "\u00ff", b"\xff"),
    (["string", "null"], None, None),
    ({"type": "int", "logicalType": "date"}, 1, date(1970, 1, 2)),
    ({"type": "int", "logicalType": "time-millis"}, 1, time(0, 0, 0, 1000)),
    ({"type": "long", "logicalType": "timestamp-micros"}, 1, datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, 0, datetime(1970, 1, 1)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "d", Decimal("1.00")),
    ({"type": "fixed", "name": "D", "size": 1, "logicalType": "decimal", "precision": 2}, "d", Decimal(100)),
    ({"type": "string", "logicalType": "uuid"}, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    ({"type": "string", "logicalType": "unknown"}, "text", "text"),
]


@pytest.mark.parametrize(("kind", "default", "value"), DEFAULTS)
def test_a_default_is_a_value_of_its_type(tmp_path, kind, default, value):
    """A date would be a number, bytes a text, and a record lack the fields that have defaults of their own."""
    path = tmp_path / "old.avro"
    write(path, [{"at": 1}], record({"name": "at", "type": "int"}))
    reader = record({"name": "at", "type": "int"}, {"name": "x", "type": kind, "default": default})
    ((at, x),) = (tuple(each.values()) for each in read(path, reader))
    (row,) = read(path, reader, as_row=True)
    written = AvroRowSerializationSchema(avro_schema_string=json.dumps(reader)).serialize({"at": 1})
    back = fastavro.schemaless_reader(io.BytesIO(written), fastavro.parse_schema(reader))
    if default == "NaN":
        assert x != x and back["x"] != back["x"]
        return

    assert at == 1 and x == value and type(x) is type(value)
    assert (row.x.as_dict() if isinstance(row.x, Row) else row.x) == value or isinstance(value, dict)
    assert back == {"at": 1, "x": value}, "a field that is left out is written with its default"


def test_defaults_are_not_shared(tmp_path):
    """A function that changes one record would change those that come."""
    path = tmp_path / "old.avro"
    write(path)
    reader = record(
        {"name": "items", "type": {"type": "array", "items": "int"}, "default": []},
        {"name": "inner", "type": INNER, "default": {}},
    )
    first, second = read(path, reader)[:2]
    first["items"].append(1)
    first["inner"]["x"] = b""
    assert second == {"items": [], "inner": {"x": b"\xff"}}
    assert read(path, reader)[0] == second


def test_a_default_of_another_type_is_refused():
    """The first record without the field would end the job, hours after the start."""
    reader = record({"name": "x", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "a"})
    with pytest.raises(ValueError, match=r"the default of field 'x': 'a' is not a value of the type"):
        BulkFormat.avro_format(schema(reader))


DAY, MILLIS = {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
CENTS = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
MOMENT = datetime(1970, 1, 2, tzinfo=UTC)
RESOLVED = [
    ("int", 1, DAY, date(1970, 1, 2)),
    (DAY, date(1970, 1, 2), "int", 1),
    (DAY, date(1970, 1, 2), "long", 1),
    (DAY, date(1970, 1, 2), DAY, date(1970, 1, 2)),
    ("long", 86_400_000, MILLIS, MOMENT),
    ("int", 86_400_000, MILLIS, MOMENT),
    ("int", 86_400_000, ["null", MILLIS], MOMENT),
    (["null", "int"], 86_400_000, ["null", MILLIS], MOMENT),
    (["null", "int"], 86_400_000, MILLIS, MOMENT),
    (MILLIS, MOMENT, {"type": "long", "logicalType": "timestamp-micros"}, MOMENT),
    (MILLIS, MOMENT, LOCAL, datetime(1970, 1, 2)),
    (MILLIS, MOMENT, "double", 86_400_000.0),
    ({"type": "int", "logicalType": "time-millis"}, time(1), {"type": "long", "logicalType": "time-micros"}, time(1)),
    ("bytes", b"d", CENTS, Decimal("1.00")),
    ("string", "d", CENTS, Decimal("1.00")),
    (CENTS, Decimal("1.00"), CENTS | {"scale": 4}, Decimal("1.00")),
    (CENTS, Decimal("1.00"), "bytes", b"d"),
    ("string", str(uuid.UUID(int=1)), {"type": "string", "logicalType": "uuid"}, uuid.UUID(int=1)),
    ("bytes", str(uuid.UUID(int=1)).encode(), {"type": "string", "logicalType": "uuid"}, uuid.UUID(int=1)),
    ({"type": "array", "items": "int"}, [1], {"type": "array", "items": DAY}, [date(1970, 1, 2)]),
    ({"type": "map", "values": "int"}, {"k": 1}, {"type": "map", "values": DAY}, {"k": date(1970, 1, 2)}),
    ("int", 1, {"type": "int", "logicalType": "unknown"}, 1),
]


@pytest.mark.parametrize(("kind", "value", "wanted", "expected"), RESOLVED)
def test_logical_types_are_those_of_the_given_schema(tmp_path, kind, value, wanted, expected):
    """A field that the schema calls a date would be a number, as long as files of before are read."""
    path = tmp_path / "old.avro"
    write(path, [{"x": value}, {"x": value}], record({"name": "x", "type": kind}))
    found = read(path, record({"name": "x", "type": wanted}))
    assert found == [{"x": expected}] * 2
    assert type(found[0]["x"]) is type(expected)
    assert [row.x for row in read(path, record({"name": "x", "type": wanted}), as_row=True)] == [expected] * 2


def test_logical_types_of_named_and_recursive_records(tmp_path):
    """Records below the first level, and those that contain themselves, would keep the types of the file."""

    def tree(kind, name="Tree"):
        return record({"name": "x", "type": kind}, {"name": "next", "type": ["null", name]}, name=name)

    path = tmp_path / "tree.avro"
    write(path, [{"x": 1, "next": {"x": 2, "next": {"x": 3, "next": None}}}], tree("int"))
    days = [date(1970, 1, day) for day in (2, 3, 4)]
    expected = {"x": days[0], "next": {"x": days[1], "next": {"x": days[2], "next": None}}}
    assert read(path, tree(DAY)) == [expected]

    old = record({"name": "a", "type": inner_of("int")}, {"name": "b", "type": "Inner"})
    new = record({"name": "a", "type": inner_of(DAY)}, {"name": "b", "type": inner_of("int", "other.Inner")})
    write(path, [{"a": {"y": 1}, "b": {"y": 1}}], old)
    assert read(path, new) == [{"a": {"y": days[0]}, "b": {"y": 1}}]


def inner_of(kind, name="Inner"):
    return record({"name": "y", "type": kind}, name=name)


def test_a_date_can_not_become_a_timestamp(tmp_path):
    """A number of days would be taken for one of milliseconds."""
    path = tmp_path / "old.avro"
    write(path, [{"x": date(1970, 1, 2)}], record({"name": "x", "type": DAY}))
    with pytest.raises(SourceError, match=r"cannot read the records of .*old\.avro as .*date cannot be read as"):
        read(path, record({"name": "x", "type": MILLIS}))


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the files of other programs in ../shared/cases/data-in/data")
@SNAPPY
@pytest.mark.parametrize("name", ["weather-snappy.avro", "weather-zstd.avro"])
def test_codecs_of_other_programs(name):
    """What Java compresses need not be what Python does."""
    expected = [json.loads(line) for line in (SHARED / "weather.json").read_text().splitlines()]
    assert read(SHARED / name) == expected
