"""Files of lines from batches of columns, byte for byte those of the same records."""

from __future__ import annotations

import dataclasses
import io
import itertools
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pyarrow
import pytest
from tests.unit.connectors.file_sinks import all_prepared, checkpointed, visible_files

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.serialization import Encoder
from penstock.common.typeinfo import TypeInformation, Types
from penstock.connectors.files.formats.csv_format import CsvWriterFactory
from penstock.connectors.files.sink import BucketAssigner, FileSink, RollingPolicy
from penstock.connectors.files.sink.sink import RowFormatBuilder
from penstock.connectors.formats.csv_schema import CsvSchema, CsvSchemaBuilder
from penstock.testing.conformance.sink import SimpleSinkContext

RANDOM = random.Random(7)
CHARACTERS = [
    "a",
    "é",
    "😀",
    '"',
    "'",
    ",",
    ";",
    "\t",
    "\\",
    "\n",
    "\r",
    "\x00",
    "\x1f",
    "\x7f",
    "\u2028",
    "#",
    "\ufeff",
]
TEXTS = [
    "", " ", "plain", "null", "nan", "inf", "NaN", "#", "#x", 'a"b', '"', "a,b", "\r\n", "\ufeff", "\ufeffx,y",
    "x\ufeff",
    *("".join(RANDOM.choices(CHARACTERS, k=RANDOM.randrange(5))) for _ in range(300)),
]  # fmt: skip
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.1, 1e-4, 9.9e-5, 1e-5, 1e-7, 9999999999.0, 9999999999.5, 1e10, 1e15, 1e16, 1e22, 2.0**53),
    *(5e-324, 1.7976931348623157e308, float("nan"), float("inf"), float("-inf")),
    *(sign * 10 ** RANDOM.uniform(-30, 30) for sign in (-1, 1) for _ in range(200)),
    *(round(RANDOM.uniform(-1e6, 1e6), RANDOM.randrange(6)) for _ in range(200)),
    *numpy.frombuffer(b"\1\0\0\0\0\0\xf0\x7f" + RANDOM.randbytes(8 * 500)).tolist(),
]
USUAL_TIMES = [
    datetime(1, 1, 1),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 29, 12),
    datetime(2024, 2, 29, 12, 0, 0, 120_000),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
IN_SECONDS = [moment.replace(microsecond=0) for moment in USUAL_TIMES]
COLUMNS: dict[str, tuple[pyarrow.DataType, list[Any]]] = {
    "text": (pyarrow.string(), TEXTS),
    "plain text": (pyarrow.string(), ["a", "b c", "é"]),
    "large text": (pyarrow.large_string(), TEXTS),
    "float": (pyarrow.float64(), FLOATS),
    "usual float": (pyarrow.float64(), [1.5, 0.25, -3.125]),
    "narrow float": (pyarrow.float32(), [0.1, 1.0, 3e38, 1e-5, float("nan"), float("-inf")]),
    "int": (pyarrow.int64(), [0, -1, 2**63 - 1, -(2**63)]),
    "small int": (pyarrow.int32(), [0, -(2**31), 2**31 - 1]),
    "byte": (pyarrow.int8(), [0, -128, 127]),
    "unsigned": (pyarrow.uint64(), [0, 2**64 - 1]),
    "bool": (pyarrow.bool_(), [True, False]),
    "date": (pyarrow.date32(), [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]),
    "date of milliseconds": (pyarrow.date64(), [date(1, 1, 1), date(2024, 2, 29)]),
    "timestamp": (pyarrow.timestamp("us"), USUAL_TIMES),
    "milliseconds": (pyarrow.timestamp("ms"), [USUAL_TIMES[3], *IN_SECONDS]),
    "seconds": (pyarrow.timestamp("s"), IN_SECONDS),
    "nanoseconds": (pyarrow.timestamp("ns"), USUAL_TIMES[1:4]),
    "utc": (pyarrow.timestamp("us", "UTC"), [moment.replace(tzinfo=UTC) for moment in USUAL_TIMES[1:4]]),
    "time": (pyarrow.time64("us"), [time(), time(1, 2, 3), time(23, 59, 59, 999999)]),
    "decimal": (pyarrow.decimal128(20, 8), [Decimal("1.5"), Decimal("-0.00000001"), Decimal(0), Decimal(12)]),
    "bytes": (pyarrow.binary(), [b"", b"a", b"\x00\xff\xfe"]),
}


def shuffled(*names: str, nulls: bool = True, rows: int = 1_500) -> pyarrow.RecordBatch:
    """Return a batch in which all values of each column are next to those of others."""
    arrays = {}
    for name in names:
        kind, values = COLUMNS[name]
        chosen = [*values, *RANDOM.choices([*values, None] if nulls else values, k=rows)][:rows]
        RANDOM.shuffle(chosen)
        arrays[name] = pyarrow.array(chosen, kind)
    # A slice: what is outside is not written, though it is in memory.
    return pyarrow.RecordBatch.from_pydict(arrays).slice(3, rows - 5)


BATCHES = [shuffled(name, nulls=nulls) for name in COLUMNS for nulls in (True, False)] + [
    shuffled(*COLUMNS),
    shuffled("text", "int", "float", "bool"),
    shuffled("int", "text"),
    shuffled("int", "usual float", "plain text", nulls=False),
    shuffled("int").slice(0, 0),
]


def assert_same_lines(encoder: Encoder, batch: pyarrow.RecordBatch, columns: RecordColumns | None = None) -> None:
    """Compare the lines of a batch with those of its records."""
    columns = columns or RecordColumns(batch.schema)
    assert encoder.takes_columns(columns)
    expected = [encoder.encode(record) for record in columns.reader()(batch)]
    data, ends = encoder.encode_columns(batch)
    assert data == b"".join(expected)
    assert list(ends) == list(itertools.accumulate(map(len, expected)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: "+".join(batch.schema.names)[:40])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"delimiter": ";", "quote_char": "'"},
        {"delimiter": "-", "null_value": "null"},
        {"delimiter": ".", "null_value": "a.b"},
        {"delimiter": "e", "null_value": "#"},
        {"delimiter": "\t", "quote_char": "N", "null_value": "\ufeffN"},
        {"delimiter": ":", "quote_char": "1", "null_value": '"'},
    ],
    ids=str,
)
def test_csv_of_columns_is_that_of_records(batch: pyarrow.RecordBatch, options: dict[str, Any]) -> None:
    """A file would have other bytes because its job runs on columns, or values that are read as others."""
    assert_same_lines(Encoder.csv_encoder(batch.schema.names[::-1], **options), batch)


def test_csv_of_some_columns_is_that_of_records() -> None:
    """A file would have columns that nobody named."""
    batch = shuffled("int", "text", "float")
    assert_same_lines(Encoder.csv_encoder(["float"]), batch)
    assert_same_lines(Encoder.csv_encoder(["text", "int", "text"]), batch)


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: "+".join(batch.schema.names)[:40])
@pytest.mark.parametrize(
    "with_options",
    [
        CsvSchemaBuilder.set_use_header,
        CsvSchemaBuilder.set_allow_comments,
        lambda builder: builder.set_allow_comments().set_column_separator("|").set_null_value("#"),
    ],
    ids=["header", "comments", "null comments"],
)
def test_csv_files_of_columns_are_those_of_records(
    batch: pyarrow.RecordBatch, with_options: Callable[[CsvSchemaBuilder], CsvSchemaBuilder]
) -> None:
    """A record that begins with # would be a comment, or a header in the middle of a file."""
    builder = with_options(CsvSchema.builder())
    for name in batch.schema.names:
        builder.add_string_column(name)
    factory, columns = CsvWriterFactory(builder.build()), RecordColumns(batch.schema)
    assert factory.takes_columns(columns)
    found = []
    for elements in (columns.reader()(batch), batch):
        stream = io.BytesIO()
        writer = factory.create(stream)
        writer.add_elements(elements)
        writer.finish()
        found.append(stream.getvalue())
    assert found[0] == found[1]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: "+".join(batch.schema.names)[:40])
def test_json_of_columns_is_that_of_records(batch: pyarrow.RecordBatch) -> None:
    """A file would have other bytes because its job runs on columns, or lines that are not JSON."""
    assert_same_lines(Encoder.json_encoder(), batch)
    names = [f"{name} {''.join(CHARACTERS)}" for name in batch.schema.names]
    assert_same_lines(Encoder.json_encoder(), pyarrow.RecordBatch.from_arrays(batch.columns, names))


@dataclasses.dataclass
class Reading:
    """A record with fields by attribute."""

    key: str
    at: datetime
    n: int
    _share: float


class Pair(NamedTuple):
    """A record with fields by position, too."""

    key: str
    n: float


FIELDS: dict[str, TypeInformation] = {
    "key": Types.STRING(),
    "n": Types.INT(),
    "x": Types.FLOAT(),
    "on": Types.SQL_DATE(),
    "at": Types.SQL_TIMESTAMP(),
    "of day": Types.SQL_TIME(),
    "is": Types.BOOLEAN(),
    "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
KINDS: list[Any] = [Types.ROW_NAMED(list(FIELDS), list(FIELDS.values())), Reading, Pair]


def batch_of(kind: Any) -> tuple[RecordColumns, pyarrow.RecordBatch]:
    """Return a batch of columns of a declared type."""
    columns = RecordColumns(kind)
    values = dict(COLUMNS.values())
    arrays = [
        pyarrow.array([*itertools.islice(itertools.cycle(values[field.type]), 40), None], field.type)
        for field in columns.schema
    ]
    return columns, pyarrow.RecordBatch.from_arrays(arrays, schema=columns.schema)


@pytest.mark.parametrize("kind", KINDS, ids=["row", "dataclass", "tuple"])
def test_csv_of_declared_types_is_that_of_records(kind: Any) -> None:
    """A declared value would have the form of its column."""
    columns, batch = batch_of(kind)
    assert_same_lines(Encoder.csv_encoder(columns.names), batch, columns)
    if kind is not Reading:
        assert_same_lines(Encoder.csv_encoder(), batch, columns)


def test_a_text_that_is_not_utf_8_is_an_error() -> None:
    """A file would have bytes that its readers refuse."""
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array([b"a", b"\xff"]).view(pyarrow.string())], ["text"])
    for encoder in (Encoder.csv_encoder(["text"]), Encoder.json_encoder()):
        with pytest.raises(pyarrow.ArrowInvalid, match="UTF8"):
            encoder.encode_columns(batch)


@pytest.mark.parametrize("kind", KINDS[:2], ids=["row", "dataclass"])
def test_json_of_declared_types_is_that_of_records(kind: Any) -> None:
    """A declared value would have the form of its column."""
    columns, batch = batch_of(kind)
    assert_same_lines(Encoder.json_encoder(), batch, columns)


PLAIN = RecordColumns(pyarrow.schema({"a": pyarrow.int64()}))


@pytest.mark.parametrize(
    ("encoder", "columns"),
    [
        (Encoder.csv_encoder(), PLAIN),
        (Encoder.csv_encoder(["a", "b"]), PLAIN),
        (Encoder.csv_encoder(["a"], quote_char=None), PLAIN),
        (Encoder.csv_encoder(["a"], escape_char="\\"), PLAIN),
        (Encoder.csv_encoder(["a"], delimiter="·"), PLAIN),
        (Encoder.csv_encoder(["a"], charset_name="UTF-16LE"), PLAIN),
        (Encoder.csv_encoder(["a"]), RecordColumns(pyarrow.schema({"a": pyarrow.list_(pyarrow.int64())}))),
        (Encoder.csv_encoder(["a"]), RecordColumns(pyarrow.schema({"a": pyarrow.duration("us")}))),
        (Encoder.csv_encoder(["a"]), RecordColumns(Types.ROW_NAMED(["a"], [Types.INSTANT()]))),
        (Encoder.csv_encoder(["a"]), RecordColumns(Types.ROW_NAMED(["a"], [Types.BIG_DEC()]))),
        (Encoder.simple_string_encoder(), PLAIN),
        (Encoder.json_encoder(), RecordColumns(Pair)),
        (Encoder.json_encoder(), RecordColumns(pyarrow.schema({"a": pyarrow.struct({"b": pyarrow.int64()})}))),
        (Encoder.json_encoder(), RecordColumns(Types.ROW_NAMED(["a"], [Types.BIG_INT()]))),
    ],
)
def test_records_whose_lines_are_not_those_of_columns(encoder: Encoder, columns: RecordColumns) -> None:
    """A value would be written in the form that it has in columns, or a record without an error."""
    assert not encoder.takes_columns(columns)


def test_csv_schemas_whose_lines_are_not_those_of_columns() -> None:
    """A list would be written as if it were a text, or a record as a comment."""
    array = CsvSchema.builder().add_array_column("a").build()
    comments = CsvSchema.builder().add_string_column("a").set_allow_comments().set_quote_char("#").build()
    other = CsvSchema.builder().add_string_column("b").build()
    for schema in (array, comments, other):
        assert not CsvWriterFactory(schema).takes_columns(PLAIN)


def files_of(builder: RowFormatBuilder, path: Path, chunks: list[Any]) -> list[bytes]:
    """Return what is in the files of a sink that fails behind a checkpoint: its last two chunks are written again."""
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    writer = sink.create_writer(SimpleSinkContext())
    write_chunks(writer, chunks[:-2])
    committables, state = checkpointed(writer)
    sink.create_committer().commit(committables)
    write_chunks(writer, chunks[-2:])
    writer = sink.restore_writer(SimpleSinkContext(), state)
    write_chunks(writer, chunks[-2:])
    sink.create_committer().commit(all_prepared(writer))
    writer.close()
    return sorted(path.read_bytes() for path in visible_files(path))


def write_chunks(writer: Any, chunks: list[Any]) -> None:
    """Write lists of records, or batches."""
    for chunk in chunks:
        if isinstance(chunk, list):
            writer.write_chunk(chunk, None)
        else:
            writer.write_columns(chunk)


LINE_ENCODERS = [Encoder.csv_encoder(["text", "int"], delimiter=";"), Encoder.json_encoder()]


@pytest.mark.parametrize("encoder", LINE_ENCODERS, ids=["csv", "json"])
@pytest.mark.parametrize("part_size", [1, 40, 4_000, 1_000_000])
@pytest.mark.parametrize("codec", [None, "gzip"])
def test_files_of_columns_end_behind_the_record_that_reached_the_size(
    tmp_path: Path, encoder: Encoder, part_size: int, codec: str | None
) -> None:
    """Files would have other records because their job runs on columns, end within one, or have one twice."""
    batches = [shuffled("text", "int", rows=rows) for rows in (5, 300, 40)]
    read = RecordColumns(batches[0].schema).reader()
    found = []
    for name, chunks in (("rows", [*map(read, batches)]), ("columns", batches)):
        builder = FileSink.for_row_format(tmp_path / name, encoder)
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=part_size))
        if codec is not None:
            builder.with_compression(codec)
        found.append(files_of(builder, tmp_path / name, chunks))
    assert found[0] == found[1] and (len(found[0]) > 1) == (part_size < 1_000_000)
