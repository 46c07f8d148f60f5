"""Results of statements on a terminal: as a table, as a changelog while it comes, or as lines of JSON."""

from __future__ import annotations

import datetime
import enum
import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from penstock.common.types import Row, RowKind
from penstock.table.logical_types import LogicalType
from penstock.table.tableau import Tableau

_REMOVED = (RowKind.UPDATE_BEFORE, RowKind.DELETE)


class ResultMode(enum.Enum):
    """How the rows of a query are printed."""

    TABLE = "table"
    CHANGELOG = "changelog"
    JSON = "json"


def print_rows(
    rows: Iterable[Row],
    names: Sequence[str],
    types: Sequence[LogicalType],
    *,
    mode: ResultMode,
    is_changelog: bool,
    zone: str,
) -> None:
    """Print rows. TABLE: those that are left at the end, or when Ctrl-C is pressed; then KeyboardInterrupt is raised.

    JSON: `{"op": "+I", "row": {...}}` for each change of a query, and only the row for other statements.
    """
    if mode is ResultMode.JSON:
        for row in rows:
            value = {name: _json_value(one) for name, one in zip(names, row, strict=True)}
            print(_line({"op": str(row.get_row_kind()), "row": value} if is_changelog else value), flush=True)
        return
    if mode is ResultMode.CHANGELOG or not is_changelog:
        Tableau(names, types, is_changelog=is_changelog, zone=zone).print(rows)
        return
    left = _Left()
    interrupt = None
    try:
        for row in rows:
            left.apply(row)
    except KeyboardInterrupt as error:
        interrupt = error
    Tableau(names, types, is_changelog=False, zone=zone).print(left.rows())
    if interrupt is not None:
        raise interrupt


class _Left:
    """The rows of the table that a changelog makes, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._order: dict[int, Row] = {}

    def apply(self, row: Row) -> None:
        """Take a change. A row that is removed and was never there is ignored."""
        key = repr(tuple(row))
        if row.get_row_kind() in _REMOVED:
            if found := self._rows.get(key):
                self._order.pop(id(found.pop()))
            return
        self._rows.setdefault(key, []).append(row)
        self._order[id(row)] = row

    def rows(self) -> list[Row]:
        """Return the rows that are left."""
        return list(self._order.values())


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it: decimals keep their digits as texts, times are those of ISO 8601."""
    if isinstance(value, Row):
        names = getattr(value, "_fields", None)
        parts = [_json_value(one) for one in value]
        return dict(zip(names, parts, strict=True)) if names else parts
    if isinstance(value, dict):
        return {str(key): _json_value(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(one) for one in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such number: NaN, Infinity and -Infinity are texts, as in Flink's format.
        return json.dumps(value)
    return str(value) if isinstance(value, (Decimal, datetime.timedelta)) else value


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
