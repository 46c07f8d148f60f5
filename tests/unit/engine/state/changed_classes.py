"""Classes of a program before and after an edit: the kinds that users keep in state."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

MODULE = "a_program_of_users"
HEAD = """
import dataclasses, enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple
import attrs, msgspec, pydantic
"""
CONTAINERS = """
class Holder:
    def __init__(self, held): self.held = held
class Box(msgspec.Struct):
    held: Any
@attrs.define
class Case:
    held: Any
class Model(pydantic.BaseModel):
    held: Any
class Pair(NamedTuple):
    first: Any
    second: Any
class Named(dict):
    pass
"""
_HEADS = {
    "dataclass": "@dataclass\nclass Thing:",
    "frozen dataclass": "@dataclass(frozen=True)\nclass Thing:",
    "dataclass with slots": "@dataclass(slots=True)\nclass Thing:",
    "frozen dataclass with slots": "@dataclass(frozen=True, slots=True)\nclass Thing:",
    "NamedTuple": "class Thing(NamedTuple):",
    "Struct": "class Thing(msgspec.Struct):",
    "frozen Struct": "class Thing(msgspec.Struct, frozen=True):",
    "array-like Struct": "class Thing(msgspec.Struct, array_like=True):",
    "Struct by keyword": "class Thing(msgspec.Struct, kw_only=True):",
    "attrs class": "@attrs.define\nclass Thing:",
    "frozen attrs class": "@attrs.frozen\nclass Thing:",
    "attrs class without slots": "@attrs.define(slots=False)\nclass Thing:",
    "attrs class with a cached hash": "@attrs.frozen(cache_hash=True)\nclass Thing:",
    "pydantic model": "class Thing(pydantic.BaseModel):",
    "pydantic dataclass": "@pydantic.dataclasses.dataclass\nclass Thing:",
}
KINDS = list(_HEADS)
_LIST = {
    "dataclass": "field(default_factory=list)",
    "NamedTuple": "()",
    "Struct": "msgspec.field(default_factory=list)",
    "attrs": "attrs.field(factory=list)",
    "pydantic": "pydantic.Field(default_factory=list)",
}
"""How a field with a new list is declared, by a word in the name of the kind."""


def source(kind: str, *fields: str) -> str:
    """A class `Thing` of this kind. A field is `name: type`, or that with ` = default`; `= LIST` is a new list."""
    word = next(word for word in ("pydantic", "attrs", "NamedTuple", "Struct", "dataclass") if word in kind)
    lines = [one.replace("LIST", _LIST[word]) for one in fields]
    return "\n    ".join([_HEADS[kind], *lines])


def use(*sources: str) -> Any:
    """Return the program's module as after an edit."""
    module: Any = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    exec("\n".join([HEAD, *sources]), module.__dict__)
    return module


def fields_of(thing: Any, *names: str) -> list[Any]:
    """The values of these attributes."""
    return [getattr(thing, name) for name in names]


PLACES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "alone": (lambda program, thing: thing, lambda held: held),
    "in a list": (lambda program, thing: [thing], lambda held: held[0]),
    "in a dict": (lambda program, thing: {"k": thing}, lambda held: held["k"]),
    "in a tuple": (lambda program, thing: (1, (thing,)), lambda held: held[1][0]),
    "in an object": (lambda program, thing: program.Holder(thing), lambda held: held.held),
    "in a Struct": (lambda program, thing: program.Box(thing), lambda held: held.held),
    "in an attrs class": (lambda program, thing: program.Case(thing), lambda held: held.held),
    "in a model": (lambda program, thing: program.Model(held=thing), lambda held: held.held),
    "in a NamedTuple": (lambda program, thing: program.Pair(1, thing), lambda held: held.second),
    "in a subclass of dict": (lambda program, thing: program.Named(k=thing), lambda held: held["k"]),
    "deep": (
        lambda program, thing: [{"k": program.Holder(program.Box([thing]))}],
        lambda held: held[0]["k"].held.held[0],
    ),
}
"""Where a thing is kept: how it is put there, and found again."""
