"""Records that become columns, and columns that become records: nothing is lost silently."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.common import Row, RowKind, Types
from penstock.common.errors import UserFunctionError
from penstock.common.time import Instant
from penstock.datastream import DataStream

PAIR_OF_SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
PAIR = Types.ROW_NAMED(["k", "x"], [Types.STRING(), Types.LONG()])


def columns(record_type: Any, *records: Any) -> DataStream[Any]:
    """Return a stream of columns."""
    return environment().from_collection(records).as_columns(record_type)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Types.BIG_INT(), r"field 'x' has the type BigInteger.*Types.LONG\(\), or pyarrow.decimal128\(38, 0\) in a"),
        (
            Types.BIG_DEC(),
            r"field 'x' has the type BigDecimal.*pyarrow.decimal128\(precision, scale\) in a pyarrow.Sch",
        ),
        (Types.LIST(Types.BIG_DEC()), "field 'x' has .*BigDecimal"),
        (Types.ROW_NAMED(["a"], [Types.MAP(Types.STRING(), Types.BIG_INT())]), "field 'x' has .*BigInteger"),
    ],
    ids=str,
)
def test_numbers_without_a_limit_are_refused(kind: Any, message: str) -> None:
    """10 + 5 would be 105: their columns are text."""
    declared = Types.ROW_NAMED(["k", "x"], [Types.LONG(), kind])
    stream = environment().from_collection([Row(k=1, x=None)], declared)
    with pytest.raises(TypeError, match=message):
        stream.as_columns()
    with pytest.raises(TypeError, match=message):
        stream.map_batches(lambda batch: batch)
    with pytest.raises(TypeError, match=message):
        columns(PAIR, Row(k="a", x=1)).map_batches(lambda batch: batch, output_type=declared)


def test_decimals_of_a_schema_are_numbers() -> None:
    """Prices could not be columns at all."""
    schema = pa.schema([("price", pa.decimal128(10, 2))])
    doubled = columns(schema, Row(price=Decimal("9.00"))).map_batches(
        lambda frame: frame.assign(price=(frame["price"] * 2)), "pandas"
    )
    assert collected(doubled) == [{"price": Decimal("18.00")}]


def changes() -> list[Row]:
    """Return a row of each kind."""
    return [Row.of_kind(kind, k="a", x=number) for number, kind in enumerate(RowKind)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda stream: stream, changes()),
        (lambda stream: stream.map_batches(lambda batch: batch), changes()),
        (lambda stream: stream.filter_batches(lambda batch: pc.greater(batch["x"], 0)), changes()[1:]),
        (lambda stream: stream.project("x"), [Row.of_kind(row.get_row_kind(), x=row["x"]) for row in changes()]),
        (
            lambda stream: stream.map_batches(lambda batch: batch[:2], output_type=PAIR_OF_SCHEMA),
            [row.as_dict() for row in changes()[:2]],
        ),
    ],
    ids=["as_rows", "map_batches", "filter_batches", "project", "to a type without kinds"],
)
def test_rows_keep_their_kinds(change: Any, expected: list[Any]) -> None:
    """A changelog would become inserts."""
    assert collected(change(columns(PAIR, *changes()))) == expected


def test_a_change_for_each_change() -> None:
    """A kind would become that of another row."""
    with pytest.raises(UserFunctionError, match="returned 3 rows for 4: in a stream with timestamps or row kinds"):
        collected(columns(PAIR, *changes()).map_batches(lambda batch: batch[1:]))


@pytest.mark.parametrize("kind", [RowKind.DELETE, RowKind.UPDATE_AFTER, RowKind.UPDATE_BEFORE])
def test_changes_that_become_records_without_kinds_are_refused(kind: RowKind) -> None:
    """A delete would become an insert."""
    changed = Row.of_kind(kind, k="a", x=1)
    with pytest.raises(UserFunctionError, match=f"the kind {kind.name}, which only"):
        collected(columns(PAIR_OF_SCHEMA, Row(k="b", x=2), changed))
    with pytest.raises(UserFunctionError, match=f"column 'rows'.*inside the record has the kind {kind.name}"):
        collected(columns(Types.ROW_NAMED(["rows"], [Types.LIST(PAIR)]), Row(rows=[Row(k="a", x=1), changed])))


@pytest.mark.parametrize(
    "record", [{"K": "a", "X": 1}, {"k": "a"}, defaultdict(int, k="a"), Row(k="a", y=1), ("a",), None, 1]
)
def test_records_without_a_field_are_refused(record: Any) -> None:
    """A misspelt name would become None in all records."""
    with pytest.raises(UserFunctionError, match="in conversion to columns"):
        collected(columns(PAIR, {"k": "b", "x": 2}, record))
    assert not isinstance(record, defaultdict) or dict(record) == {"k": "a"}


def test_other_fields_are_left_out() -> None:
    """A few fields of wide records could not be columns."""
    wide = [{"k": "a", "x": 1, "more": 2}, Row(x=1, more=2, k="a"), defaultdict(int, k="a", x=1)]
    assert collected(columns(PAIR, *wide)) == [Row(k="a", x=1)] * 3


NOON = dt.datetime(2024, 1, 1, 12)
AWARE = NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Types.SQL_TIMESTAMP(), AWARE, "has a zone"),
        (Types.LIST(Types.SQL_TIMESTAMP()), [NOON, AWARE], "has a zone"),
        (Types.MAP(Types.STRING(), Types.SQL_TIMESTAMP()), {"a": AWARE}, "has a zone"),
        (Types.ROW_NAMED(["at"], [Types.SQL_TIMESTAMP()]), Row(at=AWARE), "has a zone"),
        (Types.TUPLE([Types.LONG(), Types.SQL_TIMESTAMP()]), (1, AWARE), "has a zone"),
        (Types.INSTANT(), Instant(1, 5), "finer than a microsecond"),
        (pa.timestamp("us"), AWARE, "has a zone"),
        (pa.timestamp("us", "Europe/Zurich"), NOON, "has no zone"),
        (pa.list_(pa.timestamp("us", "UTC")), [NOON], "has no zone"),
    ],
    ids=str,
)
def test_times_that_would_change_are_refused(kind: Any, value: Any, message: str) -> None:
    """12:00+02:00 would be 10:00 behind the columns, and an Instant lose its nanoseconds."""
    declared = pa.schema([("x", kind)]) if isinstance(kind, pa.DataType) else Types.ROW_NAMED(["x"], [kind])
    with pytest.raises(UserFunctionError, match=f"column 'x'.*{message}"):
        collected(columns(declared, {"x": value}))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.SQL_TIMESTAMP(), NOON),
        (Types.INSTANT(), Instant(1, 5000)),
        (pa.timestamp("us", "+02:00"), AWARE),
        (pa.timestamp("ms"), NOON),
        (Types.LIST(Types.SQL_TIMESTAMP()), [NOON, None]),
    ],
    ids=str,
)
def test_times_that_fit_are_unchanged(kind: Any, value: Any) -> None:
    """A check would refuse times that columns can hold."""
    declared = pa.schema([("x", kind)]) if isinstance(kind, pa.DataType) else Types.ROW_NAMED(["x"], [kind])
    found = [record["x"] for record in collected(columns(declared, {"x": value}, {"x": None}))]
    assert found == [value, None]


@dataclasses.dataclass
class Counted:
    """Computes a field from itself."""

    a: int
    b: int = 5

    def __post_init__(self) -> None:
        """Count the calls."""
        self.b += 1


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    """Has no dict."""

    a: int


@dataclasses.dataclass
class Outer:
    """Has a record in a record."""

    inner: Counted


@dataclasses.dataclass
class Sub(Counted):
    """Has one more field."""

    c: int = 0


@dataclasses.dataclass
class Derived:
    """Has a field that is no argument."""

    a: int
    c: int = dataclasses.field(init=False, default=3)


@pytest.mark.parametrize("record", [Counted(1), Slotted(1), Outer(Counted(1))], ids=repr)
def test_objects_come_back_as_they_were(record: Any) -> None:
    """`__post_init__` would run again at each conversion."""
    back = columns(type(record), record).as_rows().as_columns(type(record)).as_rows()
    assert collected(back) == [record]


def test_a_subclass_is_refused() -> None:
    """Its objects would come back without their own fields."""
    with pytest.raises(UserFunctionError, match="a Sub would become a Counted"):
        collected(columns(Counted, Sub(1)))


def test_a_class_whose_fields_are_not_its_arguments() -> None:
    """The error would ask for a dataclass, which it is."""
    with pytest.raises(TypeError, match=r"Derived.*the arguments of __init__ must be its fields"):
        columns(Derived, Derived(1))


def test_a_schema_with_one_name_twice() -> None:
    """One of the columns would be lost."""
    with pytest.raises(ValueError, match="the schema has the name 'a' twice"):
        columns(pa.schema([("a", pa.int64()), ("b", pa.int64()), ("a", pa.int64())]), (1, 2, 3))


# Unions.

NARROW = Types.ROW_NAMED(["x"], [Types.LONG()])


def two(first: Any, second: Any) -> tuple[DataStream[Any], DataStream[Any]]:
    """Return two streams of columns, in one environment."""
    rows = environment().from_collection([Row(k="a", x=1)], PAIR)
    return rows.as_columns(first), rows.as_columns(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NARROW, PAIR),
        (PAIR, NARROW),
        (PAIR, pa.schema([("x", pa.int64())])),
        (PAIR, Types.ROW_NAMED(["k", "x"], [Types.STRING(), Types.INT()])),
    ],
    ids=str,
)
def test_a_union_of_different_columns_is_refused(first: Any, second: Any) -> None:
    """Columns would be dropped, or filled with None, by the order of the inputs."""
    one, other = two(first, second)
    with pytest.raises(
        TypeError, match=r"union needs streams with the same columns, got x: int64.* and |got k: string"
    ):
        one.union(other)
    with pytest.raises(TypeError, match="union needs streams with the same columns"):
        one.union(one).union(other.rebalance())
    rows = one.map(lambda row: row)
    with pytest.raises(TypeError, match="union needs streams with the same columns"):
        rows.union(one).rebalance().union(rows, rows.union(other))


def test_a_union_knows_its_columns() -> None:
    """The type would be asked for, although each input has it."""
    schema = pa.schema([("k", pa.string()), ("x", pa.int64())])
    one, other = two(schema, schema)
    both = one.union(other.rebalance()).map_batches(lambda batch: batch)
    assert collected(both) == [{"k": "a", "x": 1}] * 2
    assert collected(one.union(other).project("x")) == [{"x": 1}] * 2


def test_a_union_of_columns_in_another_order() -> None:
    """Values would be in the columns of others."""
    one, other = two(PAIR, Types.ROW_NAMED(["x", "k"], [Types.LONG(), Types.STRING()]))
    both = one.union(other).map_batches(lambda batch: batch)
    assert collected(both) == [Row(k="a", x=1)] * 2
