"""Rows of a declared type: what values become, what is left alone, and what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common import Row, RowKind, Types
from penstock.common.typeinfo import ExternalTypeInfo, from_hint
from penstock.common.types.declared_rows import row_converter

PERSON = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
ANN = Row(id=1, name="Ann")


@pytest.mark.parametrize(
    "value",
    [
        ANN,
        Row(1, "Ann"),
        Row(name="Ann", id=1),
        (1, "Ann"),
        [1, "Ann"],
        {"name": "Ann", "id": 1},
        SimpleNamespace(id=1, name="Ann", age=3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_become_rows_with_the_names_of_their_type(value: Any) -> None:
    """`value.name` of PyFlink's own examples would be an AttributeError of a tuple."""
    convert = row_converter(PERSON)
    assert convert is not None
    row = convert(value)
    assert row == ANN and list(row) == [1, "Ann"] and row.name == "Ann"


def test_rows_of_the_type_are_left_alone_and_kinds_are_kept() -> None:
    """Each operator would make all rows anew, and an update would become an insertion."""
    convert: Any = row_converter(PERSON)
    once = convert((1, "Ann"))
    assert convert(once) is once and convert(None) is None
    assert convert(Row.of_kind(RowKind.DELETE, 1, "Ann")).get_row_kind() is RowKind.DELETE


def test_rows_without_names_are_named_as_in_pyflink() -> None:
    """`value.f0` is what PyFlink's coder gives."""
    convert: Any = row_converter(Types.ROW([Types.LONG(), Types.STRING()]))
    assert convert((1, "Ann")).f1 == "Ann" and convert(Row(1, "Ann")) == Row(f0=1, f1="Ann")


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.LIST(PERSON), [(1, "Ann")], [ANN]),
        (Types.OBJECT_ARRAY(PERSON), [(1, "Ann"), None], [ANN, None]),
        (Types.MAP(Types.STRING(), PERSON), {"a": (1, "Ann")}, {"a": ANN}),
        (Types.TUPLE([Types.STRING(), PERSON]), ("a", (1, "Ann")), ("a", ANN)),
        (Types.ROW_NAMED(["of"], [PERSON]), ((1, "Ann"),), Row(of=ANN)),
        (ExternalTypeInfo(PERSON), (1, "Ann"), ANN),
    ],
    ids=lambda value: type(value).__name__,
)
def test_rows_inside_other_values(type_info: Any, value: Any, expected: Any) -> None:
    """A list of rows would be a list of tuples."""
    convert: Any = row_converter(type_info)
    assert convert(value) == expected and convert(None) is None


@dataclass
class Person:
    id: int
    name: str


@pytest.mark.parametrize(
    "type_info",
    [
        None,
        Types.LONG(),
        Types.PICKLED_BYTE_ARRAY(),
        Types.LIST(Types.LONG()),
        Types.MAP(Types.STRING(), Types.LONG()),
        Types.TUPLE([Types.LONG(), Types.STRING()]),
        from_hint(Person),
    ],
    ids=str,
)
def test_types_without_rows_cost_nothing(type_info: Any) -> None:
    """Every record of a stream would be looked at, and a dataclass would become a Row."""
    assert row_converter(type_info) is None


@pytest.mark.parametrize("value", [(1,), (1, "Ann", 3), Row(1), Row(a=1, b="Ann"), Row(id=1), 7, "ab", b"ab"])
def test_what_does_not_fit_is_refused(value: Any) -> None:
    """A row of other fields would have their values under these names."""
    convert: Any = row_converter(PERSON)
    with pytest.raises((TypeError, ValueError)):
        convert(value)
