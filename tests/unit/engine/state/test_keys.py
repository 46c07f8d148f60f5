"""The canonical encoding of keys: equal keys have equal bytes, and different keys have different bytes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import subprocess
import sys
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock.common.types import Row, RowKind
from penstock.engine.state.keys import KeyTypeError, check_key, encode_key


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1


class Shade(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    A = "a"


class Ratio(float, enum.Enum):
    HALF = 0.5


class Pair(tuple, enum.Enum):
    ORIGIN = (0, 0)


class Planet(int, enum.Enum):
    """The value is a name, yet members compare as the numbers that they are."""

    EARTH = (3, "earth")

    def __new__(cls, number, name):
        member = int.__new__(cls, number)
        member._value_ = name
        return member

    def __repr__(self):
        return self._name_


class Point(NamedTuple):
    x: int
    y: int


@dataclasses.dataclass(frozen=True)
class Route:
    origin: str
    destination: str
    note: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True)
class Trip:
    origin: str
    destination: str


@dataclasses.dataclass
class Loose:
    x: int


@dataclasses.dataclass(frozen=True, eq=False)
class Identity:
    x: int


class Oddity(str):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


NEW_YORK = ZoneInfo("America/New_York")
OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: dt.timezone(dt.timedelta(minutes=minutes)))
WHOLE_NUMBERS = st.integers(-3, 3) | st.integers(-(10**30), 10**30)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    WHOLE_NUMBERS,
    WHOLE_NUMBERS.filter(lambda n: abs(n) < 2**53).map(float),
    st.floats(allow_nan=False),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=OFFSETS),
    st.times(),
    st.times(timezones=OFFSETS),
    st.timedeltas(),
    st.decimals(allow_nan=False, min_value=-(10**30), max_value=10**30),
    st.uuids(),
    st.sampled_from([*Color, *Shade, *Level, *Word, *Ratio, *Planet]),
)
KEYS = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.tuples(inner, inner).map(lambda pair: Row(*pair))
        | st.tuples(inner, inner).map(lambda pair: Row(b=pair[0], a=pair[1]))
        | st.tuples(inner, inner).map(lambda pair: Route(*pair))
        | st.tuples(inner, inner).map(lambda pair: Trip(*pair))
    ),
    max_leaves=5,
)
SMALL = st.recursive(
    st.sampled_from(
        [
            None,
            0,
            1,
            True,
            False,
            0.0,
            -0.0,
            1.0,
            0.5,
            Decimal("0.50"),
            Decimal("-0.0"),
            "",
            "a",
            b"",
            b"a",
            Word.A,
            Level.LOW,
            Ratio.HALF,
        ]
    ),
    lambda inner: st.lists(inner, max_size=2).map(tuple) | st.builds(Row, inner) | st.builds(Trip, inner, inner),
    max_leaves=4,
)


@given(KEYS, KEYS)
def test_equal_keys_have_equal_bytes_and_no_others(a, b) -> None:
    """Records of one key would find two states, or those of two keys one."""
    assert (encode_key(a) == encode_key(b)) == (a == b)


@given(SMALL, SMALL)
def test_the_same_for_keys_that_are_often_equal(a, b) -> None:
    """1, 1.0 and True are one key of a dict, so they have to be one key of a job."""
    assert (encode_key(a) == encode_key(b)) == (a == b)
    if a == b:
        assert hash(a) == hash(b)


@given(st.lists(KEYS, max_size=4))
def test_no_encoding_runs_into_the_next(keys) -> None:
    """("a", "bc") and ("ab", "c") would be one key."""
    other = (tuple(keys[:1]), *keys[1:])
    assume(other != tuple(keys))
    assert encode_key(tuple(keys)) != encode_key(other)


@pytest.mark.parametrize(
    "equal",
    [
        (1, 1.0, True, Level.LOW),
        (0, 0.0, -0.0, False, Decimal("-0.00")),
        (0.5, Ratio.HALF, Decimal("0.5"), Decimal("0.500")),
        (Decimal("0.1"), Decimal("0.10"), Decimal("1e-1")),
        (Decimal("1e400"), 10**400, Decimal(10**400)),
        (Decimal("inf"), math.inf),
        ("a", Word.A),
        ((0, 0), Pair.ORIGIN, Point(0, 0), (False, 0.0)),
        (3, Planet.EARTH),
        (Color.RED, Color.CRIMSON),
        (Route("a", "b"), Route("a", "b", note="other")),
        (Row(a=1, b=2), Row(b=2, a=1)),
        (2**70, float(2**70)),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        (dt.time(12, tzinfo=dt.UTC), dt.time(13, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        (dt.timedelta(days=1), dt.timedelta(hours=24)),
        (
            dt.datetime(2024, 11, 3, 1, 30, tzinfo=NEW_YORK),
            dt.datetime(2024, 11, 3, 1, 30, tzinfo=NEW_YORK, fold=1),
        ),
    ],
)
def test_one_key_in_many_forms(equal) -> None:
    """A job whose sources write a key in different ways would count it twice."""
    assert all(a == b for a in equal for b in equal)
    assert len({encode_key(key) for key in equal}) == 1


@pytest.mark.parametrize(
    "different",
    [
        (1, "1", b"1", 1.5, None, (1,), Row(1), Color.RED, Shade.RED),
        (Color.RED, Color.GREEN),
        (Route("a", "b"), Trip("a", "b"), ("a", "b"), Row("a", "b")),
        (Row(1), Row(a=1), Row(b=1), Row.of_kind(RowKind.DELETE, 1)),
        (dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (dt.time(12), dt.time(12, tzinfo=dt.UTC)),
        (math.inf, -math.inf, 1e308),
        (0.1, Decimal("0.1"), Decimal("-0.1"), Decimal("0.11"), Decimal("0.01")),
        (Decimal("0.1000000000000000000000000000001"), Decimal("0.1000000000000000000000000000002")),
        (2**63, -(2**63), 2**63 + 1),
        ("\ud800", "\ud801"),
        (uuid.UUID(int=1), 1),
    ],
)
def test_keys_that_look_alike_are_kept_apart(different) -> None:
    """State of one key would be read under another."""
    assert len({encode_key(key) for key in different}) == len(different)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (math.nan, "NaN cannot be a key"),
        ((1, math.nan), "NaN cannot be a key"),
        ([1], "a list cannot be a key"),
        ({"a": 1}, "a dict cannot be a key"),
        ({1}, "a set cannot be a key"),
        (frozenset({1}), "a frozenset cannot be a key"),
        (bytearray(b"a"), "a bytearray cannot be a key"),
        (Decimal("nan"), "NaN cannot be a key"),
        (Decimal("1e20000"), "more than 10,000 digits"),
        (Fraction(1, 2), "a Fraction cannot be a key"),
        (1j, "a complex cannot be a key"),
        (object(), "a object cannot be a key"),
        (Row([1]), "a list cannot be a key"),
        (Loose(1), "the dataclass is not frozen"),
        (Identity(1), "declared with eq=False"),
        (Oddity("a"), "an? Oddity cannot be a key"),
        (Route, "a type cannot be a key"),
    ],
)
def test_what_cannot_be_a_key_is_refused(key, why: str) -> None:
    """The job would run, and lose state or mix it up."""
    for told in (encode_key, check_key):
        for part_of in (key, (1, key)):
            with pytest.raises(KeyTypeError, match=why):
                told(part_of)


def test_bytes_are_the_same_in_every_process() -> None:
    """A restarted job would look for its state in other key groups."""
    assert encode_key(("a", 1, None)).hex() == "28000000035300000001614" + "92b00000001014e"
    program = "from penstock.engine.state.keys import encode_key; print(encode_key(('JFK', 17, 2.5, None)).hex())"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    assert outputs == {encode_key(("JFK", 17, 2.5, None)).hex() + "\n"}


@dataclasses.dataclass(frozen=True)
class Folded:
    """A key class that compares names without case."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folded) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())


class NamedKey(Folded):
    def __penstock_key__(self) -> str:
        return self.name.lower()


class Rights(enum.Flag, boundary=enum.KEEP):
    READ = 1


def test_keys_with_an_equality_of_their_own() -> None:
    """Equal keys would have different bytes: one key would have two states."""
    with pytest.raises(KeyTypeError, match="__penstock_key__"):
        encode_key(Folded("a"))
    assert encode_key(NamedKey("A")) == encode_key(NamedKey("a")) != encode_key(NamedKey("b"))
    assert encode_key((NamedKey("A"), 1)) == encode_key((NamedKey("a"), 1))


class OnlyNamed:
    def __penstock_key__(self) -> str:
        return "same"


class Unhashable(OnlyNamed):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)


@pytest.mark.parametrize("key", [OnlyNamed(), Unhashable(), (1, OnlyNamed())])
def test_a_key_of_its_own_needs_an_equality_that_goes_with_it(key: Any) -> None:
    """State on the heap would never be found again, and in RocksDB only sometimes."""
    with pytest.raises(KeyTypeError, match="no matching __eq__ and __hash__"):
        encode_key(key)
    with pytest.raises(KeyTypeError, match="no matching __eq__ and __hash__"):
        check_key(key)


def test_flags_with_bits_that_have_no_name() -> None:
    """Different keys would have the same bytes, and so the same state."""
    assert len({encode_key(Rights(value)) for value in (0, 1, 2, 4, 6, 3)}) == 6


@dataclasses.dataclass(frozen=True)
class Longer(Route):
    stops: int = 0


class Named(Route):
    """A subclass that is not a dataclass itself: it is compared like a Route."""


def test_dataclasses_that_are_derived_from_one_another() -> None:
    """State of one kind of key would be found under another that has the same fields."""
    keys = [Route("a", "b"), Longer("a", "b"), Longer("a", "b", stops=1), Named("a", "b"), Trip("a", "b")]
    assert len({encode_key(key) for key in keys}) == len(set(keys)) == len(keys)
    assert encode_key(Longer("a", "b", "x", 1)) == encode_key(Longer("a", "b", "y", 1))
    assert encode_key(Named("a", "b")) == encode_key(Named("a", "b"))


@given(KEYS, KEYS)
def test_no_key_begins_with_another(a, b) -> None:
    """A key and its window are stored as one sequence of bytes: a window would be found under another key."""
    assume(a != b)
    assert not encode_key(a).startswith(encode_key(b))


@given(st.lists(SMALL, max_size=20))
def test_streams_have_the_keys_that_a_dict_has(keys) -> None:
    """A job would give other groups than `dict` does in the same program, on the same records."""
    by_bytes: dict[bytes, int] = {}
    as_dict: dict[object, int] = {}
    for key in keys:
        by_bytes[encode_key(key)] = by_bytes.get(encode_key(key), 0) + 1
        as_dict[key] = as_dict.get(key, 0) + 1
    assert [*by_bytes.values()] == [*as_dict.values()]


@given(
    st.text(alphabet=st.characters(exclude_categories=()), max_size=5),
    st.integers(min_value=-(2**200), max_value=2**200),
)
def test_every_text_and_number_is_a_key(text, number) -> None:
    """A record with a lone surrogate in its name, or a very large number, would fail the job."""
    assert encode_key(text) == encode_key(str(text)) != encode_key(text + "x")
    assert len({encode_key(number), encode_key(number + 1), encode_key(-number - 1)}) == len(
        {number, number + 1, -number - 1}
    )
