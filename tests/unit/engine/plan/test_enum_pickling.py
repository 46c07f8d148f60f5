"""Enums of a job's script arrive in workers as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.plan.sent_classes import check_arrival

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


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [ENUM_WITH_INIT, ENUM_WITH_NEW, FLAGS], ids=["init", "new", "flags"])
def test_an_enum_arrives_as_it_was(kind: str, tmp_path: Path) -> None:
    """Members would lack attributes, names or content in workers, some of them without an error."""
    check_arrival(kind, tmp_path)
