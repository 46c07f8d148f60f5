"""Classes of the script are made again without what the script does when a class is made."""

from __future__ import annotations

from pathlib import Path

from tests.unit.engine.plan.sent_classes import check_arrival

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


def test_classes_with_arguments_arrive(tmp_path: Path) -> None:
    """A worker does not know the arguments, and what registers classes would do so twice."""
    check_arrival(ARGUMENTS_OF_CLASSES, tmp_path)
