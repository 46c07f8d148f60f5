"""Columns as values of declared types: each type there and back, whatever the layout of the column."""

from __future__ import annotations

import dataclasses
import datetime as dt
import inspect
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.common import Instant, Row, Types
from penstock.common.columns.declared_types import declared_type
from penstock.common.columns.fitting_types import check_fits
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.typed_values import reader_of, typed_values
from penstock.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, RowTypeInfo, TypeInformation
from penstock.common.types.composite_types import LIST_TYPES, MapTypeInfo, TupleTypeInfo
from penstock.common.types.type_hints import from_hint


class Point(NamedTuple):
    """A record that is a tuple."""

    x: int
    at: dt.datetime


@dataclasses.dataclass
class Stop:
    """A record with another one."""

    name: str
    point: Point


NOON = dt.datetime(2020, 1, 2, 12, 0, 0, 250_000)
VALUES: list[tuple[TypeInformation, Any]] = [
    (Types.STRING(), "ä"),
    (Types.CHAR(), "a"),
    (Types.BOOLEAN(), True),
    (Types.BYTE(), -(1 << 7)),
    (Types.SHORT(), 1 << 14),
    (Types.INT(), 1 << 30),
    (Types.LONG(), 1 << 62),
    (Types.FLOAT(), 0.5),
    (Types.DOUBLE(), 0.1),
    (Types.BIG_INT(), 1 << 80),
    (Types.BIG_DEC(), Decimal("-1.50")),
    (Types.INSTANT(), Instant(-1, 999_999_000)),
    (Types.SQL_DATE(), dt.date(1, 1, 1)),
    (Types.SQL_TIME(), dt.time(23, 59, 59, 999_999)),
    (Types.SQL_TIMESTAMP(), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), NOON.date()),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), NOON.time()),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME), NOON),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [1.5]),
    (Types.BASIC_ARRAY(Types.STRING()), ["a", None]),
    (Types.OBJECT_ARRAY(Types.SQL_DATE()), [NOON.date(), None]),
    (Types.LIST(Types.LIST(Types.INSTANT())), [[Instant(0, 0), None], None, []]),
    (Types.MAP(Types.SQL_DATE(), Types.BIG_DEC()), {NOON.date(): Decimal(1), dt.date(1, 1, 1): None}),
    (Types.ROW([Types.LONG(), Types.SQL_TIME()]), Row(1, NOON.time())),
    (Types.ROW_NAMED(["a", "b"], [Types.TUPLE([Types.LONG()]), Types.INSTANT()]), Row(a=(1,), b=None)),
    (Types.TUPLE([Types.STRING(), Types.SQL_TIMESTAMP()]), ("a", NOON)),
    (ExternalTypeInfo(Types.SQL_TIMESTAMP()), NOON),
    (from_hint(Stop), Stop("a", Point(1, NOON))),
]
_WITH_PARTS = (*LIST_TYPES, MapTypeInfo, RowTypeInfo, TupleTypeInfo)
each_type = pytest.mark.parametrize(("declared", "value"), VALUES, ids=lambda one: repr(one)[:60])


def around(declared: TypeInformation, value: Any) -> Iterator[tuple[TypeInformation, list[Any]]]:
    """Yield values of the type, and of types that contain it, with nulls, and empty."""
    yield declared, [value, None, value]
    yield declared, []
    yield declared, [None, None]
    yield Types.LIST(declared), [[value, None], [], None, [value]]
    yield Types.MAP(Types.STRING(), declared), [{"a": value, "b": None}, {}, None]
    yield Types.TUPLE([declared, Types.LONG()]), [(value, 1), None, (None, None)]
    yield Types.ROW_NAMED(["x"], [Types.LIST(Types.ROW([declared]))]), [Row(x=[Row(value), None]), Row(x=None)]


def test_all_types_are_here() -> None:
    """A new type would be missing in some of the conversions, which only its first user finds."""
    kinds = [getattr(Types, name) for name in dir(Types) if name.isupper() and name != "PICKLED_BYTE_ARRAY"]
    here = {type(declared) if isinstance(declared, _WITH_PARTS) else declared for declared, _ in VALUES}
    for kind in kinds:
        arguments = {"ROW_NAMED": (["a"], [Types.LONG()]), "ROW": ([Types.LONG()],), "TUPLE": ([Types.LONG()],)}
        needed = [name for name, one in inspect.signature(kind).parameters.items() if one.default is one.empty]
        found = kind(*arguments.get(kind.__name__, [Types.LONG()] * len(needed)))
        assert (type(found) if isinstance(found, _WITH_PARTS) else found) in here, kind


def column_of(declared: TypeInformation, values: list[Any]) -> pa.Array:
    return RecordColumns(RowTypeInfo([declared], ["x"])).batch([values]).column(0)


@each_type
def test_values_come_back_as_they_were(declared: TypeInformation, value: Any) -> None:
    """A record would have other values behind columns, a savepoint or a file, or values of other classes."""
    for kind, values in around(declared, value):
        column = column_of(kind, values)
        assert repr(typed_values(column, kind)) == repr(values)
        assert typed_values(column, kind) == values


@each_type
def test_a_slice_has_its_own_values(declared: TypeInformation, value: Any) -> None:
    """A batch that is cut would have values of other rows."""
    for kind, values in around(declared, value):
        column = column_of(kind, [*values, *values[::-1], *values])
        twice = pa.chunked_array([column, column], column.type)
        expected = typed_values(column, kind)
        assert typed_values(twice, kind) == expected * 2
        for start in range(len(expected)):
            assert typed_values(column[start:], kind) == expected[start:]
            assert typed_values(column[start : start + 1], kind) == expected[start : start + 1]


@each_type
def test_each_type_is_that_of_its_column(declared: TypeInformation, value: Any) -> None:
    """A type that only some of the conversions know would be refused, or read as another one."""
    for kind, values in around(declared, value):
        own = kind.to_arrow()
        assert own is not None
        check_fits(own, kind, "x")
        again = declared_type(own)
        assert again.to_arrow() == own
        assert typed_values(column_of(again, [None for _ in values]), kind) == [None for _ in values]


WHERE_MOMENTS_ARE = [
    ("s", None), ("ms", "UTC"), ("us", "UTC"), ("us", "Etc/UTC"), ("us", "Europe/Zurich"), ("us", "+02:00"),
    ("ns", "UTC"),
]  # fmt: skip


@pytest.mark.parametrize(("unit", "zone"), WHERE_MOMENTS_ARE)
def test_an_instant_is_the_same_in_each_unit_and_zone(unit: str, zone: str | None) -> None:
    """A number of microseconds would be an Instant's seconds, or a session's zone decide if a column can be read."""
    moments = pa.array([0, -7_200, None], pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    column = pa.StructArray.from_arrays([moments], ["at"])
    declared = Types.ROW_NAMED(["at"], [Types.INSTANT()])
    expected = [Instant(0, 0), Instant(-7_200, 0), None]
    assert typed_values(moments, Types.INSTANT()) == expected
    assert typed_values(column, declared) == [Row(at=at) for at in expected]
    assert declared_type(column.type) == (declared if zone else Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()]))
    # Without a zone it is in UTC, as in the type's own column.
    naive = typed_values(moments, Types.SQL_TIMESTAMP())
    assert naive == [dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 22), None]


def test_instants_have_no_bounds_but_those_of_their_column() -> None:
    """A time after the year 9999 would end the job, though an Instant can be that late."""
    late = 253_402_300_800
    assert typed_values(pa.array([late], pa.timestamp("s")), Types.INSTANT()) == [Instant(late, 0)]
    assert typed_values(pa.array([1], pa.timestamp("ns")), Types.INSTANT()) == [Instant(0, 1)]


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        (pa.string(), Types.SQL_DATE()),
        (pa.int64(), Types.INSTANT()),
        (pa.date32(), Types.SQL_TIME()),
        (pa.string(), Types.LIST(Types.STRING())),
        (pa.string(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
        (pa.list_(pa.int64()), Types.ROW([Types.LONG()])),
        (pa.struct([("a", pa.int64())]), Types.MAP(Types.STRING(), Types.LONG())),
        (pa.struct([("a", pa.int64()), ("a", pa.int64())]), Types.ROW_NAMED(["a"], [Types.LONG()])),
    ],
    ids=str,
)
def test_a_column_without_such_values_is_refused(stored: pa.DataType, declared: TypeInformation) -> None:
    """Values of another type would get into a state, and fail where they are used."""
    with pytest.raises(TypeError, match=r"a column of the type .* has no values of the type"):
        reader_of(stored, declared)
    with pytest.raises(ValueError, match="x"):
        check_fits(stored, declared, "x")


def test_fields_are_found_by_name() -> None:
    """A row would have the value of another field."""
    column = pa.array([{"b": 1, "c": 2, "a": "x"}], pa.struct([("b", pa.int8()), ("c", pa.int8()), ("a", pa.string())]))
    declared = Types.ROW_NAMED(["a", "b", "new"], [Types.STRING(), Types.LONG(), Types.SQL_DATE()])
    assert typed_values(column, declared) == [Row(a="x", b=1, new=None)]


def test_parts_without_a_type_stay_as_they_are() -> None:
    """A row with an interval among its fields would be a dict."""
    pause = dt.timedelta(days=1)
    kind = pa.struct([("pause", pa.duration("us")), ("n", pa.int32())])
    declared = declared_type(kind)
    assert declared == Types.ROW_NAMED(["pause", "n"], [Types.PICKLED_BYTE_ARRAY(), Types.INT()])
    assert typed_values(pa.array([{"pause": pause, "n": 1}, None], kind), declared) == [Row(pause=pause, n=1), None]


ROW = Types.ROW_NAMED(
    ["n", "text", "at", "parts"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.SQL_TIMESTAMP(),
        Types.LIST(Types.MAP(Types.STRING(), Types.TUPLE([Types.INSTANT(), Types.BIG_DEC()]))),
    ],
)
INSTANTS = st.builds(
    Instant, st.integers(-(1 << 40), 1 << 40), st.integers(0, 999_999).map(lambda micros: micros * 1000)
)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
PAIRS = st.none() | st.tuples(st.none() | INSTANTS, st.none() | DECIMALS)
PARTS = st.lists(st.none() | st.dictionaries(st.text(max_size=3), PAIRS, max_size=3), max_size=3)
ROWS = st.builds(
    lambda n, text, at, parts: Row(n=n, text=text, at=at, parts=parts),
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.text(max_size=3),
    st.none() | st.datetimes(),
    st.none() | PARTS,
)


@settings(max_examples=60)
@given(st.lists(st.none() | ROWS, max_size=6), st.data())
def test_columns_are_read_as_the_type_itself_reads_single_values(rows: list[Any], data: st.DataObject) -> None:
    """Values of columns would depend on who reads them: the columns as a whole, or the type value by value."""
    column = column_of(ROW, rows)
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    found = typed_values(column[start:stop], ROW)
    assert found == rows[start:stop]
    assert found == [ROW.from_internal_type(ROW.to_internal_type(row)) for row in rows[start:stop]]
