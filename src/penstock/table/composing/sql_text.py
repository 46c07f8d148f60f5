"""Names and values as text of SQL."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from penstock.common.time import Instant
from penstock.common.types import Row
from penstock.table.logical_types import LogicalType

_INT_BOUND, _LONG_BOUND = 1 << 31, 1 << 63
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.\s][^`.]*)")
_PATH = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")


def quoted(name: str) -> str:
    """Return a name between backquotes."""
    check_name(name, "a column")
    return "`" + name.replace("`", "``") + "`"


def check_name(name: object, what: str) -> None:
    """Raise TypeError for what is not a text, or an empty one."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"expected the name of {what}, got {name!r}")


def quoted_path(path: str) -> str:
    """Return the path of a table: name, database.name or catalog.database.name; parts may be between backquotes."""
    check_name(path, "a table")
    return ".".join(quoted(part) for part in path_parts(path))


def path_parts(path: str) -> list[str]:
    """Return the parts of a path. Raises ValueError."""
    parts = [(inner or outer).replace("``", "`") for inner, outer in _PART.findall(path)]
    if not _PATH.fullmatch(path) or len(parts) > 3:
        raise ValueError(f"expected a name such as orders, or database.orders, got {path!r}")
    return parts


def text_literal(text: str) -> str:
    """Return a text between quotes."""
    return "'" + text.replace("'", "''") + "'"


def literal(value: Any) -> str:
    """Return a Python value as SQL. Raises TypeError for what has no literal, ValueError for an int beyond BIGINT."""
    for kind, text_of in _LITERALS:
        if isinstance(value, kind):
            return str(text_of(value))
    raise TypeError(f"{value!r:.200} can't be a value in a query: pass a number, a text, a date, a list or a dict")


def type_text(one: LogicalType) -> str:
    """Return a type as CAST has it: without its own nullability."""
    return one.summary


def interval(amount: int, unit: str) -> str:
    """Return the interval of this many units; MILLISECOND is a fraction of seconds."""
    sign, digits = ("-" if amount < 0 else ""), abs(amount)
    if unit == "MILLISECOND":
        seconds, millis = divmod(digits, 1000)
        return f"INTERVAL {sign}'{seconds}.{millis:03}' SECOND({max(2, len(str(seconds)))}, 3)"
    return f"INTERVAL {sign}'{digits}' {unit}({max(2, len(str(digits)))})"


def _integer(value: int) -> str:
    if not -_LONG_BOUND <= value < _LONG_BOUND:
        raise ValueError(f"{value} is beyond BIGINT: write it as a Decimal")
    return str(value) if -_INT_BOUND < value < _INT_BOUND else f"CAST({value} AS BIGINT)"


def _float(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f"CAST('{'NaN' if value != value else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
    # With an exponent it is a DOUBLE; without one it would be a DECIMAL.
    return f"CAST({value!r} AS DOUBLE)" if "e" in repr(value) else f"{value!r}E0"


def _timestamp(value: datetime.datetime) -> str:
    if value.tzinfo is not None:
        return _instant(value)
    return f"TIMESTAMP '{value.isoformat(' ')}'"


def _instant(value: datetime.datetime) -> str:
    micros = (value - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(microseconds=1)
    return f"CAST(TO_TIMESTAMP_LTZ({micros // 1000}, 3) AS TIMESTAMP_LTZ(3))"


def _timedelta(value: datetime.timedelta) -> str:
    return interval(value // datetime.timedelta(milliseconds=1), "MILLISECOND")


def _map(value: Mapping[Any, Any]) -> str:
    return f"MAP[{', '.join(literal(part) for pair in value.items() for part in pair)}]"


_LITERALS: tuple[tuple[Any, Any], ...] = (
    (type(None), lambda value: "NULL"),
    (bool, lambda value: str(value).upper()),
    (int, _integer),
    (float, _float),
    (Decimal, lambda value: f"{value:f}"),
    (str, text_literal),
    ((bytes, bytearray), lambda value: f"X'{bytes(value).hex()}'"),
    (datetime.datetime, _timestamp),
    (datetime.date, lambda value: f"DATE '{value.isoformat()}'"),
    (datetime.time, lambda value: f"TIME '{value.isoformat()}'"),
    (datetime.timedelta, _timedelta),
    (Instant, lambda value: f"TO_TIMESTAMP_LTZ({value.to_epoch_milli()}, 3)"),
    (list, lambda value: f"ARRAY[{', '.join(map(literal, value))}]"),
    (Mapping, _map),
    ((Row, tuple), lambda value: f"ROW({', '.join(map(literal, value))})"),
)
