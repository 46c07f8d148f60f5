"""Files of columns that were written over years, read as one row type: columns added and dropped, types widened."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from penstock.common import Instant, Types
from penstock.common.columns.fitting_types import check_fits
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.common.types import Row
from penstock.common.types.type_hints import from_hint
from penstock.connectors.files.formats.format import BatchFormat
from penstock.connectors.files.source import BulkFormat, FileSource
from penstock.connectors.files.split import FileSplit
from penstock.datastream.formats.parquet import ParquetColumnarRowInputFormat
from penstock.testing.conformance.source import check_source, read_all

NOW = Types.ROW_NAMED(
    ["n", "gate", "fare", "legs"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.DOUBLE(),
        Types.LIST(Types.ROW_NAMED(["to", "miles"], [Types.STRING(), Types.LONG()])),
    ],
)
FORMATS = [(pq.write_table, BulkFormat.parquet_format), (orc.write_table, BulkFormat.orc_format)]
both = pytest.mark.parametrize(("write", "make_format"), FORMATS, ids=["parquet", "orc"])
LEG = pa.struct([("to", pa.string()), ("price", pa.int16())])


def read(path: Path, bulk_format: BatchFormat) -> list[Any]:
    return read_all(FileSource.for_bulk_file_format(bulk_format, path).build(), 1)


@both
def test_files_of_all_versions_of_a_table(
    tmp_path: Path, write: Callable[..., None], make_format: Callable[..., BatchFormat]
) -> None:
    """A job would fail at the first file from before the last change of its table."""
    former = pa.schema([("dropped", pa.string()), ("n", pa.int16()), ("fare", pa.float32()), ("legs", pa.list_(LEG))])
    legs = [{"to": "LGA", "price": 1}]
    write(pa.table([["x", "y"], [1, None], [0.5, None], [legs, None]], schema=former), tmp_path / "a")
    newer = pa.schema([("gate", pa.string()), ("n", pa.int64())])
    write(pa.table([["B2"], [1 << 40]], schema=newer), tmp_path / "b")
    write(pa.table({"other": [1, 2]}), tmp_path / "c")
    nothing = {"n": None, "gate": None, "fare": None, "legs": None}

    assert read(tmp_path, make_format(NOW)) == [
        {**nothing, "n": 1, "fare": 0.5, "legs": [{"to": "LGA", "miles": None}]},
        nothing,
        {**nothing, "n": 1 << 40, "gate": "B2"},
        nothing,
        nothing,
    ]
    rows = read(tmp_path, make_format(NOW, as_row=True))
    assert rows[0] == Row(n=1, gate=None, fare=0.5, legs=[Row(to="LGA", miles=None)])
    assert make_format(NOW, as_row=True).get_produced_type() == NOW
    check_source(lambda: FileSource.for_bulk_file_format(make_format(NOW), tmp_path).build(), parallelisms=(1,))


@both
def test_what_can_not_be_reconciled_is_said_before_the_job_starts(
    tmp_path: Path, write: Callable[..., None], make_format: Callable[..., BatchFormat]
) -> None:
    """The job would fail hours later, at the first value that does not fit, or change it."""
    write(pa.table({"n": pa.array([1], pa.int64()), "fare": pa.array(["high"])}), tmp_path / "a")
    for name, kind, stored in (("n", Types.INT(), "int64"), ("fare", Types.DOUBLE(), "string")):
        source = FileSource.for_bulk_file_format(make_format(Types.ROW_NAMED([name], [kind])), tmp_path).build()
        with pytest.raises(SourceError, match=rf"/a: the column {name} has the type {stored}, whose values .* {kind}"):
            source.validate()
    with pytest.raises(SourceError, match=r"lacks the column gate: its columns are n, fare\. Pass a Types.ROW_NAMED"):
        FileSource.for_bulk_file_format(make_format(["gate"]), tmp_path).build().validate()


def test_pyflinks_format_reads_its_row_type(tmp_path: Path) -> None:
    """Programs of PyFlink would get what the files hold, and not what they declare."""
    pq.write_table(pa.table({"n": pa.array([7], pa.int32()), "fare": pa.array([1], pa.int8())}), tmp_path / "a")
    assert read(tmp_path, ParquetColumnarRowInputFormat(NOW)) == [Row(n=7, gate=None, fare=1.0, legs=None)]
    assert ParquetColumnarRowInputFormat(NOW).get_produced_type() == NOW


@pytest.mark.parametrize("text", ["1_000", "\u0661\u0662", "\uff11", "NaN", "Infinity"])
@pytest.mark.parametrize("declared", [Types.BIG_INT(), Types.BIG_DEC()], ids=str)
def test_a_text_that_only_python_takes_for_a_number_is_named(
    tmp_path: Path, text: str, declared: TypeInformation
) -> None:
    """Texts would become other numbers than in all other programs, or Decimals that are not numbers."""
    pq.write_table(pa.table({"amount": ["12", text]}), tmp_path / "a")
    with pytest.raises(SourceError, match=r"row 2, column 'amount' .*the value does not fit the declared type"):
        read(tmp_path, BulkFormat.parquet_format(Types.ROW_NAMED(["amount"], [declared])))


def test_a_value_that_its_type_has_not_is_named(tmp_path: Path) -> None:
    """It would be an error of Python's without a column."""
    pq.write_table(pa.table({"amount": ["12", "much"]}), tmp_path / "a")
    with pytest.raises(SourceError, match=r"column 'amount' .*the value does not fit the declared type.*much"):
        read(tmp_path, BulkFormat.parquet_format(Types.ROW_NAMED(["amount"], [Types.BIG_INT()])))


class Leg(NamedTuple):
    """A nested record of a class."""

    to: str
    miles: int


NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 250_000)
ROW = Types.ROW_NAMED(["a", "b"], [Types.DOUBLE(), Types.INT()])
MOMENT = Instant(int(NOON.replace(tzinfo=dt.UTC).timestamp()), 250_000_000)
HELD: list[tuple[pa.DataType, Any, TypeInformation, Any]] = [
    (pa.uint32(), 1, Types.LONG(), 1),
    (pa.int32(), 1, Types.DOUBLE(), 1.0),
    (pa.int16(), 1, Types.FLOAT(), 1.0),
    (pa.float16(), 0.5, Types.FLOAT(), 0.5),
    (pa.uint64(), 1 << 63, Types.BIG_INT(), 1 << 63),
    (pa.decimal128(20, 0), Decimal(10**19), Types.BIG_INT(), 10**19),
    (pa.string(), "-1.50", Types.BIG_DEC(), Decimal("-1.50")),
    (pa.decimal128(5, 2), Decimal("1.50"), Types.BIG_DEC(), Decimal("1.50")),
    (pa.int64(), 3, Types.BIG_DEC(), Decimal(3)),
    (pa.large_string(), "a", Types.STRING(), "a"),
    (pa.dictionary(pa.int8(), pa.string()), "a", Types.STRING(), "a"),
    (pa.bool_(), True, Types.BOOLEAN(), True),
    (pa.date32(), NOON.date(), Types.SQL_DATE(), NOON.date()),
    (pa.date32(), NOON.date(), Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2)),
    (pa.timestamp("ms"), NOON, Types.SQL_TIMESTAMP(), NOON),
    (pa.timestamp("us", "UTC"), NOON, Types.SQL_TIMESTAMP(), NOON.replace(tzinfo=dt.UTC)),
    (pa.timestamp("us"), NOON, Types.INSTANT(), MOMENT),
    (pa.timestamp("us", "UTC"), NOON, Types.INSTANT(), MOMENT),
    (pa.timestamp("us", "+02:00"), NOON, Types.INSTANT(), MOMENT),
    (pa.time32("s"), dt.time(1), Types.SQL_TIME(), dt.time(1)),
    (pa.large_binary(), b"a", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"a"),
    (pa.list_(pa.int8()), [1, None], Types.BASIC_ARRAY(Types.DOUBLE()), [1.0, None]),
    (pa.map_(pa.int8(), pa.int8()), [(1, 2)], Types.MAP(Types.LONG(), Types.DOUBLE()), {1: 2.0}),
    (pa.struct([("a", pa.int8()), ("c", pa.int8())]), {"a": 1, "c": 2}, ROW, Row(a=1.0, b=None)),
    (pa.struct([("f1", pa.int8())]), {"f1": 1}, Types.TUPLE([Types.STRING(), Types.INT()]), (None, 1)),
    (pa.struct([("f0", pa.int8())]), {"f0": 1}, Types.ROW([Types.LONG()]), Row(1)),
    (pa.struct([("to", pa.string()), ("miles", pa.int8())]), {"to": "LGA", "miles": 9}, from_hint(Leg), Leg("LGA", 9)),
    (pa.struct([("a", pa.int8())]), {"a": 1}, Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]), Row(a=1)),
    (pa.timestamp("s"), 253_402_300_800, Types.INSTANT(), Instant(253_402_300_800, 0)),
    (pa.null(), None, ROW, None),
    (pa.struct([("a", pa.int8())]), {"a": 1}, Types.PICKLED_BYTE_ARRAY(), {"a": 1}),
]


@pytest.mark.parametrize(("stored", "value", "declared", "expected"), HELD, ids=str)
def test_types_that_hold_all_values_of_another(
    tmp_path: Path, stored: pa.DataType, value: Any, declared: TypeInformation, expected: Any
) -> None:
    """A value would change, or be of a type that the next operator does not expect."""
    pq.write_table(pa.table({"v": pa.array([value, None], stored)}), tmp_path / "a")
    got = read(tmp_path, BulkFormat.parquet_format(RowTypeInfo([declared], ["v"]), as_row=True))
    assert [row["v"] for row in got] == [expected, None]
    assert type(got[0]["v"]) is type(expected)


REFUSED: list[tuple[pa.DataType, TypeInformation]] = [
    (pa.int32(), Types.SHORT()),
    (pa.uint64(), Types.LONG()),
    (pa.uint8(), Types.BYTE()),
    (pa.int64(), Types.DOUBLE()),
    (pa.int32(), Types.FLOAT()),
    (pa.float64(), Types.FLOAT()),
    (pa.float32(), Types.LONG()),
    (pa.float64(), Types.BIG_DEC()),
    (pa.decimal128(5, 2), Types.BIG_INT()),
    (pa.decimal128(5, 2), Types.DOUBLE()),
    (pa.bool_(), Types.INT()),
    (pa.int8(), Types.BOOLEAN()),
    (pa.int8(), Types.STRING()),
    (pa.binary(), Types.STRING()),
    (pa.string(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (pa.timestamp("us"), Types.SQL_DATE()),
    (pa.time64("us"), Types.SQL_TIMESTAMP()),
    (pa.date32(), Types.INSTANT()),
    (pa.int64(), Types.LIST(Types.LONG())),
    (pa.list_(pa.int64()), Types.LIST(Types.INT())),
    (pa.map_(pa.string(), pa.string()), Types.LIST(Types.STRING())),
    (pa.list_(pa.string()), Types.MAP(Types.STRING(), Types.STRING())),
    (pa.struct([("a", pa.string())]), ROW),
    (pa.string(), ROW),
]


@pytest.mark.parametrize(("stored", "declared"), REFUSED, ids=str)
def test_types_that_do_not(stored: pa.DataType, declared: TypeInformation) -> None:
    """A value would be cut silently."""
    with pytest.raises(ValueError, match=r"the column v\S* .*has the type .* do not fit the declared type"):
        check_fits(stored, declared, "v")


@both
@pytest.mark.parametrize(
    ("column", "row", "reason"),
    [
        (pa.field("n", pa.int8()), 3, "column 'n' .int8.: Value 300 too large"),
        (pa.field("n", pa.int64(), nullable=False), 3, "column 'n' .int64.: the schema does not allow None"),
        (pa.field("s", pa.int64()), 1, "column 's' .int64.: 'a' is not a whole number"),
    ],
)
def test_a_row_that_is_not_of_the_columns_is_named(
    tmp_path: Path, write: Any, make_format: Any, column: pa.Field, row: int, reason: str
) -> None:
    """The user would have to find the row, without the name of the file, below forty lines about pyarrow."""
    path = tmp_path / "a"
    write(pa.table({"n": [1, 2, 300 if column.nullable else None], "s": ["a", "b", "c"]}), str(path))
    kind = Types.ROW_NAMED(["n", "s"], [Types.LONG(), Types.STRING()])
    batches = make_format(kind, as_row=True).on_columns(RecordColumns(pa.schema([column])))
    with pytest.raises(SourceError, match=f"/a, row {row}: cannot convert .* to columns: .*{reason}"):
        list(batches.read(FileSplit(str(path), 0, None, 0), [].append))


@both
def test_columns_that_are_not_selected_are_not_read(write: Any, make_format: Any) -> None:
    """A typo in `as_columns` would be an error about empty columns, or rows would lack a field that columns have."""
    for selected in (Types.ROW_NAMED(["n"], [Types.LONG()]), ["n"]):
        records = make_format(selected, as_row=True)
        for names in (["t"], ["n", "t"]):
            assert records.on_columns(RecordColumns(pa.schema({name: pa.int64() for name in names}))) is None
