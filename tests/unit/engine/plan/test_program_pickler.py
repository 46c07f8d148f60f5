"""Classes of every usual kind that stand in a job's script arrive in workers as they were."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.plan.sent_classes import check_arrival

from penstock.engine.plan.program_pickler import dumps

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
    "slots": SLOTS,
    "nested": NESTED,
    "pydantic": PYDANTIC,
    "attrs": ATTRS,
}
KINDS_IN_FAST = {"Struct", "dataclass"}
"""Each kind starts a process: `make test-fast` has the commonest ones."""
DECODED = {"Struct", "generic Struct", "dataclass", "frozen dataclass", "TypedDict", "NamedTuple", "Enum", "attrs"}


@pytest.mark.parametrize(
    "kind", [kind if kind in KINDS_IN_FAST else pytest.param(kind, marks=pytest.mark.thorough) for kind in KINDS]
)
def test_a_class_of_the_script_arrives(kind: str, tmp_path: Path) -> None:
    """Records of a class of the script could not be read, or made, by any worker."""
    if kind in ("pydantic", "attrs"):
        pytest.importorskip(kind)
    imports = f"import {kind}" if kind in ("pydantic", "attrs") else ""
    check_arrival(KINDS[kind], tmp_path, imports, kind in DECODED)


def test_code_keeps_the_name_of_its_file() -> None:
    """The traceback of a function of the script would not show the user's line."""
    script: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def outer():\n    return lambda: 1\n", "/there/job.py", "exec"), script)
    outer = pickle.loads(dumps(script["outer"]))
    assert outer.__code__.co_filename == outer().__code__.co_filename == "/there/job.py"
    exec(compile("def job():\n    return 1\n", "job", "exec"), script)
    assert pickle.loads(dumps(script["job"])).__code__.co_filename == "job", "as the function is called"
