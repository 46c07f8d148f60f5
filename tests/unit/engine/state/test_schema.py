"""State that is read back by a program that has changed since."""

from __future__ import annotations

import dataclasses
import io
import pickle
import sys
import types
from abc import ABC
from collections import Counter, OrderedDict, defaultdict, deque
from typing import NamedTuple

import pytest

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.api.state.ttl import StateTtlConfig
from penstock.api.windows.window import CountWindow, GlobalWindow, TimeWindow
from penstock.common.errors import CheckpointError
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.common.types import Row, restored_row
from penstock.common.types.composite_types import RowTypeInfo
from penstock.common.types.type_hints import from_hint
from penstock.connectors.files.split import FileSplit
from penstock.engine.state.schema import TableSchema, check_schema, element_schema, schema_of
from penstock.engine.state.unpickling import MISSING_CLASS_SUBSTITUTE, StateUnpickler


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch):
    """Define a class in a module that exists before and after, like the program of a job."""
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
    with pytest.raises(CheckpointError, match=r"fields name, but .* name, limit. Give the field 'limit'"):
        read(data)


def test_what_has_not_changed_comes_back_as_it_was(program) -> None:
    """A class in state, or an object that contains itself, would be decomposed."""
    account = program(("name", str), ("next", object, None))
    ring = account("a")
    ring.next = [ring, account]
    back = read(pickle.dumps(ring))
    assert back.next[0] is back and back.next[1] is account


class Pair(NamedTuple):
    left: object
    right: object


@pytest.mark.parametrize(
    "hold",
    [
        lambda one: Pair(1, one),
        lambda one: Row(a=one),
        lambda one: deque([one], maxlen=3),
        lambda one: OrderedDict(k=one),
        lambda one: defaultdict(list, k=[one]),
        lambda one: Counter({"k": one}),
        lambda one: {"k": ({"k": [one]},)},
    ],
)
def test_fields_are_gained_wherever_an_instance_is_kept(program, hold) -> None:
    """State would have been completed in lists and dicts, and fail later where it is in a deque or a Row."""
    data = pickle.dumps(hold(program(("name", str))("a")))
    account = program(("name", str), ("tags", list, dataclasses.field(default_factory=list)))
    assert read(data) == hold(account("a"))


def test_what_holds_itself_is_read_once(program) -> None:
    """A restart would never end."""
    ring = [program(("name", str))("a")]
    ring.append(ring)
    ring.append({"ring": ring})
    back = read(pickle.dumps(ring))
    assert back[1] is back and back[2]["ring"] is back and back[0].name == "a"


def test_a_class_that_is_kept_in_state_is_no_old_instance(program) -> None:
    """State that holds classes, to make their instances later, could be written and not be read."""
    for bases in ((), (ABC,)):
        account = program(("name", str), bases=bases)
        kept, one = read(pickle.dumps([account, account("a")]))
        assert kept is account and one == account("a")


def test_states_of_another_type_are_refused() -> None:
    """A number would be read as text, and fail far from the cause."""
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


def test_a_gained_field_may_be_called_like_a_part_of_another_name(program) -> None:
    """A field name would be found within other text of the schema: `name` in `first_name`, `id` in a type."""
    inner = program(("id", int))
    before = from_hint(program(("first_name", str), ("inner", inner)))
    now = from_hint(program(("first_name", str), ("inner", inner), ("name", str, ""), ("id", int, 0)))
    check_schema("s", str(TableSchema("value", before)), TableSchema("value", now))
    inner_now = program(("id", int), ("first_name", str, ""))
    nested = from_hint(program(("first_name", str), ("inner", inner_now)))
    check_schema("s", str(TableSchema("value", before)), TableSchema("value", nested))
    with pytest.raises(CheckpointError, match="was written as"):
        check_schema("s", str(TableSchema("value", now)), TableSchema("value", before))


def test_a_declared_dataclass_may_gain_fields_too(program) -> None:
    """The type that was declared would forbid what pickles allow."""
    before = RowTypeInfo([Types.STRING()], ["name"], program(("name", str)))
    now = RowTypeInfo([Types.STRING(), Types.LONG()], ["name", "limit"], program(("name", str), ("limit", int, 100)))
    for wrap in (lambda t: t, Types.LIST, lambda t: Types.MAP(Types.STRING(), t)):
        check_schema("s", str(TableSchema("value", wrap(before))), TableSchema("value", wrap(now)))
        timed = (
            TableSchema("value with a time to live", Types.TUPLE([Types.LONG(), wrap(one)])) for one in (before, now)
        )
        check_schema("s", str(next(timed)), next(timed))
    gained_without = RowTypeInfo(
        [Types.STRING(), Types.LONG()], ["name", "limit"], program(("name", str), ("limit", int))
    )
    with pytest.raises(CheckpointError, match="was written as"):
        check_schema("s", str(TableSchema("value", before)), TableSchema("value", gained_without))
    assert schema_of(MapStateDescriptor("m", Types.STRING(), Types.LONG())).kind == "map"


def test_a_class_that_is_gone_has_a_stand_in_where_one_is_wanted(program) -> None:
    """Savepoints could be read only where the program is installed, and a job would start with placeholders."""
    account = program(("name", str))
    data = pickle.dumps([account("a"), 1])
    del sys.modules["a_program"].Account
    with pytest.raises(AttributeError, match="Account"):
        read(data)

    @dataclasses.dataclass
    class StandIn:
        name: str = ""

    asked = []
    token = MISSING_CLASS_SUBSTITUTE.set(lambda module, name: asked.append((module, name)) or StandIn)
    try:
        assert read(data) == [StandIn("a"), 1]
    finally:
        MISSING_CLASS_SUBSTITUTE.reset(token)
    assert asked == [("a_program", "Account")]


def named_in_a_pickle(module: str, name: str):
    """Read a pickle that names a class."""
    return read(b"c%b\n%b\n." % (module.encode(), name.encode()))


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("penstock.runtime.windows.window", "TimeWindow", TimeWindow),
        ("penstock.runtime.windows.window", "CountWindow", CountWindow),
        ("penstock.runtime.windows.window", "GlobalWindow", GlobalWindow),
        ("penstock.connectors.file_system.split", "FileSplit", FileSplit),
        ("penstock.common.types", "_restore", restored_row),
        ("a_program", "Account", None),
    ],
)
def test_classes_are_found_by_the_names_that_they_once_had(program, module: str, name: str, now) -> None:
    """A savepoint of the first release could not be restored, or its windows would be of some other class."""
    account = program(("name", str))
    assert named_in_a_pickle(module, name) is (now or account)
    with pytest.raises((ImportError, AttributeError)):
        named_in_a_pickle(module, "NeverThere")


def test_rows_of_the_first_release_are_rows() -> None:
    """Keys that are rows would no longer be found."""
    row = Row(a=1, b="x")
    before = pickle.dumps(row, protocol=0).replace(b"restored_row", b"_restore")
    assert b"_restore" in before and read(before) == row


def test_the_parts_of_lists_and_maps_have_types_of_their_own() -> None:
    """A savepoint would have pickles in the columns of operator state whose type was declared."""
    of_list = schema_of(ListStateDescriptor("l", Types.LONG()))
    of_map = schema_of(MapStateDescriptor("m", Types.STRING(), Types.DOUBLE()))
    value = schema_of(ValueStateDescriptor("v", Types.LONG()))
    assert element_schema(of_list) == TableSchema("list", Types.LONG())
    assert element_schema(of_map) == TableSchema("map", Types.DOUBLE())
    assert element_schema(value) == value


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        (ValueStateDescriptor("s", Types.LONG()), "value with a time to live of "),
        (ListStateDescriptor("s", Types.LONG()), "list with a time to live of "),
        (MapStateDescriptor("s", Types.STRING(), Types.LONG()), "map with a time to live of "),
    ],
)
def test_state_that_expires_is_stored_with_its_times(descriptor, expected: str) -> None:
    """A time to live could be switched on or off for existing state: times would be read as values."""
    plain = schema_of(descriptor)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    timed = schema_of(descriptor)
    assert str(timed).startswith(expected)
    check_schema("s", str(timed), timed)
    for found, declared in ((plain, timed), (timed, plain)):
        with pytest.raises(CheckpointError, match="'s' was written as"):
            check_schema("s", str(found), declared)
