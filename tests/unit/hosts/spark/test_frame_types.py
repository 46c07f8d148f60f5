"""Columns of a DataFrame as types of a stream, and the values of its files as values of these types."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.sql import types as spark

from penstock.common import Instant, Row, Types
from penstock.common.errors import ProgramError
from penstock.connectors.files.source import FileSource
from penstock.hosts.spark.frames.column_types import row_type_of, schema_in_spark, type_in_spark
from penstock.hosts.spark.frames.source import format_of
from penstock.testing.conformance.source import read_all

BEFORE_1970 = datetime.datetime(1969, 12, 31, 23, 59, 59, 250_000)
MOMENT = Instant(-1, 250_000_000)
ZONES = [None, "UTC", "Etc/UTC", "Europe/Zurich"]


@pytest.mark.parametrize("zone", ZONES)
def test_values_at_any_depth(tmp_path: Path, zone: str | None) -> None:
    """A time in a list, or a struct in a map, would stay as Arrow has it: a program would meet a dict, and no Row."""
    inner = Types.ROW_NAMED(["at", "n"], [Types.INSTANT(), Types.LONG()])
    names = ["at", "list", "map", "plain"]
    types = [Types.INSTANT(), Types.LIST(inner), Types.MAP(Types.INSTANT(), inner), Types.LIST(Types.LONG())]
    moments = pa.timestamp("us", zone)
    struct = pa.struct([("at", moments), ("n", pa.int64())])
    in_files = [moments, pa.list_(struct), pa.map_(moments, struct), pa.list_(pa.int64())]
    first = {"at": BEFORE_1970, "list": [{"at": BEFORE_1970, "n": 1}, None], "map": [(BEFORE_1970, None)]}
    if zone is not None:
        first = _in_utc(first)
    rows = [{**first, "plain": [1, None]}, dict.fromkeys(names)]
    schema = pa.schema(list(zip(names, in_files, strict=True)))
    pq.write_table(pa.Table.from_pylist(rows, schema), tmp_path / "a.parquet")

    format_of_frame = format_of(Types.ROW_NAMED(names, types))
    made, nothing = read_all(FileSource.for_bulk_file_format(format_of_frame, tmp_path).build(), 1)
    assert made.at == MOMENT
    assert made.list == [Row(at=MOMENT, n=1), None]
    assert made.map == {MOMENT: None}
    assert made.plain == [1, None]
    assert nothing.as_dict() == dict.fromkeys(names)


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC)
    if isinstance(value, dict):
        return {name: _in_utc(item) for name, item in value.items()}
    return type(value)(map(_in_utc, value)) if isinstance(value, (list, tuple)) else value


SINGLE = [
    (spark.BooleanType(), Types.BOOLEAN()),
    (spark.ByteType(), Types.BYTE()),
    (spark.ShortType(), Types.SHORT()),
    (spark.IntegerType(), Types.INT()),
    (spark.LongType(), Types.LONG()),
    (spark.FloatType(), Types.FLOAT()),
    (spark.DoubleType(), Types.DOUBLE()),
    (spark.DecimalType(20, 2), Types.BIG_DEC()),
    (spark.StringType(), Types.STRING()),
    (spark.CharType(3), Types.STRING()),
    (spark.VarcharType(3), Types.STRING()),
    (spark.BinaryType(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    (spark.DateType(), Types.SQL_DATE()),
    (spark.TimeType(), Types.SQL_TIME()),
    (spark.TimestampType(), Types.INSTANT()),
    (spark.TimestampNTZType(), Types.SQL_TIMESTAMP()),
]


@pytest.mark.parametrize(("kind", "expected"), SINGLE, ids=str)
def test_the_type_of_a_column(kind: spark.DataType, expected: Any) -> None:
    """A stream would have values of another type than it declares, also inside of structs, arrays and maps."""
    nested = spark.StructType([spark.StructField("a", spark.ArrayType(kind))])
    schema = spark.StructType(
        [spark.StructField("x", kind), spark.StructField("m", spark.MapType(spark.StringType(), nested))]
    )
    inside = Types.ROW_NAMED(["a"], [Types.LIST(expected)])
    assert row_type_of(schema) == Types.ROW_NAMED(["x", "m"], [expected, Types.MAP(Types.STRING(), inside)])


class Point(spark.UserDefinedType):
    """A class of the user in a column of text."""

    @classmethod
    def sqlType(cls) -> spark.DataType:  # noqa: N802 - Spark's name
        return spark.StringType()


@pytest.mark.parametrize(
    "kind",
    [spark.NullType(), spark.DayTimeIntervalType(), spark.YearMonthIntervalType(), spark.VariantType(), Point()],
    ids=str,
)
def test_a_column_without_a_type_is_named(kind: spark.DataType) -> None:
    """The job would start, and its functions receive the bytes by which Spark stores such values."""
    nested = spark.StructType([spark.StructField("a", spark.ArrayType(kind))])
    with pytest.raises(ProgramError, match=r"its column x\.a\[\] has the type .*, for which a stream has no type"):
        row_type_of(spark.StructType([spark.StructField("x", nested)]))


def test_which_columns_spark_has() -> None:
    """A state of instants could not be a DataFrame, or one of a type that Spark lacks would fail in the middle."""
    moments = pa.timestamp("us", "UTC")
    for kind in (moments, pa.list_(pa.struct([("at", moments)])), pa.string()):
        assert type_in_spark(kind) == kind
    assert type_in_spark(pa.time64("us")) == pa.time64("ns")
    assert type_in_spark(pa.month_day_nano_interval()) is None and type_in_spark(pa.uint64()) is None
    assert schema_in_spark(pa.schema([("at", moments)]))["at"].dataType == spark.TimestampType()
