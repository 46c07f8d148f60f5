"""Functions of maps. Source: Flink docs, "System (Built-in) Functions", collection functions."""

from __future__ import annotations

from typing import Any

from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, per_row
from penstock.table.functions.common_types import common_type
from penstock.table.functions.errors import FunctionError, InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import LogicalType, array_of, map_of, row_of

FAMILY = Family()
_MAP = ["input <MAP>"]


def _literal_entries(arguments: Arguments) -> LogicalType:
    types = arguments.types
    if len(types) % 2:
        raise InvalidCallError("MAP: expected pairs of a key and a value")
    key, value = common_type(types[::2]), common_type(types[1::2])
    if key is None or value is None:
        raise InvalidCallError("MAP: keys and values must have a common type each")
    return map_of(key, value).with_nullability(False)


@FAMILY.kernel("MAP", signatures=["<ANY>..."], result=_literal_entries)
def map_(call: Call) -> Column:
    """Make a map of keys and values; the last value of a key counts."""
    kinds = call.result.children
    columns = [
        cast(column, kind, kinds[index % 2])
        for index, (column, kind) in enumerate(zip(call.columns, call.types, strict=True))
    ]
    return per_row(
        lambda *values: merged(list(zip(values[::2], values[1::2], strict=True))), columns, call.arrow_type, nulls=True
    )


def merged(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return one entry for each key, with its last value."""
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in pairs:
        if key is None:
            raise FunctionError("a key of a map is NULL, which is not supported: Arrow's maps have no such keys")
        found[repr(key)] = (key, value)
    return list(found.values())


def _keys(arguments: Arguments) -> LogicalType:
    one = arguments.types[0]
    return array_of(one.children[0]).with_nullability(one.nullable)


def _values(arguments: Arguments) -> LogicalType:
    one = arguments.types[0]
    return array_of(one.children[1]).with_nullability(one.nullable)


def _entries(arguments: Arguments) -> LogicalType:
    one = arguments.types[0]
    return array_of(row_of(key=one.children[0], value=one.children[1])).with_nullability(one.nullable)


@FAMILY.kernel("MAP_KEYS", signatures=_MAP, result=_keys)
def map_keys(call: Call) -> Column:
    """Return the keys."""
    return per_row(lambda pairs: [key for key, _ in pairs], call.columns, call.arrow_type)


@FAMILY.kernel("MAP_VALUES", signatures=_MAP, result=_values)
def map_values(call: Call) -> Column:
    """Return the values."""
    return per_row(lambda pairs: [value for _, value in pairs], call.columns, call.arrow_type)


@FAMILY.kernel("MAP_ENTRIES", signatures=_MAP, result=_entries)
def map_entries(call: Call) -> Column:
    """Return the entries as rows."""
    return per_row(lambda pairs: [{"key": key, "value": value} for key, value in pairs], call.columns, call.arrow_type)


def _map_of_arrays(arguments: Arguments) -> LogicalType:
    keys, values = arguments.types
    return map_of(keys.children[0], values.children[0]).with_nullability(arguments.nullable)


@FAMILY.kernel("MAP_FROM_ARRAYS", signatures=["keys <ARRAY>, values <ARRAY>"], result=_map_of_arrays)
def map_from_arrays(call: Call) -> Column:
    """Make a map of an array of keys and one of values."""

    def paired(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
        if len(keys) != len(values):
            raise FunctionError(
                "Invalid function MAP_FROM_ARRAYS call:\n"
                f"The length of the keys array {len(keys)} is not equal to the length of the values array {len(values)}"
            )
        return merged(list(zip(keys, values, strict=True)))

    return per_row(paired, call.columns, call.arrow_type)


def _common_map(arguments: Arguments) -> LogicalType:
    found = common_type(arguments.types)
    if found is None or found.root != "MAP":
        raise InvalidCallError("expected maps with keys and values of a common type")
    return found


@FAMILY.kernel("MAP_UNION", signatures=["<COMMON>, <COMMON>..."], result=_common_map)
def map_union(call: Call) -> Column:
    """Return the entries of all maps; of a key in several, the last value."""
    columns = [cast(column, kind, call.result) for column, kind in zip(call.columns, call.types, strict=True)]
    return per_row(lambda *maps: merged([pair for one in maps for pair in one]), columns, call.arrow_type)
