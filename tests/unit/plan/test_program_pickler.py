"""Classes of every usual kind that stand in a job's script arrive in workers as they were."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import pickle
import sys
import typing
import weakref
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar

import msgspec

from penstock.plan import program_pickler
from penstock.plan.pickling import dump_main_classes
{imports}

T = TypeVar("T")
Minutes = int
{kind}

if {derived}:
    # What msgspec derives from a class it keeps in the class.
    msgspec.json.Decoder(Kind)
program = program_pickler.dumps({{"record": lambda: Kind(**SAMPLE), "check": check}})
records = pickle.dumps([Kind(**SAMPLE)])
sys.stdout.buffer.write(pickle.dumps((dump_main_classes(), program, records)))
"""

WORKER = """
import pickle, sys
from penstock.plan.pickling import load_main_classes
classes, program, records = pickle.loads(sys.stdin.buffer.read())
load_main_classes(classes)
program = pickle.loads(program)
(record,) = pickle.loads(records)
import __main__
kind = vars(__main__).get("Kind")
made = program["record"]()
assert isinstance(made, dict) or type(record) is type(made) is kind, (type(record), kind)
assert record == made, (record, made)
assert pickle.loads(pickle.dumps(record)) == record
program["check"](record)
"""

STRUCT = """
class Base(msgspec.Struct, frozen=True, tag="base", rename="camel"):
    first_name: str
    many: list[int] = []

class Kind(Base, frozen=True, tag="kind", order=True):
    amount: Minutes = 3
    made: list[int] = msgspec.field(default_factory=lambda: [len("ab")], name="out")

    def __post_init__(self):
        if not self.first_name:
            raise ValueError("without a name")

    @property
    def both(self):
        return self.first_name, self.amount

    def described(self):
        return f"{self!r} {super().__repr__() == repr(self)}"

SAMPLE = {"first_name": "ann"}
def check(it):
    assert it.both == ("ann", 3) and it.made == [2] and it.many == [] and it.many is not Kind("bob").many
    assert it.described() == "Kind(first_name='ann', many=[], amount=3, made=[2]) True"
    assert Kind("a") < Kind("b") and hash(Base("x", ())) is not None
    assert msgspec.json.encode(it) == b'{"type":"kind","firstName":"ann","many":[],"amount":3,"out":[2]}'
    assert msgspec.json.decode(msgspec.json.encode(it), type=Base | Kind) == it
    assert msgspec.structs.replace(it, amount=4).amount == 4
    def decode():
        msgspec.json.decode(b'{"type":"kind","firstName":"a","amount":"x"}', type=Kind)

    for wrong in (lambda: Kind(""), decode, lambda: setattr(it, "amount", 1)):
        try:
            wrong()
        except (ValueError, AttributeError):
            continue
        raise AssertionError(wrong)
"""
GENERIC_STRUCT = """
class Kind(msgspec.Struct, Generic[T], kw_only=True, weakref=True):
    second: T
    first: datetime.date | None = None
    inner: typing.Optional[Kind[int]] = None

SAMPLE = {"second": 5}
def check(it):
    assert Kind[int] and Kind.__parameters__ == (T,)
    assert msgspec.convert({"second": 1, "first": "2024-01-02"}, Kind[int]).first == datetime.date(2024, 1, 2)
    try:
        Kind(1)
    except TypeError:
        return
    raise AssertionError("by position")
"""
DATACLASS = """
class Color(enum.Enum):
    RED = 1

@dataclasses.dataclass(order=True)
class Kind(Generic[T]):
    first: Minutes
    color: Color = Color.RED
    many: list[int] = dataclasses.field(default_factory=list)

SAMPLE = {"first": 5}
def check(it):
    assert it.color is Color.RED and Kind(1) < Kind(2) and dataclasses.replace(it, first=2).first == 2
    assert typing.get_type_hints(Kind)["color"] is Color
    assert msgspec.json.decode(b'{"first": 2, "color": 1}', type=Kind) == Kind(2)
"""
FROZEN_DATACLASS = """
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    first: int
    day: datetime.date = datetime.date(2024, 1, 1)

SAMPLE = {"first": 5}
def check(it):
    assert len({it, Kind(first=5)}) == 1
    assert not hasattr(it, "__dict__")
    assert msgspec.json.decode(b'{"first": 2, "day": "2024-05-06"}', type=Kind).day.month == 5
"""
TYPED_DICT = """
class Base(TypedDict):
    first: int

class Kind(Base, total=False):
    second: Minutes

SAMPLE = {"first": 5}
def check(it):
    assert Kind.__required_keys__ == {"first"} and typing.is_typeddict(Kind)
    assert msgspec.json.decode(b'{"first": 2, "other": 1}', type=Kind) == {"first": 2}
    try:
        msgspec.json.decode(b'{"second": 2}', type=Kind)
    except msgspec.ValidationError:
        return
    raise AssertionError("first is required")
"""
NAMED_TUPLE = """
class Kind(NamedTuple, Generic[T]):
    first: T
    second: str = "x"

    def both(self):
        return f"{self.first}{self.second}"

SAMPLE = {"first": 5}
def check(it):
    assert it.both() == "5x" and it._replace(first=1) == (1, "x") and Kind[int] and it._fields == ("first", "second")
    assert msgspec.json.decode(b'[2]', type=Kind) == Kind(2)
"""
ENUM = """
class Kind(enum.StrEnum):
    A = "a"
    B = "b"

SAMPLE = {"value": "a"}
def check(it):
    assert it is Kind.A and it.name == "A"
    assert msgspec.json.decode(b'"b"', type=Kind) is Kind.B
"""
ENUM_WITH_INIT = """
class Lengths:
    def told(self):
        return [one.length for one in Kind]

class Heaviest(enum.EnumMeta):
    @property
    def heaviest(cls):
        return max(cls, key=lambda one: one.mass)

class Kind(enum.Enum, metaclass=Heaviest):
    EARTH = 5.97, 6.37
    MARS = 0.64, 3.39
    TERRA = EARTH

    def __init__(self, mass, radius):
        self.mass = mass
        self._radius = radius
        self.lengths = Lengths

    @property
    def density(self):
        return round(self.mass / self._radius, 3)

    @enum.property
    def length(self):
        return len(self.name)

    @classmethod
    def _missing_(cls, value):
        return cls.MARS

SAMPLE = {"value": (5.97, 6.37)}
def check(it):
    assert it.density == 0.937 and Kind["TERRA"] is Kind.TERRA is it and len(Kind) == 2
    assert it.lengths is Lengths and Lengths().told() == [5, 4] and Kind("elsewhere") is Kind.MARS
    assert Kind.heaviest is it and type(Kind) is Heaviest
    assert "__new_member__" not in vars(Kind) and Kind.__init__ is not enum.Enum.__init__
"""
ENUM_WITH_NEW = """
class Labelled(bytes, enum.Enum):
    def __new__(cls, value, label):
        member = bytes.__new__(cls, [value])
        member._value_ = value
        member.label = label
        return member

class Kind(Labelled):
    FIRST = 0, "one"
    SECOND = 1, "two"

@dataclasses.dataclass
class Mass:
    kilograms: float

class Planet(Mass, enum.Enum):
    EARTH = 5.97

class Day(datetime.date, enum.Enum):
    FIRST = 2024, 1, 1

class Pair(tuple, enum.Enum):
    ONE = 1, 2

class Code(int, enum.Enum):
    def __new__(cls, value, label):
        member = int.__new__(cls, value)
        member._value_ = label
        return member

    ONE = 1, "one"

SAMPLE = {"value": 1}
def check(it):
    assert it == bytes([1]) and it.label == "two" and Kind.FIRST == bytes(1) and [one.value for one in Kind] == [0, 1]
    assert Planet.EARTH.kilograms == 5.97 and Planet(Mass(5.97)) is Planet.EARTH
    assert Day.FIRST.isoformat() == "2024-01-01" and Pair((1, 2)) == (1, 2)
    assert Code("one") == 1 and Code.ONE + 1 == 2
"""
FLAGS = """
class Kind(enum.Flag):
    NONE = 0
    R = 1
    W = 2
    X = 4
    RW = 3
    WRITE = 2

    @property
    def upper(self):
        return self.name

class Wide(enum.IntFlag, boundary=enum.KEEP):
    R = 1
    W = 2
    BOTH = 3

SAMPLE = {"value": 3}
def check(it):
    assert it is Kind.RW and it.name == it.upper == "RW" and it == Kind.R | Kind.W and Kind.NONE.name == "NONE"
    assert Kind(7).name == "R|W|X" and (Kind.RW & Kind.W) is Kind["WRITE"] and list(Kind) == [Kind.R, Kind.W, Kind.X]
    assert ~Kind.RW is Kind.X and Kind.X in Kind.RW | Kind.X
    assert Wide(3) is Wide.BOTH and Wide.BOTH.name == "BOTH" and Wide(11).value == 11
    try:
        Kind(8)
    except ValueError:
        return
    raise AssertionError("there is no such member")
"""
DECORATORS = """
@functools.lru_cache(maxsize=7, typed=True)
def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

@functools.singledispatch
def named(value):
    return "any"

@named.register
def _(value: int):
    return "int"

@named.register
def _(value: list):
    return [named(one) for one in value]

cached_length = functools.cache(len)

class Kind:
    def __init__(self, first):
        self.first = first

    def __eq__(self, other):
        return self.first == other.first

    @functools.cached_property
    def doubled(self):
        "Twice."
        return self.first * 2

    @functools.lru_cache
    @staticmethod
    def squared(number):
        return number * number

    @functools.singledispatchmethod
    def told(self, value):
        return "any"

    @told.register
    def _(self, value: int):
        return self.first, value

@named.register
def _(value: Kind):
    return "Kind"

SAMPLE = {"first": 5}
def check(it):
    assert it.doubled == 10 and vars(it)["doubled"] == 10 and Kind.doubled.__doc__ == "Twice."
    assert Kind.squared(3) == 9 and Kind.squared.cache_info().misses == 1
    assert it.told(2) == (5, 2) and it.told("") == "any"
    assert fibonacci(20) == 6765 and fibonacci.cache_parameters() == {"maxsize": 7, "typed": True}
    assert named(it) == "Kind" and named([1, ""]) == ["int", "any"] and cached_length("ab") == 2
"""
ARGUMENTS_OF_CLASSES = """
import abc

REGISTERED = {}

class Sized(abc.ABCMeta):
    def __new__(meta, name, bases, body, *, size, **further):
        body["size"] = size
        return super().__new__(meta, name, bases, body, **further)

    def __init__(cls, name, bases, body, *, size, **further):
        super().__init__(name, bases, body)

    def doubled(cls):
        return cls.size * 2

class Base(Generic[T]):
    known = []

    def __init_subclass__(cls, tag, **further):
        super().__init_subclass__(**further)
        if tag in REGISTERED:
            raise ValueError(tag)
        REGISTERED[tag] = cls
        Base.known.append(cls.__name__)

class Kind(Base[int], tag="kind", metaclass=Sized, size=3):
    __slots__ = ("first",)

    def __init__(self, first):
        self.first = first

    def __eq__(self, other):
        return self.first == other.first

class Settings(msgspec.Struct, frozen=True):
    def __init_subclass__(cls):
        Base.known.append(cls.__name__)

class Lengths(Settings):
    longest: int = 3

SAMPLE = {"first": 5}
def check(it):
    assert Kind.size == 3 and Kind.doubled() == 6 and type(Kind) is Sized
    assert REGISTERED["kind"] is Kind and Base.known == ["Kind", "Lengths"] and Lengths().longest == 3
    class Further(Base, tag="further"):
        pass
    assert Base.known[2:] == ["Further"] and REGISTERED["further"] is Further
"""
SLOTS = """
class Kind:
    __slots__ = ("first", "__hidden", "__weakref__")

    def __init__(self, first):
        self.first = first
        self.__hidden = first

    def __eq__(self, other):
        return self.__hidden == other.__hidden

SAMPLE = {"first": 5}
def check(it):
    assert not hasattr(it, "__dict__") and weakref.ref(it)() is it
"""
NESTED = """
class Outer:
    @functools.total_ordering
    class Kind(Generic[T]):
        shared = []
        def __init__(self, first):
            self.first = first
        def __eq__(self, other):
            return self.first == other.first
        def __lt__(self, other):
            return self.first < other.first
        def of(self):
            return Outer.Kind

class Named(Protocol):
    def of(self): ...

Kind = Outer.Kind
SAMPLE = {"first": 5}
def check(it):
    assert it.of() is type(it) and Kind(1) <= Kind(2) and Kind[int] and type(it).__qualname__ == "Outer.Kind"
"""
PYDANTIC = """
class Line(pydantic.BaseModel):
    price: int = 1

class Kind(pydantic.BaseModel):
    first: Minutes
    lines: list[Line] = []

    @pydantic.field_validator("first")
    @classmethod
    def positive(cls, value):
        if value < 0:
            raise ValueError("negative")
        return value

    def total(self):
        return self.first * sum(line.price for line in self.lines)

SAMPLE = {"first": 5, "lines": [{"price": 2}]}
def check(it):
    assert it.total() == 10 and isinstance(it.lines[0], Line)
    assert Kind.model_validate_json('{"first": 2, "lines": [{"price": "3"}]}').total() == 6
    assert it.model_dump() == {"first": 5, "lines": [{"price": 2}]}
    try:
        Kind(first=-1)
    except pydantic.ValidationError:
        return
    raise AssertionError("validated")
"""
ATTRS = """
@attrs.define
class Base:
    first: int

@attrs.frozen
class Kind(Base):
    second: list[int] = attrs.field(factory=list)

    def __attrs_post_init__(self):
        super().__setattr__

SAMPLE = {"first": 5}
def check(it):
    assert it == Kind(5, []) and attrs.evolve(it, first=2).first == 2 and attrs.asdict(it) == {"first": 5, "second": []}
    assert msgspec.json.decode(b'{"first": 2}', type=Kind) == Kind(2)
"""
KINDS = {
    "Struct": STRUCT,
    "generic Struct": GENERIC_STRUCT,
    "dataclass": DATACLASS,
    "frozen dataclass": FROZEN_DATACLASS,
    "TypedDict": TYPED_DICT,
    "NamedTuple": NAMED_TUPLE,
    "Enum": ENUM,
    "Enum with __init__": ENUM_WITH_INIT,
    "Enum with __new__": ENUM_WITH_NEW,
    "Flag": FLAGS,
    "decorators": DECORATORS,
    "arguments of classes": ARGUMENTS_OF_CLASSES,
    "slots": SLOTS,
    "nested": NESTED,
    "pydantic": PYDANTIC,
    "attrs": ATTRS,
}
DECODED = {"Struct", "generic Struct", "dataclass", "frozen dataclass", "TypedDict", "NamedTuple", "Enum", "attrs"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_of_the_script_arrives(kind: str, tmp_path: Path) -> None:
    """Records of a class of the script could not be read, or made, by any worker."""
    if kind in ("pydantic", "attrs"):
        pytest.importorskip(kind)
    script = tmp_path / "job.py"
    imports = f"import {kind}" if kind in ("pydantic", "attrs") else ""
    script.write_text(SCRIPT.format(imports=imports, kind=KINDS[kind], derived=kind in DECODED))
    sent = subprocess.run([sys.executable, str(script)], capture_output=True, check=False)
    assert sent.returncode == 0, sent.stderr.decode()
    assert len(pickle.loads(sent.stdout)) == 3
    done = subprocess.run([sys.executable, "-c", WORKER], input=sent.stdout, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
