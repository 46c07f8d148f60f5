"""Declared types in a savepoint: each is read as it was written, or refused by name."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.windows.window import TimeWindow
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.common.types.basic_types import BasicType, BasicTypeInfo, LocalTimeTypeInfo
from penstock.common.types.composite_types import (
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.engine.checkpoint.column_types import field_for, from_column, to_column, type_of
from penstock.engine.checkpoint.type_encoding import decode_type, encode_type


@dataclasses.dataclass
class Account:
    owner: str
    balance: int = 0

    class Inner(NamedTuple):
        x: int


SINGLE: list[TypeInformation] = [
    Types.STRING(),
    Types.BYTE(),
    Types.BOOLEAN(),
    Types.SHORT(),
    Types.INT(),
    Types.LONG(),
    Types.FLOAT(),
    Types.DOUBLE(),
    Types.CHAR(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.INSTANT(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.PICKLED_BYTE_ARRAY(),
    *map(LocalTimeTypeInfo, LocalTimeTypeInfo.TimeType),
]
COMPOSITE: list[TypeInformation] = [
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.SQL_DATE()),
    Types.LIST(Types.LIST(Types.LONG())),
    Types.MAP(Types.STRING(), Types.TUPLE([Types.LONG()])),
    Types.TUPLE([]),
    Types.ROW([Types.LONG(), Types.STRING()]),
    Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]),
    ExternalTypeInfo(Types.LONG()),
]


@pytest.mark.parametrize("type_", [*SINGLE, *COMPOSITE], ids=repr)
def test_each_type_comes_back(type_: TypeInformation) -> None:
    """A column would be read as another type: a date as a number, an array as a list of pickles."""
    back = decode_type(encode_type(type_))
    assert back == type_ and type(back) is type(type_) and repr(back) == repr(type_)


TYPES = st.recursive(
    st.sampled_from(SINGLE),
    lambda inner: st.one_of(
        st.builds(ListTypeInfo, inner),
        st.builds(MapTypeInfo, inner, inner),
        st.builds(TupleTypeInfo, st.lists(inner, max_size=3)),
        st.builds(ExternalTypeInfo, inner),
        st.lists(st.tuples(st.text(max_size=3), inner), max_size=3).map(
            lambda fields: RowTypeInfo([type_ for _, type_ in fields], [name for name, _ in fields])
        ),
    ),
    max_leaves=6,
)


@given(TYPES)
def test_types_may_be_nested_in_any_way(type_: TypeInformation) -> None:
    """A savepoint of a job with a rare type could be written, and not be read."""
    data = encode_type(type_)
    assert decode_type(data) == type_
    assert json.loads(data), "tools of others can read what a column holds"
    assert encode_type(decode_type(data)) == data


@given(TYPES, TYPES)
def test_two_types_are_not_written_alike(one: TypeInformation, other: TypeInformation) -> None:
    """State of one type would be restored as the other."""
    if encode_type(one) == encode_type(other):
        assert one == other


def test_whether_fields_have_names_is_kept() -> None:
    """The fields of a Row could be read by a name that they never had, or not by the one that they have."""
    unnamed, named = Types.ROW([Types.LONG()]), Types.ROW_NAMED(["f0"], [Types.LONG()])
    for type_, names in ((unnamed, None), (named, ["f0"])):
        back = decode_type(encode_type(type_))
        assert isinstance(back, RowTypeInfo)
        assert json.loads(encode_type(back))[1] == names


@pytest.mark.parametrize(
    ("kind", "names"), [(Account, ["owner", "balance"]), (Account.Inner, ["x"]), (TimeWindow, ["start", "end"])]
)
def test_a_record_is_read_as_its_class(kind: type[Any], names: list[str]) -> None:
    """A function would receive a Row where it has stored an object with methods."""
    back = decode_type(encode_type(RowTypeInfo([Types.LONG() for _ in names], names, kind)))
    assert isinstance(back, RowTypeInfo) and back.record_class is kind


@pytest.mark.parametrize(
    "name",
    [
        "no_such_module:Account",
        f"{__name__}:Missing",
        f"{__name__}:Account.Missing",
        f"{__name__}:SINGLE",
        "pathlib:Path.home",
    ],
)
def test_a_record_whose_class_is_gone_is_read_as_a_row(name: str) -> None:
    """A savepoint could be read only where the program that has written it is installed."""
    text = msgspec.json.encode(["ROW", ["owner", "balance"], [["STRING"], ["LONG"]], name])
    back = decode_type(text)
    assert isinstance(back, RowTypeInfo) and back.record_class is None
    field = pa.field("value", back.to_arrow(), metadata={b"penstock.type": text})
    column = pa.array([{"owner": "a", "balance": 3}], field.type)
    assert from_column(field, column) == [Row(owner="a", balance=3)]


def test_a_class_of_penstock_is_named_by_what_is_stored() -> None:
    """After a module of penstock is moved, earlier savepoints would hold Rows instead of windows."""
    window = RowTypeInfo([Types.LONG(), Types.LONG()], ["start", "end"], TimeWindow)
    assert json.loads(encode_type(window))[3] == "time-window"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["DECIMAL", 10, 2], "type DECIMAL, which this version of penstock does not know"),
        (["LIST", ["DECIMAL", 10, 2]], "type DECIMAL"),
        (["ROW", None, [], "day-window"], "'day-window'.*does not know"),
    ],
)
def test_a_type_of_a_newer_penstock_is_refused(parts: list[Any], message: str) -> None:
    """Its values would be restored as other values."""
    with pytest.raises(CheckpointError, match=message):
        decode_type(msgspec.json.encode(parts))


# Types that users have made.


class Celsius(TypeInformation):
    """A user's type."""

    def to_arrow(self) -> pa.DataType:
        return pa.float64()


class Halves(BasicTypeInfo):
    """A user's type that is derived from one of penstock's."""

    def __init__(self) -> None:
        super().__init__(BasicType.LONG)

    def to_internal_type(self, obj: Any) -> Any:
        return obj * 2

    def from_internal_type(self, obj: Any) -> Any:
        return obj / 2


@pytest.mark.parametrize("type_", [Celsius(), Halves(), Types.LIST(Celsius()), Types.TUPLE([Types.LONG(), Celsius()])])
def test_values_of_a_type_of_the_users_own_are_pickled(type_: TypeInformation) -> None:
    """The savepoint would fail; or be read, where the class is missing, as values that were never converted back."""
    with pytest.raises(TypeError, match=r"cannot encode the type .*: expected a type of penstock\.common\.Types"):
        encode_type(type_)
    field = field_for("value", type_, [21.5])
    assert type_of(field) is None
    column = to_column(field, [21.5, 3])
    assert column is not None and from_column(field, column) == [21.5, 3]
