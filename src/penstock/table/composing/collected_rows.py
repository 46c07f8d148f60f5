"""The rows of a query after all of its changes, as a table of Arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.common.types import Row, RowKind
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.user_values import writer_of

if TYPE_CHECKING:
    from penstock.table.table_result import TableResult

_ADDED = (RowKind.INSERT, RowKind.UPDATE_AFTER)


def arrow_table(result: TableResult) -> pa.Table:
    """Read the rows of a query to its end."""
    with result.collect() as changes:
        rows = remaining(changes)
    names, types = result.get_column_names(), result.types
    columns = [[row[place] for row in rows] for place in range(len(names))]
    arrays = [writer_of(kind)(values) for kind, values in zip(types, columns, strict=True)]
    schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in zip(names, types, strict=True)])
    return pa.Table.from_arrays(arrays, schema=schema)


def remaining(changes: Iterable[Row]) -> list[Row]:
    """Return the rows that are left of a changelog, in the order in which they came."""
    rows: list[Row] = []
    gone: Counter[str] = Counter()
    for row in changes:
        if row.get_row_kind() in _ADDED:
            rows.append(row)
        else:
            gone[_key(row)] += 1
    if not gone:
        return rows
    left = []
    for row in rows:
        # Of equal rows, it does not matter which one goes.
        if gone[key := _key(row)]:
            gone[key] -= 1
        else:
            left.append(row)
    return left


def _key(row: Row) -> str:
    """Return what equal rows have in common; values such as lists can't be keys themselves."""
    return repr(list(row))
