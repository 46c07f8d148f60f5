"""What a function takes along that can't be pickled: found, and named as the user's code names it.

A function takes along the variables that it refers to, an object its attributes; pickle's error names only the type of
what it failed on, which may be far behind the variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from penstock.common.functions.driver_only import DriverOnly

_STEPS_MAX = 50
_ITEMS_MAX = 1000


@dataclass(frozen=True)
class Captured:
    """`value` can't be pickled, and nothing in it is to blame. `name`: how it is referred to, empty if by nothing."""

    value: Any
    name: str


def to_blame(value: Any, can_be_pickled: Callable[[Any], bool]) -> Captured:
    """Look in `value`, which can't be pickled, for the innermost part that can't be."""
    name, seen = "", {id(value)}
    while len(seen) < _STEPS_MAX and not isinstance(value, DriverOnly):
        unsound = (part for part in _parts(value) if id(part[1]) not in seen and not can_be_pickled(part[1]))
        found = next(unsound, None)
        if found is None:
            break
        step, part = found
        # A variable is a name by itself; before the first one there are only our own objects and the user's function.
        name = step if step.isidentifier() else (name or type(value).__name__) + step
        value = part
        seen.add(id(value))
    return Captured(value, name)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What is pickled with `value`: the name of a variable, or `.attribute` or `[key]`, and what it refers to."""
    if isinstance(value, FunctionType):
        yield from _variables(value)
    elif isinstance(value, MethodType):
        yield "self", value.__self__
    elif isinstance(value, functools.partial):
        yield from _items([value.func, *value.args])
        yield from value.keywords.items()
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in list(value.items())[:_ITEMS_MAX])
    elif isinstance(value, (list, tuple)):
        yield from _items(value)
    else:
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _items(values: Any) -> Iterator[tuple[str, Any]]:
    return ((f"[{position}]", part) for position, part in enumerate(values[:_ITEMS_MAX]))


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            """It has no value yet."""
    for name in dict.fromkeys(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes that a function and those inside it refer to."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
