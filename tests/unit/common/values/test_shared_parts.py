"""Copies of values in which an object occurs twice, and of objects of every kind of class."""

from __future__ import annotations

import collections
import copy
import dataclasses
import pickle
import threading
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.common.values.test_copies import Frozen, FrozenStruct, Open, OpenStruct, Point

from penstock.common.types import Row
from penstock.common.values.copies import independent_copy


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
    copied = independent_copy([make(node, node), node])
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
    independent_copy(value)


@pytest.mark.parametrize("kind", [Node, SlottedNode, ListOfItsOwn, Row])
def test_an_object_that_refers_to_itself(kind: Any) -> None:
    """A job would end with a RecursionError in its runtime, or a parent not know its own children."""
    value = kind() if kind is not Row else Row(a=None)
    if kind is Row:
        value["a"] = [value]
        copied = independent_copy(value)
        assert copied is not value and copied["a"][0] is copied
    elif kind is ListOfItsOwn:
        value.append((value,))
        copied = independent_copy(value)
        assert copied is not value and type(copied) is kind and copied[0][0] is copied
    else:
        value.parts.append({"parent": value})
        copied = independent_copy(value)
        assert copied is not value and type(copied) is kind and copied.parts[0]["parent"] is copied


def test_a_tuple_that_is_part_of_its_own_list() -> None:
    """A tuple is made of its parts at once, and one of them may refer to it already."""
    items: list[Any] = []
    value = (items, 1)
    items.append(value)
    copied = independent_copy(value)
    assert copied is not value and copied[0][0] is copied


@pytest.mark.parametrize(
    "make", [lambda n: {"n": n}, lambda n: [n], lambda n: (n, [n])], ids=["dicts", "lists", "tuples"]
)
def test_a_row_that_occurs_twice_in_a_table(make: Any) -> None:
    """Marking a row would mark one of its places only, or the row of the record that was emitted."""
    rows = [make(number) for number in range(8)]
    copied = independent_copy([*rows, rows[3]])
    assert copied == [*rows, rows[3]] and copied[3] is copied[8] and copied[3] is not rows[3]
    copied = independent_copy({"best": rows[3], "rows": rows, "last": rows[5]})
    assert copied["best"] is copied["rows"][3] and copied["last"] is copied["rows"][5]
    assert copied["rows"] == rows and copied["rows"][0] is not rows[0]


def test_a_row_of_a_table_with_something_that_can_be_changed() -> None:
    """The last row of a table, or a key of it, would change after it was emitted, since those before are plain."""
    plain: list[Any] = [{"n": number} for number in range(8)]
    for odd in ({"n": Node()}, {Node(): 1}):
        copied = independent_copy([*plain, odd])
        assert all(one is not other for one, other in zip(copied, [*plain, odd], strict=True))
        assert next(iter(nodes_in(copied, {}))) not in nodes_in(odd, {})


def test_a_slot_without_a_value_has_none_in_the_copy() -> None:
    """A class with slots that are filled later could not be copied."""
    copied = independent_copy(SlottedNode(1))
    assert copied.parts == [1] and not hasattr(copied, "missing")


def test_a_frozen_class_with_a_field_that_has_no_value() -> None:
    """A field that is computed later would end the job."""

    @dataclasses.dataclass(frozen=True)
    class Late:
        items: list[int]
        total: int = dataclasses.field(init=False)

    value = Late([1])
    copied = independent_copy(value)
    value.items.append(2)
    assert copied.items == [1]


def test_a_copy_by_a_method_that_fails_leaves_nothing_half_copied() -> None:
    """A model with a lock among its fields would lose all fields when it is emitted to the next function."""

    class Model:
        def __init__(self) -> None:
            self.parts = [1]
            self.lock = threading.Lock()

        def __deepcopy__(self, memo: dict[int, Any]) -> Model:
            other = Model.__new__(Model)
            other.__dict__ = copy.deepcopy(self.__dict__, memo)
            return other

    model, shared = Model(), [2]
    first, copied, last = independent_copy([shared, model, shared])
    assert copied.parts == [1] and copied.parts is not model.parts and copied.lock is model.lock
    assert first is last is not shared


def test_temporary_parts_are_not_taken_for_each_other() -> None:
    """Objects that hand out their state as new lists would share one copy, by the identity of freed memory."""

    class Fresh:
        def __init__(self, number: int) -> None:
            self.number = number

        def __getstate__(self) -> Any:
            return {"state": [self.number]}

        def __setstate__(self, state: Any) -> None:
            self.number = state["state"][0]

    copied = independent_copy([Fresh(number) for number in range(100)])
    assert [one.number for one in copied] == list(range(100))


def test_a_graph_arrives_as_one_at_the_next_function() -> None:
    """Nodes that edges refer to would be others than those in the list of nodes."""
    node = Node()
    graph = {"nodes": [node], "edges": [(node, node)]}
    copied = independent_copy(graph)
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
    copied, pickled = independent_copy(record), pickle.loads(pickle.dumps(record))
    assert copied == pickled == record
    for one in (copied, pickled):
        assert one[0] is one[1] is one[2]["again"]
