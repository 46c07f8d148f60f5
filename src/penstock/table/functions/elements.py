"""Access to parts of nested values: elements of arrays, values of maps, fields of rows."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from penstock.table.functions.arrays import element_of
from penstock.table.functions.casts import cast
from penstock.table.functions.columns import Column, per_row
from penstock.table.functions.common_types import is_castable_implicitly
from penstock.table.functions.errors import FunctionError, InvalidCallError
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import ROWS, LogicalType

FAMILY = Family()


@FAMILY.kernel("ELEMENT", signatures=["<ARRAY>"], result=lambda one: element_of(one.types[0]), nullable=True)
def element(call: Call) -> Column:
    """Return the only element, NULL if there is none. Raises FunctionError if there are several."""

    def only(values: list[Any]) -> Any:
        if len(values) > 1:
            raise FunctionError("Array has more than one element.")
        return values[0] if values else None

    return per_row(only, call.columns, call.arrow_type)


def _item(arguments: Arguments) -> LogicalType:
    kind, key = arguments.types
    if kind.root == "ARRAY":
        return kind.children[0].with_nullability(True)
    if kind.root == "MAP":
        if not is_castable_implicitly(key, kind.children[0]):
            raise InvalidCallError(f"expected a key of the type {kind.children[0]}, got {key}")
        return kind.children[1].with_nullability(True)
    if kind.root in ROWS:
        index = _index_of(kind, arguments.literal(1))
        return kind.children[index].with_nullability(kind.nullable or kind.children[index].nullable)
    raise InvalidCallError(f"values of the type {kind} have no elements")


def _index_of(kind: LogicalType, key: Any) -> int:
    if isinstance(key, int) and 1 <= key <= len(kind.names):
        return key - 1
    if key not in kind.names:
        raise InvalidCallError(f"expected one of the fields {', '.join(kind.names)}, got {key}")
    return kind.names.index(key)


@FAMILY.kernel("ITEM", signatures=["<ANY>, <ANY>"], result=_item)
def item(call: Call) -> Column:
    """Return the element at a position from 1, the value of a key, or the field of a name; NULL if there is none."""
    kind = call.types[0]
    if kind.root in ROWS:
        return pc.struct_field(call.columns[0], [_index_of(kind, call.constant(1))])
    if kind.root == "ARRAY":
        return per_row(
            lambda values, at: values[at - 1] if 0 < at <= len(values) else None, call.columns, call.arrow_type
        )
    columns = [call.columns[0], cast(call.columns[1], call.types[1], kind.children[0])]
    return per_row(lambda pairs, key: dict(pairs).get(key), columns, call.arrow_type)


@FAMILY.kernel("DOT", signatures=["<ROW>, <SYMBOL>"], result=_item)
def dot(call: Call) -> Column:
    """Return a field of a row by its name."""
    return pc.struct_field(call.columns[0], [_index_of(call.types[0], call.constant(1))])
