"""`= <> < <= > >=`, IS DISTINCT FROM, BETWEEN and IN, with the three values of SQL's logic.

Source: Flink docs, "System (Built-in) Functions", comparison; what may be compared as in its planner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.cast_numbers import to_float
from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, all_null, is_constant, per_row
from penstock.table.functions.common_types import common_type
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.functions.signatures import COMPARABLE
from penstock.table.logical_types import (
    APPROXIMATE_NUMERIC,
    BOOLEAN,
    CHARACTER_STRING,
    DATETIME,
    INTEGER_NUMERIC,
    NUMERIC,
    ROWS,
    LogicalType,
)

FAMILY = Family()

_SQL_NAMES = {"INT": "INTEGER"}


def comparable(left: LogicalType, right: LogicalType) -> None:
    """Raise InvalidCallError if values of the types cannot be compared."""
    if "NULL" in (left.root, right.root):
        return
    for one, other in ((left, right), (right, left)):
        if one.root in CHARACTER_STRING and other.root in NUMERIC | {"BOOLEAN"}:
            raise InvalidCallError(
                f"implicit type conversion between {one.root} and {_SQL_NAMES.get(other.root, other.root)} is not"
                " supported now"
            )
        if one.root in CHARACTER_STRING and other.root in DATETIME:
            return
    if left.class_name and right.class_name and left.class_name != right.class_name:
        raise InvalidCallError(f"Incompatible structured types: {left.class_name} and {right.class_name}")
    if common_type([left, right]) is None:
        raise InvalidCallError(f"Cannot apply '=' to arguments of type '<{left.summary}> = <{right.summary}>'")


def _result(arguments: Arguments) -> LogicalType:
    first, *others = arguments.types
    for other in others:
        comparable(first, other)
    return BOOLEAN.with_nullability(arguments.nullable)


def _ordered_result(arguments: Arguments) -> LogicalType:
    for one in arguments.types:
        if one.root not in COMPARABLE | {"NULL"}:
            raise InvalidCallError(f"values of the type {one} have no order")
    return _result(arguments)


def aligned(columns: list[Column], types: list[LogicalType], zone: str) -> list[Column]:
    """Return two columns as values that Arrow compares as Flink does."""
    left, right = types
    if "NULL" in (left.root, right.root):
        other = right if left.root == "NULL" else left
        return [
            all_null([one], arrow_type(other)) if kind.root == "NULL" else one
            for one, kind in zip(columns, types, strict=True)
        ]
    for index, other in ((0, right), (1, left)):
        if types[index].root in CHARACTER_STRING and other.root in DATETIME:
            columns[index] = cast(columns[index], types[index], other, zone)
            return columns
    if {left.root, right.root} == {"TIMESTAMP", "TIMESTAMP_LTZ"} or (
        "DATE" in (left.root, right.root) and left.root != right.root
    ):
        common = common_type(types) or left
        return [cast(one, kind, common, zone) for one, kind in zip(columns, types, strict=True)]
    if {left.root, right.root} & {"FLOAT", "DOUBLE"} and "DECIMAL" in (left.root, right.root):
        return [to_float(one, kind) for one, kind in zip(columns, types, strict=True)]
    if {left.root, right.root} & APPROXIMATE_NUMERIC and {left.root, right.root} & INTEGER_NUMERIC:
        # As in Java, an integer becomes the nearest number of the other type. Arrow would refuse large ones.
        nearest = pa.float64() if "DOUBLE" in (left.root, right.root) else pa.float32()
        return [one.cast(nearest, safe=False) for one in columns]
    return columns


def compare(call: Call, kernel: Callable[[Any, Any], Any], operator: Callable[[Any, Any], bool]) -> Column:
    """Compare two columns by a kernel, nested values by a Python operator."""
    columns = aligned(list(call.columns), list(call.types), call.context.zone)
    if any(one.children for one in call.types):
        if any(one.root in ROWS for one in call.types):  # names do not matter
            return per_row(lambda x, y: operator(plain(x), plain(y)), columns, pa.bool_())
        return per_row(operator, columns, pa.bool_())
    return kernel(*columns)


def plain(value: Any) -> Any:
    """Return a value that compares by position, not by the names of fields; maps compare as sets of entries."""
    if isinstance(value, dict):
        return tuple(plain(one) for one in value.values())
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    return value


_KERNELS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], bool]]] = {
    "=": (pc.equal, lambda x, y: x == y),
    "<>": (pc.not_equal, lambda x, y: x != y),
    "<": (pc.less, lambda x, y: x < y),
    "<=": (pc.less_equal, lambda x, y: x <= y),
    ">": (pc.greater, lambda x, y: x > y),
    ">=": (pc.greater_equal, lambda x, y: x >= y),
}
_ALIASES = {
    "=": "EQUALS", "<>": "NOT_EQUALS", "<": "LESS_THAN", "<=": "LESS_THAN_OR_EQUAL", ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
}  # fmt: skip
_PAIR = ["<ANY>, <ANY>"]


def _register(name: str) -> None:
    kernel, operator = _KERNELS[name]

    @FAMILY.kernel(name, _ALIASES[name], signatures=_PAIR, result=_result if name in ("=", "<>") else _ordered_result)
    def _(call: Call) -> Column:
        return compare(call, kernel, operator)


for _name in _KERNELS:
    _register(_name)


def _with(call: Call, left: int, right: int, name: str) -> Column:
    pair = replace(call, columns=[call.columns[left], call.columns[right]], types=[call.types[left], call.types[right]])
    return compare(pair, *_KERNELS[name])


@FAMILY.kernel("IS DISTINCT FROM", signatures=_PAIR, result=_result, nullable=False)
def is_distinct_from(call: Call) -> Column:
    """Tell whether values differ; NULL differs from all but NULL."""
    unequal = _with(call, 0, 1, "<>")
    one_null = pc.xor(pc.is_null(call.columns[0]), pc.is_null(call.columns[1]))
    return pc.coalesce(pc.if_else(one_null, True, unequal), pa.scalar(False))


@FAMILY.kernel("IS NOT DISTINCT FROM", signatures=_PAIR, result=_result, nullable=False)
def is_not_distinct_from(call: Call) -> Column:
    """Tell whether values are the same; NULL is the same as NULL."""
    return pc.invert(is_distinct_from(call))


_THREE = ["<ANY>, <ANY>, <ANY>"]


@FAMILY.kernel("BETWEEN", signatures=_THREE, result=_ordered_result)
def between(call: Call) -> Column:
    """Tell whether a value lies between two others, both included."""
    return pc.and_kleene(_with(call, 0, 1, ">="), _with(call, 0, 2, "<="))


@FAMILY.kernel("NOT BETWEEN", signatures=_THREE, result=_ordered_result)
def not_between(call: Call) -> Column:
    """Tell whether a value lies outside of two others."""
    return pc.invert(between(call))


@FAMILY.kernel("IN", signatures=["<ANY>, <ANY>..."], result=_result)
def is_in(call: Call) -> Column:
    """Tell whether a value is one of a list: unknown if it is not, and NULL is."""
    value, *listed = call.columns
    if not is_constant(value) and not pa.types.is_nested(value.type) and all(
        is_constant(one) and one.is_valid and one.type == value.type for one in listed
    ):  # fmt: skip
        found = pc.is_in(value, value_set=pa.array([one.as_py() for one in listed], value.type))
        return pc.if_else(pc.is_valid(value), found, pa.scalar(None, pa.bool_()))
    return reduce(pc.or_kleene, [_with(call, 0, index, "=") for index in range(1, len(call.columns))])


@FAMILY.kernel("NOT IN", signatures=["<ANY>, <ANY>..."], result=_result)
def is_not_in(call: Call) -> Column:
    """Tell whether a value differs from all of a list: unknown if NULL is in it."""
    return pc.invert(is_in(call))
