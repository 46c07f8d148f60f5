"""Rows as a program reads them from a query: rows in rows are Rows, maps are dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.types import Row
from penstock.table.logical_types import CONSTRUCTED, ROWS, LogicalType

Convert = Callable[[Any], Any]


def row_reader(row_type: LogicalType) -> Convert | None:
    """Return the conversion of a Row with the values of columns; None if it is what the program is to get."""
    converts = [converter(one) for one in row_type.children]
    if not any(converts):
        return None

    def read(row: Row) -> Row:
        values = [
            value if convert is None or value is None else convert(value)
            for convert, value in zip(converts, row, strict=True)
        ]
        made = Row(**dict(zip(row_type.names, values, strict=True)))
        made.set_row_kind(row.get_row_kind())
        return made

    return read


def converter(logical: LogicalType) -> Convert | None:
    """Return the conversion of a value that a column has; None if there is none."""
    if logical.root not in CONSTRUCTED:
        return None
    parts = [converter(one) for one in logical.children]
    if logical.root in ROWS:
        return lambda value: Row(
            **{name: _each(part, value[name]) for name, part in zip(logical.names, parts, strict=True)}
        )
    if logical.root == "ARRAY":
        return lambda value: [_each(parts[0], one) for one in value]
    second = parts[1] if logical.root == "MAP" else None
    return lambda value: {_each(parts[0], key): _each(second, one) for key, one in value}


def _each(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
