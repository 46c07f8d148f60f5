"""ROW, and structured values: OBJECT_OF and OBJECT_UPDATE."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import Column, as_array, is_constant, rows_of
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import CHARACTER_STRING, LogicalType

FAMILY = Family()


def _row_type(arguments: Arguments) -> LogicalType:
    names = tuple(f"EXPR${index}" for index in range(len(arguments.types)))
    return LogicalType("ROW", nullable=False, children=tuple(arguments.types), names=names)


@FAMILY.kernel("ROW", signatures=["<ANY>..."], result=_row_type)
def row(call: Call) -> Column:
    """Make a row of the arguments."""
    return _struct(call.columns, call.result)


def _struct(columns: Any, kind: LogicalType, mask: Any = None) -> Column:
    rows = rows_of(columns)
    arrays = [
        as_array(column, rows or 1).cast(arrow_type(child))
        for column, child in zip(columns, kind.children, strict=True)
    ]
    array = pa.StructArray.from_arrays(arrays, fields=list(arrow_type(kind)), mask=mask)
    return array[0] if rows is None else array


def _object_type(arguments: Arguments) -> LogicalType:
    class_name = arguments.literal(0)
    if class_name is None or arguments.types[0].root not in CHARACTER_STRING:
        raise InvalidCallError(
            "The first argument must be a non-nullable character string literal representing the class name."
        )
    names = _names(arguments)
    if len(set(names)) != len(names):
        raise InvalidCallError(f"The field names must be unique, got {', '.join(names)}")
    children = tuple(arguments.types[2::2])
    return LogicalType("STRUCTURED", children=children, names=tuple(names), class_name=class_name)


def _names(arguments: Arguments) -> list[str]:
    names = []
    for position in range(1, len(arguments.types), 2):
        name = arguments.literal(position)
        if name is None or arguments.types[position].root not in CHARACTER_STRING:
            raise InvalidCallError(
                f"The field key at position {position + 1} must be a non-nullable character string literal."
            )
        names.append(name)
    return names


@FAMILY.kernel("OBJECT_OF", signatures=["<ANY>, <ANY>..."], result=_object_type)
def object_of(call: Call) -> Column:
    """Make a structured value: OBJECT_OF(class name, field name, value, ...)."""
    return _struct(call.columns[2::2], call.result)


def _updated_type(arguments: Arguments) -> LogicalType:
    kind = arguments.types[0]
    names = _names(arguments)
    children = list(kind.children)
    for position, name in enumerate(names):
        if name not in kind.names:
            raise InvalidCallError(
                f"The field name '{name}' at position {2 * position + 2} is not part of the structured type attributes."
                f" Available attributes: [{', '.join(kind.names)}]."
            )
        children[kind.names.index(name)] = arguments.types[2 * position + 2]
    return kind.with_children(children)


@FAMILY.kernel("OBJECT_UPDATE", signatures=["<STRUCTURED>, <ANY>, <ANY>..."], result=_updated_type)
def object_update(call: Call) -> Column:
    """Return a structured value with some fields replaced: OBJECT_UPDATE(object, field name, value, ...)."""
    rows = rows_of(call.columns)
    source = as_array(call.columns[0], rows or 1)
    columns = list(source.flatten())
    for position in range(1, len(call.columns), 2):
        name = call.constant(position)
        columns[call.result.names.index(name)] = as_array(call.columns[position + 1], rows or 1)
    array = _struct(columns, call.result, mask=source.is_null())
    return array[0] if is_constant(call.columns[0]) and rows is None else array
