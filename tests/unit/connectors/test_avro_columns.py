"""Avro as batches of columns, compared with the rows of the same file."""

from __future__ import annotations

import datetime
import io
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.connectors.read_as_columns import ThroughColumns, batches, outcome, rows

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import Types
from penstock.connectors.files.formats.avro_format import AvroFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.files.split import FileSplit
from penstock.connectors.formats.avro_datums import DatumColumns
from penstock.connectors.formats.avro_schema import AvroSchema
from penstock.testing.conformance.source import check_source

UTC = datetime.UTC
MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime.datetime(2024, 2, 29, 12, 0, 0, 123000),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999000),
]
LONGS = [number for bits in range(64) for number in ((1 << bits) - 1, -(1 << bits))]
KINDS: dict[str, tuple[Any, list[Any], list[pyarrow.DataType]]] = {
    "boolean": ("boolean", [True, False], [pyarrow.bool_()]),
    "int": ("int", [0, -1, 63, 64, -(2**31), 2**31 - 1], [pyarrow.int32(), pyarrow.int64(), pyarrow.int8()]),
    "long": ("long", LONGS, [pyarrow.int64(), pyarrow.uint64(), pyarrow.float64()]),
    "float": ("float", [0.0, -0.0, 1.5, float("nan"), float("inf")], [pyarrow.float32(), pyarrow.float64()]),
    "double": ("double", [0.1, float("-inf"), float("nan"), 1e308], [pyarrow.float64(), pyarrow.float32()]),
    "string": ("string", ["", "a", "é" * 40, "x" * 9000], [pyarrow.string(), pyarrow.large_string()]),
    "bytes": ("bytes", [b"", b"\x00\xff", b"x" * 70], [pyarrow.binary(), pyarrow.string()]),
    "enum": (
        {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
        ["A", "B", "C"],
        [pyarrow.string(), pyarrow.dictionary(pyarrow.int8(), pyarrow.string())],
    ),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, [b"abc", b"\x00\x01\x02"], [pyarrow.binary()]),
    "date": (
        {"type": "int", "logicalType": "date"},
        [moment.date() for moment in MOMENTS],
        [pyarrow.date32(), pyarrow.int32()],
    ),
    "time-millis": (
        {"type": "int", "logicalType": "time-millis"},
        [datetime.time(), datetime.time(23, 59, 59, 999000)],
        [pyarrow.time64("us"), pyarrow.time32("ms")],
    ),
    "time-micros": (
        {"type": "long", "logicalType": "time-micros"},
        [datetime.time(), datetime.time(23, 59, 59, 999999)],
        [pyarrow.time64("us")],
    ),
    **{
        f"{prefix}timestamp-{unit}": (
            {"type": "long", "logicalType": f"{prefix}timestamp-{unit}"},
            [moment.replace(tzinfo=None if prefix else UTC) for moment in MOMENTS],
            [pyarrow.timestamp("us", "UTC"), pyarrow.timestamp("us"), pyarrow.timestamp("us", "Europe/Berlin")],
        )
        for prefix in ("", "local-")
        for unit in ("millis", "micros")
    },
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
        [Decimal(0), Decimal("-0.001"), Decimal("12345678901234567.891"), Decimal("-1"), Decimal("0.128")],
        [pyarrow.decimal128(20, 3), pyarrow.decimal128(38, 3), pyarrow.decimal128(38, 5)],
    ),
    "fixed decimal": (
        {"type": "fixed", "name": "D", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 0},
        [Decimal(0), Decimal(-1), Decimal(10**37)],
        [pyarrow.decimal128(38, 0)],
    ),
    "uuid": ({"type": "string", "logicalType": "uuid"}, [uuid.UUID(int=7)], [pyarrow.string()]),
    "unknown logical type": ({"type": "long", "logicalType": "ticks"}, [1, -1], [pyarrow.int64()]),
    "array": ({"type": "array", "items": "int"}, [[], [1, 2]], [pyarrow.list_(pyarrow.int32())]),
    "map": ({"type": "map", "values": "int"}, [{}, {"a": 1}], [pyarrow.map_(pyarrow.string(), pyarrow.int32())]),
    "union": (["int", "string"], [1, "a"], [pyarrow.string()]),
    "null": ("null", [None], [pyarrow.null()]),
}


def written(fields: dict[str, Any], records: list[Any], **options: Any) -> bytes:
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    stream = io.BytesIO()
    fastavro.writer(stream, schema, records, **options)
    return stream.getvalue()


def assert_same(path: Path, data: bytes, kinds: dict[str, Any], records: AvroFormat[Any] | None = None) -> str:
    path.write_bytes(data)
    split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(pyarrow.schema(list(kinds.items())))
    by_rows = outcome(rows, records or AvroFormat(), split, columns)
    assert outcome(batches, records or AvroFormat(), split, columns) == by_rows
    return by_rows


@pytest.mark.parametrize("as_row", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_columns_of_one_type_are_those_of_rows(tmp_path: Path, name: str, as_row: bool) -> None:
    """A value of this type would change, or be read, by the move of a job to columns."""
    kind, values, targets = KINDS[name]
    for target in targets:
        plain = written({"f": kind}, [{"f": value} for value in values])
        assert_same(tmp_path / "a.avro", plain, {"f": target}, AvroFormat(as_row=as_row))
        if isinstance(kind, list) or kind == "null":
            continue
        for union in (["null", kind], [kind, "null"]):
            data = written({"f": union}, [{"f": value} for value in [None, *values, None]])
            assert_same(tmp_path / "a.avro", data, {"f": target}, AvroFormat(as_row=as_row))


def a_record(rng: random.Random, depth: int = 0) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Return the fields, the types of columns, and a function that makes a record."""
    fields, kinds, makers = {}, {}, {}
    for number in range(rng.randrange(1, 6)):
        name = f"f{number}"
        if depth < 2 and rng.random() < 0.2:
            inner, inner_kinds, make = a_record(rng, depth + 1)
            kind: Any = {
                "type": "record",
                "name": f"R{rng.randrange(10**9)}",
                "fields": [{"name": key, "type": value} for key, value in inner.items()],
            }
            target = pyarrow.struct(list(inner_kinds.items()))
        else:
            chosen = rng.choice([key for key in KINDS if key not in ("union", "null", "uuid", "array", "map")])
            kind, values, targets = KINDS[chosen]
            kind = {**kind, "name": f"N{rng.randrange(10**9)}"} if isinstance(kind, dict) and "name" in kind else kind
            target = targets[0] if "local" not in chosen else pyarrow.timestamp("us")
            make = lambda values=values: rng.choice(values)  # noqa: E731
        if rng.random() < 0.4:
            kind = rng.choice([["null", kind], [kind, "null"]])
            make = lambda make=make: None if rng.random() < 0.3 else make()  # noqa: E731
        fields[name], kinds[name], makers[name] = kind, target, make
    return fields, kinds, lambda: {name: make() for name, make in makers.items()}


@pytest.mark.parametrize("seed", first_of(20, range(60)))
def test_columns_of_generated_schemas_are_those_of_rows(tmp_path: Path, seed: int) -> None:
    """A field after a nullable one, or a nested record, would be read from the wrong bytes."""
    rng = random.Random(seed)
    fields, kinds, make = a_record(rng)
    records = [make() for _ in range(rng.choice([0, 1, 7, 300]))]
    data = written(fields, records, codec=rng.choice(["null", "deflate"]), sync_interval=rng.choice([1, 200, 16_000]))
    found = assert_same(tmp_path / "a.avro", data, kinds)
    assert found != "cannot convert"
    some = rng.sample(sorted(kinds), rng.randrange(1, len(kinds) + 1))
    assert_same(tmp_path / "a.avro", data, {name: kinds[name] for name in some})


@pytest.mark.parametrize("seed", first_of(60, range(200)))
def test_damaged_blocks_are_those_of_rows(tmp_path: Path, seed: int) -> None:
    """Damaged bytes would become records, or end a process."""
    rng = random.Random(seed)
    fields = {"i": "long", "s": ["null", "string"], "d": "double", "e": KINDS["enum"][0], "t": KINDS["date"][0]}
    kinds = {"s": pyarrow.string(), "i": pyarrow.int64(), "e": pyarrow.string(), "t": pyarrow.date32()}
    records = [
        {
            "i": rng.choice(LONGS),
            "s": rng.choice([None, "", "abc", "é" * 50]),
            "d": rng.random(),
            "e": rng.choice("ABC"),
            "t": datetime.date(2024, 1, 1 + rng.randrange(28)),
        }
        for _ in range(40)
    ]
    data = bytearray(written(fields, records, sync_interval=200))
    # Behind the header: its damage is the same for both.
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data) - 1000, len(data))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    assert_same(tmp_path / "a.avro", bytes(data), kinds)


def test_integers_in_more_bytes_than_they_need(tmp_path: Path) -> None:
    """Files of other writers would be read from the wrong bytes."""
    padded = b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00"
    for number in (padded, padded[:3] + b"\x00", padded[:-1] + b"\x01", b"\xff" * 9 + b"\x02", b"\xff" * 10 + b"\x01"):
        header = written({"f": "long", "g": "string"}, [{"f": 1, "g": "a"}])
        sync = header[-16:]
        body = number + b"\x02a"
        block = b"\x02" + bytes([2 * len(body)]) + body + sync
        data = written({"f": "long", "g": "string"}, [], sync_marker=sync) + block
        assert_same(tmp_path / "a.avro", data, {"f": pyarrow.int64(), "g": pyarrow.string()})


SCHEMAS: list[dict[str, Any]] = [
    {"a": "long", "b": ["null", "string"]},
    {"b": ["null", "string"], "a": "long"},
    {"a": "double", "b": ["null", "string"]},
    {"b": ["null", "string"]},
    {"a": {"type": "long", "logicalType": "timestamp-millis"}, "b": ["null", "string"]},
    {"a": "int", "b": "string"},
]


@pytest.mark.parametrize("wanted", range(len(SCHEMAS)))
@pytest.mark.parametrize("stored", range(len(SCHEMAS)))
def test_records_of_another_schema_are_those_of_rows(tmp_path: Path, stored: int, wanted: int) -> None:
    """A file of an older schema would have other values on columns."""
    fields = SCHEMAS[stored]
    values = {"a": 7, "b": "x"}
    data = written(fields, [{name: values[name] for name in fields}] * 3)
    definition = {
        "type": "record",
        "name": "R",
        "fields": [
            *({"name": name, "type": kind} for name, kind in SCHEMAS[wanted].items()),
            {"name": "added", "type": "int", "default": 5},
            {"name": "list", "type": ["null", "string"], "default": None},
        ],
    }
    records: AvroFormat[Any] = AvroFormat(AvroSchema(definition))
    for kinds in (
        {"added": pyarrow.int32(), "list": pyarrow.string(), "b": pyarrow.string()},
        {"a": pyarrow.int64(), "added": pyarrow.int64()},
        {"a": pyarrow.timestamp("us", "UTC")},
    ):
        assert_same(tmp_path / "a.avro", data, kinds, records)


@pytest.mark.parametrize(
    "kind", [Types.INSTANT(), Types.BIG_DEC(), Types.SQL_TIMESTAMP(), Types.LONG(), Types.STRING(), Types.SQL_DATE()]
)
def test_columns_of_declared_types_are_those_of_rows(tmp_path: Path, kind: Any) -> None:
    """A declared type converts values, such as a big decimal to its text."""
    for name in ("timestamp-micros", "local-timestamp-micros", "decimal", "string", "long", "date"):
        path = tmp_path / "a.avro"
        path.write_bytes(written({"f": KINDS[name][0]}, [{"f": value} for value in KINDS[name][1]]))
        split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(Types.ROW_NAMED(["f"], [kind]))
        assert outcome(batches, AvroFormat(), split, columns) == outcome(rows, AvroFormat(), split, columns)


class OneSchema:
    def __call__(self, path: str) -> pyarrow.Schema:
        return pyarrow.schema({"s": pyarrow.string(), "i": pyarrow.int64()})


@pytest.mark.parametrize("fields", [{"i": "long", "s": "string"}, {"i": "long", "s": "string", "l": KINDS["array"][0]}])
def test_positions_inside_batches(tmp_path: Path, fields: dict[str, Any]) -> None:
    """A restart would read records again, or leave some out."""
    records = [{"i": number, "s": str(number), "l": [number]} for number in range(60)]
    (tmp_path / "a.avro").write_bytes(written(fields, records, sync_interval=30))
    through = ThroughColumns(AvroFormat(), OneSchema(), False)
    check_source(lambda: FileSource.for_record_stream_format(through, tmp_path).build(), max_records=4)


def test_the_usual_types_are_read_without_records() -> None:
    """Each block would be read by records, which takes several times longer, with the same result."""
    fields = {name: kind for name, (kind, _, _) in KINDS.items() if name not in ("uuid", "array", "map", "union")}
    del fields["null"]
    schema = fastavro.parse_schema(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}
    )
    kinds = {name: KINDS[name][2][0] for name in fields}
    kinds |= {name: pyarrow.timestamp("us") for name in fields if name.startswith("local")}
    columns = RecordColumns(pyarrow.schema(list(kinds.items())))
    records = [{name: random.Random(number).choice(KINDS[name][1]) for name in fields} for number in range(20)]
    streams = [io.BytesIO() for _ in records]
    for stream, record in zip(streams, records, strict=True):
        fastavro.schemaless_writer(stream, schema, record)
    messages = [stream.getvalue() for stream in streams]
    found = DatumColumns(columns, schema)
    expected = repr(columns.batch_of([fastavro.schemaless_reader(io.BytesIO(one), schema) for one in messages]))
    assert repr(found.batch_of_messages(messages)) == expected
    assert repr(found.batch_of_blocks([(5, b"".join(messages[:5])), (15, b"".join(messages[5:]))])) == expected
    # A message too short, and the next too long by the same bytes.
    moved = [messages[0][:-1], messages[0][-1:] + messages[1]]
    assert found.batch_of_messages(moved) is None
    assert found.batch_of_messages([]).num_rows == 0  # type: ignore[union-attr]


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    """The field would be null in all records."""
    (tmp_path / "a.avro").write_bytes(written({"f": "long"}, [{"f": 1}]))
    columns = RecordColumns(pyarrow.schema({"missing": pyarrow.int64()}))
    with pytest.raises(SourceError, match=r"a\.avro, record 1: cannot convert .* to columns: .*missing"):
        batches(AvroFormat(), FileSplit(str(tmp_path / "a.avro"), 0, None, 0), columns)
