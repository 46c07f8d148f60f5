"""Copies of values that can be changed, and how it is known that a function keeps nothing."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import decimal
import enum
import pickle
import threading
import types
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.output_tag import OutputTag
from penstock.common.copies import own_copy
from penstock.common.escape_analysis import keeps_nothing
from penstock.common.types import Row


@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
    parts: Any = ()


@dataclasses.dataclass
class Open:
    parts: list[int]


class Point(NamedTuple):
    x: Any
    y: Any


class FrozenStruct(msgspec.Struct, frozen=True):
    name: str
    parts: Any = ()


class OpenStruct(msgspec.Struct):
    name: str
    parts: Any = ()


class Colour(enum.Enum):
    RED = 1


class Identity:
    """Hashable by its identity, and not immutable at all."""

    def __init__(self) -> None:
        self.items: list[int] = []


IMMUTABLE = [
    1, 1.5, True, None, "text", b"bytes", (1, "a"), (1, ("a", None)), frozenset({1}), Colour.RED, Point(1, "a"),
    frozenset({(1, "a")}),
    datetime.datetime(2024, 1, 1), decimal.Decimal("1.5"), Frozen("a", (1, 2)), FrozenStruct("a", ("b", 1)),
    OutputTag("side"), len, int, (OutputTag("side"), 1), range(3),
]  # fmt: skip


@pytest.mark.parametrize("value", IMMUTABLE, ids=repr)
def test_what_can_not_be_changed_is_not_copied(value: Any) -> None:
    """Each record of a job would be copied at each operator."""
    assert own_copy(value) is value


def changeable() -> list[Any]:
    return [
        [1, 2], {"a": [1]}, {1, 2}, bytearray(b"a"), ([1], 2), (1, ("a", {"b": 2})), Point([1], 2), Open([1]),
        Frozen("a", [1]), FrozenStruct("a", {"b": 1}), OpenStruct("a", [1]), [Open([1])], Row(a=[1], b=2),
    ]  # fmt: skip


@pytest.mark.parametrize("value", changeable(), ids=repr)
def test_what_can_be_changed_is_copied_with_all_that_is_in_it(value: Any) -> None:
    """A list inside of a tuple would change after it was emitted."""
    copied = own_copy(value)
    assert copied == value and type(copied) is type(value) and copied is not value
    assert not shared(copied, value)


def shared(one: Any, other: Any) -> bool:
    """Whether something that can be changed is part of both."""
    changeable_types = (list, dict, set, bytearray, Open, OpenStruct, Row)
    return bool({id(part) for part in parts(one) if isinstance(part, changeable_types)} & {id(p) for p in parts(other)})


def parts(value: Any) -> list[Any]:
    inner: list[Any] = []
    if isinstance(value, (list, tuple, set)):
        inner = list(value)
    elif isinstance(value, dict):
        inner = list(value.values())
    elif dataclasses.is_dataclass(value):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, msgspec.Struct):
        inner = list(msgspec.structs.astuple(value))
    return [value, *(part for each in inner for part in parts(each))]


def test_objects_with_an_identity_hash_are_copied() -> None:
    """Hashable is not immutable."""
    value = Identity()
    copied = own_copy((1, value))[1]
    value.items.append(1)
    assert copied.items == []


@pytest.mark.parametrize(
    "around",
    [lambda each: {each}, lambda each: frozenset([each]), lambda each: {each: 1}, lambda each: {(1, each)}],
    ids=["set", "frozenset", "key", "nested"],
)
def test_objects_that_are_hashable_by_identity_are_copied_wherever_they_are(around: Any) -> None:
    """What is in a set, or is a key, would change after it was emitted."""
    inner = Identity()
    copied = own_copy(around(inner))
    inner.items.append(1)
    only = next(iter(copied))
    assert (only[1] if isinstance(only, tuple) else only).items == []
    assert type(copied) is type(around(inner))


def test_an_attribute_of_a_subclass_of_a_frozen_class_is_copied() -> None:
    """Only the fields of a frozen class are frozen."""

    class More(Frozen):
        pass

    value = More("a")
    vars(value)["seen"] = [1]
    copied = own_copy(value)
    vars(value)["seen"].append(2)
    assert vars(copied)["seen"] == [1] and copied.name == "a" and type(copied) is More


def test_classes_that_say_how_they_are_copied() -> None:
    """A class with a connection in it leaves it out of its copies, or its copies would not work."""

    class Careful:
        def __init__(self) -> None:
            self.copies = 0

        def __deepcopy__(self, memo: Any) -> Careful:
            other = Careful()
            other.copies = self.copies + 1
            return other

    class Slotted:
        __slots__ = ("items",)

    assert own_copy(Careful()).copies == 1
    slotted = Slotted()
    slotted.items = [1]
    copied = own_copy(slotted)
    slotted.items.append(2)
    assert copied.items == [1]


def test_a_value_that_contains_itself() -> None:
    """A job would end with a RecursionError in its runtime."""
    value: list[Any] = [1]
    value.append(value)
    copied = own_copy(value)
    assert copied is not value and copied[1] is copied


def test_what_can_not_be_copied_is_passed_on() -> None:
    """A chain that hands a connection from one function to the next would fail."""
    lock = threading.Lock()
    assert own_copy([lock])[0] is lock


def test_subclasses_of_immutable_types_may_be_changed() -> None:
    """An attribute of such a value would change after it was emitted."""

    class Tagged(str):
        tags: list[str]

    value = Tagged("a")
    value.tags = ["x"]
    copied = own_copy(value)
    value.tags.append("y")
    assert copied == "a" and copied.tags == ["x"]


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Frozen, st.text(max_size=2), inner)
        | st.builds(OpenStruct, st.text(max_size=2), inner)
    ),
)


@given(VALUES)
def test_copies_are_equal_and_share_nothing(value: Any) -> None:
    """Some nesting would be overlooked."""
    copied = own_copy(value)
    assert copied == value and not shared(copied, value)


# What occurs twice in a value.


class Node:
    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)


class SlottedNode:
    __slots__ = ("__weakref__", "missing", "parts")

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    parts: Any


class ListOfItsOwn(list[Any]):
    pass


class Reducing:
    """Says how it is pickled."""

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)

    def __reduce__(self) -> Any:
        return Reducing, tuple(self.parts)


class Copying:
    """Says how it is copied."""

    def __init__(self, *parts: Any) -> None:
        self.parts = list(parts)

    def __deepcopy__(self, memo: Any) -> Copying:
        return Copying(*copy.deepcopy(self.parts, memo))


def of_key_and_value(one: Any, other: Any) -> dict[Any, Any]:
    return {"a": one, "b": other}


PAIRS = [
    lambda a, b: [a, b], lambda a, b: (a, b), of_key_and_value, Point, Node, SlottedNode, Reducing, Copying,
    lambda a, b: Open([a, b]), lambda a, b: Frozen("x", (a, b)), lambda a, b: FrozenSlots((a, b)),
    lambda a, b: OpenStruct("x", [a, b]), lambda a, b: FrozenStruct("x", (a, b)), lambda a, b: Row(a=a, b=b),
    lambda a, b: ListOfItsOwn([a, b]), lambda a, b: collections.deque([a, b]), lambda a, b: frozenset([(1, a), (2, b)]),
    lambda a, b: collections.OrderedDict(a=a, b=b), lambda a, b: {(1, a), (2, b)}, lambda a, b: {(1, a): (2, b)},
]  # fmt: skip
"""What makes a value of two parts."""


def nodes_in(value: Any, seen: dict[int, Any]) -> dict[int, Any]:
    """All Nodes below a value, by identity, whatever holds them."""
    if id(value) in seen:
        return seen
    if isinstance(value, Node):
        seen[id(value)] = value
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque, Row)):
        inner = list(value)
    elif isinstance(value, msgspec.Struct):
        inner = list(msgspec.structs.astuple(value))
    elif isinstance(value, FrozenSlots) or hasattr(value, "parts"):
        inner = [value.parts]
    for part in inner:
        nodes_in(part, seen)
    return seen


@pytest.mark.parametrize("make", PAIRS)
def test_an_object_that_occurs_twice_is_one_object_in_the_copy(make: Any) -> None:
    """Marking a node of a graph by way of an edge would not mark it in the list of nodes."""
    node = Node()
    copied = own_copy([make(node, node), node])
    own = copied[1]
    assert own is not node
    assert {id(one) for one in nodes_in(copied, {}).values() if not one.parts} == {id(own)}


@pytest.mark.parametrize("make", PAIRS)
def test_shared_parts_that_are_nested_are_copied_once_each(make: Any) -> None:
    """A record of forty levels, each of which refers to the next one twice, would take for ever."""
    value: Any = Node()
    for _ in range(40):
        value = make(value, value)
        if type(value).__hash__ is None:
            # What holds it may want a hash.
            value = Node(value)
    own_copy(value)


@pytest.mark.parametrize("kind", [Node, SlottedNode, ListOfItsOwn, Row])
def test_an_object_that_refers_to_itself(kind: Any) -> None:
    """A job would end with a RecursionError in its runtime, or a parent not know its own children."""
    value = kind() if kind is not Row else Row(a=None)
    if kind is Row:
        value["a"] = [value]
        copied = own_copy(value)
        assert copied is not value and copied["a"][0] is copied
    elif kind is ListOfItsOwn:
        value.append((value,))
        copied = own_copy(value)
        assert copied is not value and type(copied) is kind and copied[0][0] is copied
    else:
        value.parts.append({"parent": value})
        copied = own_copy(value)
        assert copied is not value and type(copied) is kind and copied.parts[0]["parent"] is copied


def test_a_tuple_that_is_part_of_its_own_list() -> None:
    """A tuple is made of its parts at once, and one of them may refer to it already."""
    items: list[Any] = []
    value = (items, 1)
    items.append(value)
    copied = own_copy(value)
    assert copied is not value and copied[0][0] is copied


def test_a_slot_without_a_value_has_none_in_the_copy() -> None:
    """A class with slots that are filled later could not be copied."""
    copied = own_copy(SlottedNode(1))
    assert copied.parts == [1] and not hasattr(copied, "missing")


def test_a_frozen_class_with_a_field_that_has_no_value() -> None:
    """A field that is computed later would end the job."""

    @dataclasses.dataclass(frozen=True)
    class Late:
        items: list[int]
        total: int = dataclasses.field(init=False)

    value = Late([1])
    copied = own_copy(value)
    value.items.append(2)
    assert copied.items == [1]


def test_temporary_parts_are_not_taken_for_each_other() -> None:
    """Objects that hand out their state as new lists would share one copy, by the identity of freed memory."""

    class Fresh:
        def __init__(self, number: int) -> None:
            self.number = number

        def __getstate__(self) -> Any:
            return {"state": [self.number]}

        def __setstate__(self, state: Any) -> None:
            self.number = state["state"][0]

    copied = own_copy([Fresh(number) for number in range(100)])
    assert [one.number for one in copied] == list(range(100))


def test_a_graph_arrives_as_one_at_the_next_function() -> None:
    """Nodes that edges refer to would be others than those in the list of nodes."""
    node = Node()
    graph = {"nodes": [node], "edges": [(node, node)]}
    copied = own_copy(graph)
    assert copied["edges"][0][0] is copied["edges"][0][1] is copied["nodes"][0]


@given(
    st.recursive(
        st.lists(st.integers(), max_size=2),
        lambda inner: (
            st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=2)
        ),
        max_leaves=8,
    )
)
def test_copies_share_what_pickled_ones_share(value: Any) -> None:
    """A chain and an exchange would give a function different records."""
    record = [value, value, {"again": value}]
    copied, pickled = own_copy(record), pickle.loads(pickle.dumps(record))
    assert copied == pickled == record
    for one in (copied, pickled):
        assert one[0] is one[1] is one[2]["again"]


# Functions.

SEEN: list[Any] = []
MODULE = types.ModuleType("values")
LIMIT = 3


def with_default(value: Any, seen: list[Any] = []) -> Any:  # noqa: B006
    seen.append(value)
    return value


def generator(value: Any) -> Any:
    yield value


def with_constant(value: int) -> bool:
    return value % 2 == 0 and value < LIMIT


@pytest.mark.parametrize(
    "function",
    [
        lambda pair: (pair[0], pair[1] + 2), lambda pair: pair[1] % 2 == 0, lambda line: line.strip().lower(),
        lambda v: {"a": v["a"], "n": len(v)}, lambda v: f"{v!r:>5}", with_constant, lambda v: max(v, 3) if v else None,
    ],
)  # fmt: skip
def test_small_functions_keep_nothing(function: Any) -> None:
    """The fastest programs would pay for what only others need."""
    assert keeps_nothing(function)


def closing_over(seen: list[Any]) -> Any:
    return lambda value: seen.append(value) or value


class Mapper:
    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    "function",
    [
        lambda value: SEEN.append(value) or value, lambda value: (value, SEEN), with_default, generator,
        closing_over([]), Mapper().map, Mapper, str, lambda value: value.remember(), lambda value: print(value),
        lambda value: list(SEEN), lambda value: setattr(value, "x", 1), lambda value: MODULE.values,
    ],
)  # fmt: skip
def test_functions_that_may_keep_what_they_return(function: Any) -> None:
    """What such a function returned could change behind the back of those that read it."""
    assert not keeps_nothing(function)


class NoDeepCopy:
    """What pickle can copy, and `copy` can not."""

    def __init__(self) -> None:
        self.items = [1]

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("not this way")


def test_what_only_pickle_can_copy() -> None:
    """It can be sent and stored, so it would arrive as it was changed later."""
    value = NoDeepCopy()
    copied = own_copy(value)
    value.items.append(2)
    assert copied.items == [1]


def test_a_record_of_a_structured_array_is_copied() -> None:
    """It is a view of the array: three records would arrive as the last one."""
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(1, dtype=[("n", "i8")])
    copied = own_copy(array[0])
    array[0]["n"] = 7
    assert copied["n"] == 0
    scalar = numpy.float64(1.5)
    assert own_copy(scalar) is scalar
