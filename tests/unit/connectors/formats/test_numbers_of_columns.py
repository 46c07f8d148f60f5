"""Columns refuse what would be written as another value: fractions as whole numbers, times as days, texts as lists."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

from penstock.common import Row, Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import TypeInformation

MOMENT = dt.datetime(2020, 1, 2, 3, 4, 5, 123456)
ZONED = MOMENT.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
INNER = Types.ROW_NAMED(["x"], [Types.INT()])


def columns(kind: TypeInformation) -> RecordColumns:
    """Return a single column, as a worker has it."""
    return pickle.loads(pickle.dumps(RecordColumns(Types.ROW_NAMED(["a"], [kind]))))  # type: ignore[no-any-return]


def written(kind: TypeInformation, value: Any) -> Any:
    """What Parquet, ORC and tables would hold."""
    made = columns(kind)
    return made.batch(made.of([(value,), (None,)])).to_pylist()[0]["a"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.INT(), 1.5), (Types.LONG(), 1.5), (Types.INT(), Decimal("1.5")), (Types.INT(), "1"),
        (Types.INT(), float("nan")), (Types.LIST(Types.INT()), [1, 1.5]), (INNER, Row(x=1.5)),
        (Types.LIST(INNER), [Row(x=1.5)]), (Types.MAP(Types.STRING(), Types.INT()), {"k": 1.5}),
    ],
)  # fmt: skip
def test_a_fraction_is_refused(kind: TypeInformation, value: Any) -> None:
    """1.5 would silently be 1 in the file."""
    with pytest.raises(TypeError, match=r"column 'a' \(.*\): .* is not a whole number"):
        written(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Types.INT(), 1, 1), (Types.INT(), 1.0, 1), (Types.LONG(), np.int64(7), 7), (Types.INT(), None, None),
        (Types.LIST(Types.INT()), [1, 2.0], [1, 2]), (INNER, Row(x=3), {"x": 3}), (Types.DOUBLE(), 1, 1.0),
        (Types.MAP(Types.STRING(), Types.INT()), {"k": 1}, [("k", 1)]),
    ],
)  # fmt: skip
def test_what_is_whole_is_written(kind: TypeInformation, value: Any, read: Any) -> None:
    """Numbers that went through pandas are floats, and those of numpy no ints of Python."""
    assert written(kind, value) == read


def test_a_bool_and_what_is_too_large_are_refused() -> None:
    """They would be other numbers in the file."""
    for value in (True, 1 << 31):
        with pytest.raises(TypeError, match="column 'a'"):
            written(Types.INT(), value)


def test_columns_by_a_schema_of_arrow() -> None:
    """They have no types of penstock that could look at the values."""
    made = RecordColumns(pyarrow.schema([("a", pyarrow.int64()), ("b", pyarrow.struct([("x", pyarrow.int8())]))]))
    assert made.batch(made.of([{"a": 1, "b": {"x": 2}}])).to_pylist() == [{"a": 1, "b": {"x": 2}}]
    for record in ({"a": 1.5}, {"a": 1, "b": {"x": 2.5}}):
        with pytest.raises(TypeError, match="is not a whole number"):
            made.batch(made.of([record]))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.FLOAT(), 1e39), (Types.FLOAT(), -1e39), (Types.LIST(Types.FLOAT()), [1.0, 1e39]),
        (Types.ROW_NAMED(["x"], [Types.FLOAT()]), Row(x=1e39)), (Types.MAP(Types.STRING(), Types.FLOAT()), {"k": 1e39}),
    ],
)  # fmt: skip
def test_a_number_beyond_32_bits_is_refused(kind: TypeInformation, value: Any) -> None:
    """It would silently be infinity in the file."""
    with pytest.raises(TypeError, match=r"column 'a' \(.*\): -?1e\+39 is too large for a FLOAT"):
        written(kind, value)


@pytest.mark.parametrize("value", [1.5, 3.4028234663852886e38, float("inf"), None, 3, np.float32(2.5)])
def test_what_32_bits_hold_is_written(value: Any) -> None:
    """Infinity is one of them, and says so."""
    assert written(Types.FLOAT(), value) == value


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (Types.SQL_DATE(), dt.datetime(2020, 1, 2, 3), "is not a date"),
        (Types.BIG_INT(), 1.5, "is not a whole number"),
        (Types.BIG_DEC(), "abc", "is not a number"), (Types.BIG_DEC(), True, "is not a number"),
        (Types.BIG_DEC(), Fraction(1, 3), "is not a number"), (Types.SQL_DATE(), 5, "is not a date"),
        (Types.SQL_TIMESTAMP(), dt.date(2020, 1, 2), "is not a datetime"),
        (Types.LIST(Types.STRING()), "abc", "is not a list"),
        (Types.LIST(Types.INT()), "12", "is not a list"),
        (Types.MAP(Types.INT(), Types.INT()), {1.2: 1}, "is not a whole"),
        (Types.LIST(Types.SQL_DATE()), [MOMENT], "is not a date"),
        (Types.LIST(Types.BIG_INT()), [1.5], "is not a whole"),
        (Types.SQL_TIME(), MOMENT, "is not a time of day"), (Types.SQL_TIME(), ZONED.timetz(), "zone"),
        (Types.LIST(Types.SQL_TIME()), [ZONED.timetz()], "zone"), (Types.LIST(Types.BIG_DEC()), ["x"], "not a n"),
        (Types.SQL_TIMESTAMP(), pd.Timestamp("2020-01-01 00:00:00.123456789"), "has nanoseconds"),
    ],
)  # fmt: skip
def test_what_would_lose_a_part_is_refused(kind: TypeInformation, value: Any, told: str) -> None:
    """A day would stand for a moment, letters for a list, and of two keys of a map one would be left."""
    with pytest.raises(TypeError, match=rf"column 'a' \(.*\): .*{told}"):
        written(kind, value)


def test_unbounded_numbers_and_days_are_written() -> None:
    """Values of just the declared type would be refused with those that are not."""
    assert written(Types.BIG_INT(), 1 << 80) == str(1 << 80)
    assert written(Types.BIG_DEC(), Decimal("1.50")) == "1.50"
    assert written(Types.SQL_DATE(), dt.date(2020, 1, 2)) == dt.date(2020, 1, 2)
    assert written(Types.MAP(Types.INT(), Types.STRING()), {1: "a"}) == [(1, "a")]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (pyarrow.timestamp("s"), MOMENT, "finer"), (pyarrow.timestamp("ms"), MOMENT, "finer"),
        (pyarrow.timestamp("ms", "UTC"), ZONED, "finer"), (pyarrow.list_(pyarrow.timestamp("ms")), [MOMENT], "finer"),
        (pyarrow.time32("s"), MOMENT.time(), "finer"), (pyarrow.time32("ms"), MOMENT.time(), "finer"),
        (pyarrow.time64("us"), ZONED.timetz(), "zone"), (pyarrow.duration("s"), dt.timedelta(0, 1, 5), "finer"),
        (pyarrow.date32(), MOMENT, "is not a date"), (pyarrow.date64(), MOMENT, "is not a date"),
        (pyarrow.list_(pyarrow.date32()), [MOMENT], "is not a date"),
        (pyarrow.float16(), 1e6, "too large for 16 bits"),
        (pyarrow.dictionary(pyarrow.int8(), pyarrow.int32()), 1.5, "is not a whole number"),
        (pyarrow.timestamp("us"), 1.5, "is not a whole"), (pyarrow.date32(), Decimal("1.5"), "is not a whole"),
        (pyarrow.duration("us"), pd.Timedelta(1, "ns"), "finer"),
        (pyarrow.list_view(pyarrow.int32()), [1.5], "is not a whole"),
        (pyarrow.timestamp("us"), pd.Timestamp("2020-01-01 00:00:00.000000001"), "finer"),
        (pyarrow.time32("s"), np.timedelta64(1, "ns"), "of numpy"),
        (pyarrow.date32(), np.datetime64(1, "ns"), "of numpy"),
        (pyarrow.list_(pyarrow.int32()), np.array([1.5]), "is not a whole"),
        (pyarrow.float32(), np.longdouble(1e39), "too large"),
        (pyarrow.list_(pyarrow.int32()), {1.5}, "is not a whole"),
    ],
)  # fmt: skip
def test_what_a_column_of_a_schema_can_not_hold_is_refused(kind: pyarrow.DataType, value: Any, told: str) -> None:
    """Arrow cuts it, and says nothing."""
    made = RecordColumns(pyarrow.schema([("a", kind)]))
    with pytest.raises(TypeError, match=rf"column 'a' \(.*\): .*{told}"):
        made.batch(made.of([{"a": value}]))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pyarrow.timestamp("s"), MOMENT.replace(microsecond=0)), (pyarrow.timestamp("us"), MOMENT),
        (pyarrow.timestamp("ms"), MOMENT.replace(microsecond=123000)), (pyarrow.time64("us"), MOMENT.time()),
        (pyarrow.time32("ms"), MOMENT.time().replace(microsecond=5000)), (pyarrow.date32(), MOMENT.date()),
        (pyarrow.duration("us"), dt.timedelta(0, 1, 5)), (pyarrow.duration("ms"), dt.timedelta(0, 0, 5000)),
        (pyarrow.timestamp("us"), None), (pyarrow.list_(pyarrow.int64()), [1, 2]),
        (pyarrow.float16(), 1.5), (pyarrow.timestamp("s"), None), (pyarrow.date32(), None), (pyarrow.time32("s"), None),
    ],
)  # fmt: skip
def test_what_a_column_of_a_schema_holds_is_written(kind: pyarrow.DataType, value: Any) -> None:
    """A check that is too narrow would refuse whole seconds."""
    made = RecordColumns(pyarrow.schema([("a", kind)]))
    assert made.batch(made.of([{"a": value}])).to_pylist() == [{"a": value}]
