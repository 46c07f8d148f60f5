"""Decorators of functools on a script's functions and methods arrive in workers."""

from __future__ import annotations

from pathlib import Path

from tests.unit.engine.plan.sent_classes import check_arrival

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


def test_decorated_functions_arrive(tmp_path: Path) -> None:
    """A job whose script caches a function, or has a cached property, would not start."""
    check_arrival(DECORATORS, tmp_path)
