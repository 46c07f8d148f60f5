"""What the copy of a record costs by its kind, beside its pickling and unpickling. One process, no Spark.

`make bench` has no item of it: run it by itself, `python -m benchmarks.copies`. Of each kind the fastest of many short
turns counts, so that other programs on the machine matter little.
"""

from __future__ import annotations

import collections
import dataclasses
import pickle
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy

from penstock.common import Row
from penstock.common.values.copies import independent_copy

_TURNS, _TURN_S = 60, 0.001


class Plain:
    """A class with attributes."""

    def __init__(self, number: int, part: Any) -> None:
        self.number = number
        self.part = part


class Slots:
    """A class with slots."""

    __slots__ = ("number", "part")

    def __init__(self, number: int, part: Any) -> None:
        self.number = number
        self.part = part


@dataclasses.dataclass(frozen=True)
class Frozen:
    """A frozen dataclass."""

    number: int
    part: Any


class Named(NamedTuple):
    """A tuple with names."""

    number: int
    part: Any


@dataclasses.dataclass
class Data:
    """A dataclass."""

    number: int
    part: Any


@dataclasses.dataclass(slots=True)
class DataInSlots:
    """A dataclass with slots."""

    number: int
    part: Any


class Record(msgspec.Struct):
    """A Struct."""

    number: int
    part: Any


_USER = {"name": "x", "age": 3}
_KINDS: dict[str, Any] = {
    "list of 3 numbers": [1, 2, 3],
    "list of 100 numbers": list(range(100)),
    "dict of three fields": {"id": 1, "name": "x", "value": 2.5},
    "dict of ten fields": {f"field{number}": number for number in range(10)},
    "dict of lists": {name: [1, 2, 3] for name in "abc"},
    "nested dict": {"id": 1, "user": _USER},
    "dict, three levels": {"id": 1, "user": {**_USER, "place": {"lat": 1.0, "lon": 2.0}}, "tags": ["a", "b"]},
    "list of 3 dicts of two": [{"key": number, "value": "x"} for number in range(3)],
    "list of 10 dicts of two": [{"key": number, "value": "x"} for number in range(10)],
    "list of 10 dicts of four": [{"key": number, "value": "x", "a": 1.5, "b": None} for number in range(10)],
    "list of 1,000 dicts of two": [{"key": number, "value": "x"} for number in range(1000)],
    "list of 100 dicts of six": [{f"field{field}": number for field in range(6)} for number in range(100)],
    "dict with a list of 10 dicts of two": {"id": 1, "rows": [{"key": n, "value": "x"} for n in range(10)]},
    "list of 10 lists": [[number, 2, 3] for number in range(10)],
    "list of 10 pairs": [(number, "x") for number in range(10)],
    "tuple with a list": ("key", [1, 2, 3]),
    "tuple with a dict": ("key", {"id": 1, "name": "x", "value": 2.5}),
    "set": {1, 2, 3},
    "bytearray": bytearray(100),
    "deque": collections.deque([1, 2, 3]),
    "numpy array of 100 numbers": numpy.arange(100),
    "object": Plain(1, "x"),
    "object in an object": Plain(1, Plain(2, "x")),
    "list of 10 objects": [Plain(number, "x") for number in range(10)],
    "object with slots": Slots(1, "x"),
    "dataclass": Data(1, "x"),
    "dataclass with slots": DataInSlots(1, "x"),
    "frozen dataclass with a list": Frozen(1, [1, 2]),
    "Struct": Record(1, "x"),
    "Struct with a list": Record(1, [1, 2]),
    "NamedTuple with a list": Named(1, [1, 2]),
    "Row": Row(a=1, b="x"),
    "Row with a list": Row(a=1, b=[1, 2]),
}


def pickled(value: Any) -> Any:
    """Return a copy by pickle."""
    return pickle.loads(pickle.dumps(value, protocol=5))


def microseconds(value: Any) -> tuple[float, float]:
    """Return what a copy and a pickling with its unpickling take in their fastest turns, which alternate."""
    copies: tuple[Callable[[Any], Any], ...] = (independent_copy, pickled)
    best = [float("inf")] * len(copies)
    begun = time.perf_counter()
    pickled(value)
    calls = max(1, int(_TURN_S / (time.perf_counter() - begun)))
    for _ in range(_TURNS):
        for which, copy in enumerate(copies):
            begun = time.perf_counter()
            for _ in range(calls):
                copy(value)
            best[which] = min(best[which], (time.perf_counter() - begun) / calls * 1e6)
    return best[0], best[1]


def main() -> None:
    """Print a line for each kind of record."""
    print("| record | copy, \u00b5s | pickle and back, \u00b5s | ratio |\n| --- | ---: | ---: | ---: |")
    for name, value in _KINDS.items():
        own, other = microseconds(value)
        print(f"| {name} | {own:.2f} | {other:.2f} | {own / other:.2f} |")


if __name__ == "__main__":
    main()
