"""Signatures of functions, in the form in which Flink's errors show them; arguments are checked against the same text.

`str <CHARACTER_STRING>, trimStr <CHARACTER_STRING>` names two arguments and their families. `<ANY>...` repeats the last
argument. `ARRAY<STRING>` is a type. `<COMMON>` must have a type in common with the others, `<ARRAY ELEMENT>` with the
elements of the first argument. An untyped NULL is accepted everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from penstock.table.functions.common_types import common_type, is_castable_implicitly
from penstock.table.logical_types import (
    BINARY_STRING,
    CHARACTER_STRING,
    DATETIME,
    INTEGER_NUMERIC,
    INTERVALS,
    NUMERIC,
    TIMESTAMPS,
    LogicalType,
    parse,
)

COMPARABLE = NUMERIC | CHARACTER_STRING | BINARY_STRING | DATETIME | INTERVALS | {"BOOLEAN"}

FAMILIES: dict[str, frozenset[str]] = {
    "CHARACTER_STRING": CHARACTER_STRING,
    "CHARACTER": CHARACTER_STRING,
    "BINARY_STRING": BINARY_STRING,
    "INTEGER_NUMERIC": INTEGER_NUMERIC,
    "INTEGER": INTEGER_NUMERIC,
    "NUMERIC": NUMERIC,
    "EXACT_NUMERIC": NUMERIC - {"FLOAT", "DOUBLE"},
    "BOOLEAN": frozenset({"BOOLEAN"}),
    "DATETIME": DATETIME,
    "TIMESTAMP": TIMESTAMPS,
    "DATE": frozenset({"DATE"}),
    "TIME": frozenset({"TIME"}),
    "INTERVAL": INTERVALS,
    "ARRAY": frozenset({"ARRAY"}),
    "MAP": frozenset({"MAP"}),
    "ROW": frozenset({"ROW", "STRUCTURED"}),
    "STRUCTURED": frozenset({"STRUCTURED"}),
    "COLLECTION": frozenset({"ARRAY", "MAP", "MULTISET"}),
    "BITMAP": frozenset({"BITMAP"}),
    "COMPARABLE": COMPARABLE,
    "SYMBOL": frozenset({"SYMBOL", "CHAR", "VARCHAR"}),
}


class Parameter(NamedTuple):
    """A parameter of a signature."""

    accepts: Callable[[LogicalType, Sequence[LogicalType]], bool]
    repeated: bool


@cache
def parameters_of(signature: str) -> tuple[Parameter, ...]:
    """Read a signature. Raises ValueError for a family that is not known."""
    if not signature:
        return ()
    parts = re.split(r", (?![^<]*>)", signature)
    return tuple(_parameter(part) for part in parts)


def _parameter(text: str) -> Parameter:
    repeated = text.endswith("...")
    text = text.removesuffix("...")
    family = re.search(r"(?:^| )<([A-Z_ |]+)>$", text)
    if family is None:
        expected = parse(text.partition(" ")[2] if re.match(r"[a-z]", text) else text)
        return Parameter(lambda one, _: is_castable_implicitly(one, expected), repeated)
    return Parameter(_family_check(family[1]), repeated)


def _family_check(family: str) -> Callable[[LogicalType, Sequence[LogicalType]], bool]:
    if family == "ANY":
        return lambda one, _: True
    if family == "ARRAY ELEMENT":
        return lambda one, all_types: is_castable_implicitly(one, all_types[0].children[0])
    if family == "COMMON":
        return lambda one, all_types: common_type(all_types) is not None
    roots = frozenset[str]().union(*(FAMILIES[name] for name in family.split(" | ")))
    return lambda one, _: one.root in roots or one.root == "NULL"


def accepts(signature: str, types: Sequence[LogicalType]) -> bool:
    """Tell whether arguments of these types match the signature."""
    parameters = parameters_of(signature)
    if not has_arity(signature, len(types)):
        return False
    return all(parameters[min(index, len(parameters) - 1)].accepts(one, types) for index, one in enumerate(types))


def has_arity(signature: str, count: int) -> bool:
    """Tell whether the signature has so many parameters. A repeated one may be absent."""
    parameters = parameters_of(signature)
    if parameters and parameters[-1].repeated:
        return count >= len(parameters) - 1
    return count == len(parameters)


def calcite_name(one: LogicalType) -> str:
    """Return the type as Calcite's errors write it."""
    if one.root in ("ARRAY", "MULTISET"):
        return f"{_calcite_type(one.children[0])} {one.root}"
    if one.root in CHARACTER_STRING:
        return "CHARACTER"
    if one.root in NUMERIC:
        return "NUMERIC"
    return _calcite_type(one)


def _calcite_type(one: LogicalType) -> str:
    names = {"INT": "INTEGER", "TIMESTAMP_LTZ": "TIMESTAMP_WITH_LOCAL_TIME_ZONE"}
    if one.root in CHARACTER_STRING or one.root in BINARY_STRING:
        return f"{one.root}({one.length})"
    if one.root in ("ARRAY", "MULTISET"):
        return f"{_calcite_type(one.children[0])} {one.root}"
    return names.get(one.root, one.root)
