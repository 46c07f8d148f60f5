"""Columns of savepoints: typed if no value changes, otherwise pickled."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import namedtuple
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.windows.window import TimeWindow
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.types import Row
from penstock.engine.checkpoint.column_types import field_for, from_column, pickled_field, to_column, type_of

Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Account:
    owner: str
    balance: int = 0


class Noted(Point):
    """A NamedTuple that may have attributes."""


class Twice(namedtuple("Twice", "n twice")):
    """A record class whose constructor does not take its fields."""

    def __new__(cls, n):
        return super().__new__(cls, n, 2 * n)


class Base:
    __slots__ = ("seen",)


@dataclasses.dataclass(slots=True)
class Slotted(Base):
    n: int


def stored(values, declared=None) -> tuple[pa.Field, list]:
    field = field_for("c", declared, values)
    column = to_column(field, values)
    if column is None:
        field = pickled_field("c")
        column = to_column(field, values)
    return field, from_column(field, column)


@pytest.mark.parametrize(
    ("values", "arrow"),
    [
        (["a", "b"], pa.string()),
        ([1, -5, 2**62], pa.int64()),
        ([1.5, float("nan")], pa.float64()),
        ([True, False], pa.bool_()),
        ([b"x"], pa.binary()),
        ([("a", 1), ("b", 2)], pa.struct([("f0", pa.string()), ("f1", pa.int64())])),
        ([[1, 2], [], [3]], pa.list_(pa.int64())),
        ([{"a": 1}, {}], pa.map_(pa.string(), pa.int64())),
        ([dt.date(2020, 1, 2)], pa.date32()),
        ([dt.datetime(2020, 1, 2, 3, 4, 5, 6)], pa.timestamp("us")),
        ([TimeWindow(0, 10)], pa.struct([("start", pa.int64()), ("end", pa.int64())])),
        ([Point(1, 2)], pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        ([Row(name="a", n=1)], pa.struct([("name", pa.string()), ("n", pa.int64())])),
    ],
)
def test_values_of_one_type_make_a_typed_column(values, arrow) -> None:
    """A savepoint would be a blob that no other tool reads, though every value in it is a plain number."""
    field, back = stored(values)
    assert field.type == arrow
    assert repr(back) == repr(values)
    assert [type(value) for value in back] == [type(value) for value in values]


@pytest.mark.parametrize(
    "values",
    [
        [1, "a"],
        [1, True],
        [1, 1.0],
        [2**70],
        ["\ud800"],
        [(1, 2), (1, 2, 3)],
        [[1], ["a"]],
        [object],
        [{1, 2}],
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC)],
    ],
)
def test_what_a_typed_column_would_change_is_pickled(values) -> None:
    """State would be restored with other values: 1.0 instead of 1, a time without its zone."""
    field, back = stored(values)
    assert type_of(field) is None
    assert back == values
    assert [type(value) for value in back] == [type(value) for value in values]


@pytest.mark.parametrize(
    ("declared", "values", "arrow"),
    [
        (Types.INT(), [2**40], pa.int64()),
        (Types.FLOAT(), [0.1], pa.float64()),
        (Types.BIG_INT(), [2**70], pa.string()),
        (Types.BIG_DEC(), [Decimal("1.50")], pa.string()),
        (Types.LIST(Types.TUPLE([Types.STRING(), Types.BYTE()])), [[("a", 1)]], None),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), [{"a": 1.0}], pa.map_(pa.string(), pa.float64())),
        (RowTypeInfo([Types.STRING(), Types.LONG()], ["owner", "balance"], Account), [Account("a", 1)], None),
    ],
)
def test_a_declared_type_makes_a_column_that_loses_nothing(declared, values, arrow) -> None:
    """A Python int that is larger than the 32 bits that were declared would stop the savepoint, or be cut off."""
    field, back = stored(values, declared)
    assert type_of(field) == declared
    assert arrow is None or field.type == arrow
    assert back == values


def test_values_that_are_not_what_was_declared_are_pickled() -> None:
    """A wrong declared type would make the job's state impossible to save."""
    for declared, values in ((Types.LONG(), ["a"]), (Types.LIST(Types.LONG()), [(1, 2)]), (Types.STRING(), [5])):
        field, back = stored(values, declared)
        assert type_of(field) is None
        assert back == values


@pytest.mark.parametrize("value", [[None], (None,), {None: 1}, [("a", None)]])
def test_what_is_no_map_of_its_type_is_pickled(value) -> None:
    """Arrow ends the process for some of these, by SIGABRT: each savepoint would end the worker that writes it."""
    of_map = Types.MAP(Types.STRING(), Types.LONG())
    nested = Types.MAP(Types.STRING(), of_map)
    for declared, values in (
        (of_map, [value]),
        (Types.LIST(of_map), [[value]]),
        (nested, [{"a": value}]),
        (Types.ROW_NAMED(["m"], [of_map]), [Row(m=value)]),
    ):
        field, back = stored(values, declared)
        assert type_of(field) is None
        assert back == values


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.datetimes()
)
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(NESTED, min_size=1, max_size=6))
def test_whatever_is_stored_comes_back(values) -> None:
    """A savepoint would silently change some kind of value in a user's state."""
    _, back = stored(values)
    assert repr(back) == repr(values)


def test_what_a_record_has_beside_the_columns_is_kept() -> None:
    """Attributes of records that are not among their fields would be missing after a restore from a savepoint."""
    noted, account, slotted = Noted(1, 2), Account("a", 3), Slotted(4)
    noted.note = account.note = slotted.seen = ["kept"]
    of_account = RowTypeInfo([Types.STRING(), Types.LONG()], ["owner", "balance"], Account)
    _, (noted_again,) = stored([noted])
    _, (account_again,) = stored([account], of_account)
    _, (slotted_again,) = stored([slotted], RowTypeInfo([Types.LONG()], ["n"], Slotted))
    assert noted_again == noted and noted_again.note == ["kept"]
    assert account_again == account and account_again.note == ["kept"]
    assert slotted_again == slotted and slotted_again.seen == ["kept"]


def test_fields_of_records_keep_their_types() -> None:
    """A True would be restored as 1, or an int as a float: equal in Python, but different for a function."""
    of_account = RowTypeInfo([Types.STRING(), Types.DOUBLE()], ["owner", "balance"], Account)
    for balance in (3, True):
        _, (again,) = stored([Account("a", balance)], of_account)
        assert type(again.balance) is type(balance)


def test_a_record_that_is_not_made_from_its_fields_is_pickled() -> None:
    """The savepoint would fail, with an error of the constructor."""
    assert [tuple(one) for one in stored([Twice(3)])[1]] == [(3, 6)]
