"""State that is read back by a program that has changed since."""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
import types

import pytest

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.common.composite_types import RowTypeInfo
from penstock.common.errors import CheckpointError
from penstock.common.typeinfo import Types
from penstock.state.gained_fields import StateUnpickler
from penstock.state.schema import TableSchema, check_schema, schema_of


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    """Defines a class in a module that is there before and after, as the program of a job is."""
    module = types.ModuleType("a_program")
    monkeypatch.setitem(sys.modules, "a_program", module)

    def define(*fields, **options):
        defined = dataclasses.make_dataclass("Account", fields, **options)
        defined.__module__ = "a_program"
        module.Account = defined
        return defined

    return define


def read(data: bytes):
    return StateUnpickler(io.BytesIO(data)).load_complete()


@pytest.mark.parametrize("options", [{}, {"slots": True}, {"frozen": True}, {"slots": True, "frozen": True}])
def test_fields_that_were_gained_have_their_defaults(program, options) -> None:
    """A job whose records have a new field would fail after hours, at the first old one that it touches."""
    before = program(("name", str), ("total", int, 0), **options)
    data = pickle.dumps([before("a", 5), {"k": (before("b", 6), None)}], protocol=5)
    program(
        ("name", str),
        ("total", int, 0),
        ("limit", int, 100),
        ("tags", list, dataclasses.field(default_factory=list)),
        **options,
    )
    first, held = read(data)
    second, _ = held["k"]
    assert (first.name, first.total, first.limit, first.tags) == ("a", 5, 100, [])
    assert (second.name, second.total, second.limit, second.tags) == ("b", 6, 100, [])
    assert first.tags is not second.tags


def test_a_field_without_a_default_is_told(program) -> None:
    """An AttributeError in some method would not say that it is about old state."""
    data = pickle.dumps(program(("name", str))("a"))
    program(("name", str), ("limit", int))
    with pytest.raises(CheckpointError, match=r"Account has gained the field 'limit'.*give the field a default"):
        read(data)


def test_what_has_not_changed_comes_back_as_it_was(program) -> None:
    """A class kept in state, or an object that holds itself, would be taken apart."""
    account = program(("name", str), ("next", object, None))
    ring = account("a")
    ring.next = [ring, account]
    back = read(pickle.dumps(ring))
    assert back.next[0] is back and back.next[1] is account


def test_states_of_another_type_are_refused() -> None:
    """A number would be read as a text, and fail far away from its cause."""
    long = ValueStateDescriptor("n", Types.LONG())
    check_schema("n", str(schema_of(long)), schema_of(long))
    check_schema("n", "", schema_of(long))
    for other in (
        ValueStateDescriptor("n", Types.STRING()),
        ValueStateDescriptor("n"),
        ListStateDescriptor("n", Types.LONG()),
    ):
        with pytest.raises(CheckpointError, match="'n' was written as value of Long, the program declares it as"):
            check_schema("n", str(schema_of(long)), schema_of(other))


def test_a_declared_dataclass_may_gain_fields_too(program) -> None:
    """The type that was declared would forbid what pickles allow."""
    before = RowTypeInfo([Types.STRING()], ["name"], program(("name", str)))
    now = RowTypeInfo([Types.STRING(), Types.LONG()], ["name", "limit"], program(("name", str), ("limit", int, 100)))
    for wrap in (lambda t: t, Types.LIST, lambda t: Types.MAP(Types.STRING(), t)):
        check_schema("s", str(TableSchema("value", wrap(before))), TableSchema("value", wrap(now)))
    gained_without = RowTypeInfo(
        [Types.STRING(), Types.LONG()], ["name", "limit"], program(("name", str), ("limit", int))
    )
    with pytest.raises(CheckpointError, match="was written as"):
        check_schema("s", str(TableSchema("value", before)), TableSchema("value", gained_without))
    assert schema_of(MapStateDescriptor("m", Types.STRING(), Types.LONG())).kind == "map"
