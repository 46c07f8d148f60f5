"""Functions of arrays, and access to elements. Elements are compared by value, NULL is the same as NULL.

Source: Flink docs, "System (Built-in) Functions", collection functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, per_row
from penstock.table.functions.common_types import common_type
from penstock.table.functions.comparison import plain
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family, Function
from penstock.table.functions.signatures import COMPARABLE
from penstock.table.logical_types import BOOLEAN, INT, STRING, LogicalType, array_of

FAMILY = Family()
_ORDERED = COMPARABLE - {"BOOLEAN"}


def element_of(one: LogicalType) -> LogicalType:
    """Return the type of the elements of an array."""
    if one.root != "ARRAY":
        raise InvalidCallError(f"expected an ARRAY, got {one}")
    return one.children[0]


def common_elements(arguments: Arguments) -> LogicalType:
    """Return the array type to which all arrays are converted."""
    found = common_type(arguments.types)
    if found is None or found.root not in ("ARRAY", "NULL"):
        raise InvalidCallError("expected arrays with elements of a common type")
    if found.root == "NULL":
        return array_of(found)
    return found


def _literal_elements(arguments: Arguments) -> LogicalType:
    if not arguments.types:
        return array_of(LogicalType("NULL")).with_nullability(False)
    found = common_type(arguments.types)
    if found is None:
        raise InvalidCallError("the elements of an array must have a common type")
    return array_of(found).with_nullability(False)


def _as_result(call: Call, index: int, goal: LogicalType) -> Column:
    """Return an argument as values of a type. Fields of rows get the names of that type."""
    return cast(call.columns[index], call.types[index], goal)


@FAMILY.kernel("ARRAY", signatures=["<ANY>..."], result=_literal_elements)
def array(call: Call) -> Column:
    """Make an array of the arguments."""
    columns = [_as_result(call, index, call.result.children[0]) for index in range(len(call.columns))]
    if not columns:
        return pa.scalar([], call.arrow_type)
    return per_row(lambda *values: list(values), columns, call.arrow_type, nulls=True)


@FAMILY.kernel("CARDINALITY", signatures=["<COLLECTION>"], result=INT)
def cardinality(call: Call) -> Column:
    """Return the number of elements or entries."""
    if call.types[0].root == "ARRAY":
        return pc.list_value_length(call.columns[0])
    return per_row(len, call.columns, pa.int32())


def _with_element(arguments: Arguments) -> LogicalType:
    kind, added = arguments.types
    element_type = element_of(kind)
    return array_of(element_type.with_nullability(element_type.nullable or added.nullable)).with_nullability(
        kind.nullable
    )


def _register_with_element(name: str, signature: str, result: Any, function: Callable[[list[Any], Any], Any]) -> None:
    @FAMILY.kernel(name, signatures=[signature], result=result)
    def _(call: Call) -> Column:
        """The array is not NULL in `function`, the element may be."""
        columns = [call.columns[0], _as_result(call, 1, element_of(call.types[0]))]
        return per_row(
            lambda values, one: None if values is None else function(values, one), columns, call.arrow_type, nulls=True
        )


def _result(kind: LogicalType) -> Callable[[Arguments], LogicalType]:
    return lambda one: kind.with_nullability(one.types[0].nullable)


_ADDED = "array <ARRAY>, element <ARRAY ELEMENT>"
_SOUGHT = "haystack <ARRAY>, needle <ARRAY ELEMENT>"
_register_with_element("ARRAY_APPEND", _ADDED, _with_element, lambda values, one: [*values, one])
_register_with_element("ARRAY_PREPEND", _ADDED, _with_element, lambda values, one: [one, *values])
_register_with_element(
    "ARRAY_CONTAINS", _SOUGHT, _result(BOOLEAN), lambda values, one: any(_same(value, one) for value in values)
)
_register_with_element(
    "ARRAY_REMOVE",
    _SOUGHT,
    lambda one: one.types[0],
    lambda values, one: [value for value in values if not _same(value, one)],
)
_register_with_element(
    "ARRAY_POSITION",
    _SOUGHT,
    lambda one: INT.with_nullability(one.nullable),
    lambda values, one: _position(values, one),
)


def _position(values: list[Any], one: Any) -> int | None:
    if one is None:
        return None
    return next((index for index, value in enumerate(values, 1) if _same(value, one)), 0)


def _same(left: Any, right: Any) -> bool:
    return bool(plain(left) == plain(right))


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the values in order, each once."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_key(value), value)
    return list(found.values())


def _key(value: Any) -> Any:
    """Return what is hashable for a value; maps are the same whatever the order of their entries."""
    if isinstance(value, dict):
        return tuple(_key(one) for one in value.values())
    if isinstance(value, list):
        if value and all(isinstance(one, tuple) for one in value):
            return frozenset((_key(key), _key(item)) for key, item in value)
        return ("array", *(_key(one) for one in value))
    return value


@FAMILY.kernel("ARRAY_DISTINCT", signatures=["haystack <ARRAY>"], result=lambda one: one.types[0])
def array_distinct(call: Call) -> Column:
    """Return the elements, each once."""
    return per_row(distinct, call.columns, call.arrow_type)


@FAMILY.kernel("ARRAY_REVERSE", signatures=["haystack <ARRAY>"], result=lambda one: one.types[0])
def array_reverse(call: Call) -> Column:
    """Return the elements in reverse."""
    return per_row(lambda values: values[::-1], call.columns, call.arrow_type)


def _register_common(name: str, signature: str, function: Callable[..., list[Any]]) -> None:
    @FAMILY.kernel(name, signatures=[signature], result=common_elements)
    def _(call: Call) -> Column:
        columns = [_as_result(call, index, call.result) for index in range(len(call.columns))]
        return per_row(function, columns, call.arrow_type)


def _joined(*arrays: Sequence[Any]) -> list[Any]:
    return [value for one in arrays for value in one]


def _union(*arrays: Sequence[Any]) -> list[Any]:
    return distinct(_joined(*arrays))


def _except(values: list[Any], others: list[Any]) -> list[Any]:
    excluded = {_key(one) for one in others}
    return distinct(value for value in values if _key(value) not in excluded)


def _intersect(values: list[Any], others: list[Any]) -> list[Any]:
    wanted = {_key(one) for one in others}
    return distinct(value for value in values if _key(value) in wanted)


_register_common("ARRAY_UNION", "<COMMON>, <COMMON>", _union)
_register_common("ARRAY_CONCAT", "<COMMON>, <COMMON>...", _joined)
_register_common("ARRAY_EXCEPT", "<COMMON>, <COMMON>", _except)
_register_common("ARRAY_INTERSECT", "<COMMON>, <COMMON>", _intersect)


def _ordered_element(arguments: Arguments) -> LogicalType:
    one = element_of(arguments.types[0])
    if one.root not in _ORDERED:
        raise InvalidCallError(f"elements of the type {one} have no order")
    return one.with_nullability(True)


def _register_extreme(name: str, pick: Callable[[list[Any]], Any]) -> None:
    def function(values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        return pick(known) if known else None

    def kernel(call: Call) -> Column:
        return per_row(function, call.columns, call.arrow_type)

    FAMILY.add(Function(name, ("<ANY>",), _ordered_element, kernel))


_register_extreme("ARRAY_MAX", max)
_register_extreme("ARRAY_MIN", min)


def _sorted_type(arguments: Arguments) -> LogicalType:
    _ordered_element(arguments)
    return arguments.types[0].with_nullability(arguments.nullable)


@FAMILY.kernel(
    "ARRAY_SORT", signatures=["<ARRAY>", "<ARRAY>, <BOOLEAN>", "<ARRAY>, <BOOLEAN>, <BOOLEAN>"], result=_sorted_type
)
def array_sort(call: Call) -> Column:
    """Sort: ARRAY_SORT(array[, ascending[, nulls first]]). NULLs are first if ascending, unless told otherwise."""

    def ordered(values: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
        known = sorted((value for value in values if value is not None), reverse=not ascending)
        nulls = [None] * (len(values) - len(known))
        return nulls + known if (ascending if nulls_first is None else nulls_first) else known + nulls

    return per_row(ordered, [call.columns[0], *(one.cast(pa.bool_()) for one in call.columns[1:])], call.arrow_type)


@FAMILY.kernel(
    "ARRAY_JOIN", result=STRING,
    signatures=["ARRAY<STRING>, <CHARACTER_STRING>", "ARRAY<STRING>, <CHARACTER_STRING>, <CHARACTER_STRING>"],
)  # fmt: skip
def array_join(call: Call) -> Column:
    """Join text; NULL is left out, or replaced by the third argument."""

    def joined(values: list[str | None], between: str, instead: str | None = None) -> str:
        texts = (instead if value is None else value for value in values)
        return between.join(text for text in texts if text is not None)

    return per_row(joined, call.columns, pa.string())


@FAMILY.kernel(
    "ARRAY_SLICE", signatures=["<ARRAY>, <INTEGER>, <INTEGER>", "<ARRAY>, <INTEGER>"],
    result=lambda one: one.types[0].with_nullability(one.nullable),
)  # fmt: skip
def array_slice(call: Call) -> Column:
    """Return the elements from a position to another, both included; negative ones count from the end."""

    def part(values: list[Any], start: int, end: int = -1) -> list[Any]:
        count = len(values)
        first = start if start > 0 else max(count + start + 1, 1) if start < 0 else 1
        last = min(end, count) if end > 0 else count + end + 1 if end < 0 else 1
        return values[first - 1 : last] if last >= first else []

    return per_row(part, call.columns, call.arrow_type)
