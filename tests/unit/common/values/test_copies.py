"""Copies of values that can be changed, and how it is known that a function keeps nothing."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import threading
import types
from typing import Any, NamedTuple

import msgspec
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.output_tag import OutputTag
from penstock.common.functions.escape_analysis import keeps_nothing
from penstock.common.types import Row
from penstock.common.values.copies import independent_copy


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
    assert independent_copy(value) is value


def changeable() -> list[Any]:
    return [
        [1, 2], {"a": [1]}, {1, 2}, bytearray(b"a"), ([1], 2), (1, ("a", {"b": 2})), Point([1], 2), Open([1]),
        Frozen("a", [1]), FrozenStruct("a", {"b": 1}), OpenStruct("a", [1]), [Open([1])], Row(a=[1], b=2),
    ]  # fmt: skip


@pytest.mark.parametrize("value", changeable(), ids=repr)
def test_what_can_be_changed_is_copied_with_all_that_is_in_it(value: Any) -> None:
    """A list inside of a tuple would change after it was emitted."""
    copied = independent_copy(value)
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
    copied = independent_copy((1, value))[1]
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
    copied = independent_copy(around(inner))
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
    copied = independent_copy(value)
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

    assert independent_copy(Careful()).copies == 1
    slotted = Slotted()
    slotted.items = [1]
    copied = independent_copy(slotted)
    slotted.items.append(2)
    assert copied.items == [1]


def test_a_value_that_contains_itself() -> None:
    """A job would end with a RecursionError in its runtime."""
    value: list[Any] = [1]
    value.append(value)
    copied = independent_copy(value)
    assert copied is not value and copied[1] is copied


def test_what_can_not_be_copied_is_passed_on() -> None:
    """A chain that hands a connection from one function to the next would fail."""
    lock = threading.Lock()
    assert independent_copy([lock])[0] is lock


def test_subclasses_of_immutable_types_may_be_changed() -> None:
    """An attribute of such a value would change after it was emitted."""

    class Tagged(str):
        tags: list[str]

    value = Tagged("a")
    value.tags = ["x"]
    copied = independent_copy(value)
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
    copied = independent_copy(value)
    assert copied == value and not shared(copied, value)


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
    copied = independent_copy(value)
    value.items.append(2)
    assert copied.items == [1]


def test_a_record_of_a_structured_array_is_copied() -> None:
    """It is a view of the array: three records would arrive as the last one."""
    numpy = pytest.importorskip("numpy")
    array = numpy.zeros(1, dtype=[("n", "i8")])
    copied = independent_copy(array[0])
    array[0]["n"] = 7
    assert copied["n"] == 0
    scalar = numpy.float64(1.5)
    assert independent_copy(scalar) is scalar


@pytest.mark.parametrize("kind", ["frame", "series", "within"])
def test_cells_of_frames_are_copied(kind: str) -> None:
    """A list in a cell would change in what was emitted, and in the state of another key."""
    tags, text = ["a"], "text"
    frame = pd.DataFrame({"n": [1, 2], "tags": pd.Series([tags, None], dtype=object), "text": [text, "b"]})
    given = {"frame": frame, "series": frame["tags"], "within": {"tags": tags, "frame": frame}}[kind]
    copied = independent_copy(given)
    tags.append("b")
    frame.loc[0, "n"] = 7
    cells = {"frame": lambda: copied["tags"], "series": lambda: copied, "within": lambda: copied["frame"]["tags"]}[
        kind
    ]()
    assert type(copied) is type(given)
    assert cells[0] == ["a"]
    if kind == "frame":
        assert copied["n"].tolist() == [1, 2] and copied.dtypes.equals(frame.dtypes)
    if kind == "within":
        assert copied["tags"] is cells[0], "what occurs twice is one object"
