"""The text of values in the table that `TableResult.print` prints: what CAST to STRING gives, but for bytes.

Source: Flink's RowDataToStringConverter: `TRUE`, `1970-01-01 00:01:00.000`, `x'01c8'`, `[1, NULL]`, `{k=1}`, `(1, a)`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.table.functions.java_text import decimal_text, double_text, float_text
from penstock.table.functions.zones import zone_of
from penstock.table.logical_types import ROWS, LogicalType

TextOf = Callable[[Any], str]


def printed_text_of(logical: LogicalType, zone: str) -> TextOf:
    """Return the function from a value of a type, not None, to its text. `zone`: that of the session."""
    root, precision = logical.root, logical.precision
    parts = [_or_null(printed_text_of(one, zone)) for one in logical.children]
    if root in ROWS:
        return lambda value: f"({', '.join(_fields(value, logical, parts))})"
    if root == "ARRAY":
        return lambda value: f"[{', '.join(map(parts[0], value))}]"
    if root in ("MAP", "MULTISET"):
        second = parts[1] if root == "MAP" else str
        return lambda value: "{" + ", ".join(f"{parts[0](key)}={second(one)}" for key, one in _pairs(value)) + "}"
    if root == "TIMESTAMP":
        return partial(_timestamp, precision)
    if root == "TIMESTAMP_LTZ":
        local = zone_of(zone)
        return lambda value: _timestamp(precision, value.astimezone(local))
    if root == "TIME":
        return lambda value: f"{value:%H:%M:%S}{_fraction(value.microsecond, precision)}"
    return _PLAIN.get(root, str)


def _or_null(write: TextOf) -> TextOf:
    return lambda value: "NULL" if value is None else write(value)


def _fields(value: Any, logical: LogicalType, parts: list[TextOf]) -> list[str]:
    values = [value[name] for name in logical.names] if isinstance(value, dict) else list(value)
    texts = [write(one) for write, one in zip(parts, values, strict=True)]
    # Only those of structured types have their names.
    return (
        texts if logical.root == "ROW" else [f"{name}={text}" for name, text in zip(logical.names, texts, strict=True)]
    )


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else value


def _timestamp(precision: int, value: datetime.datetime) -> str:
    return f"{value.date().isoformat()} {value:%H:%M:%S}{_fraction(value.microsecond, precision)}"


def _fraction(microseconds: int, precision: int) -> str:
    """Return all digits that the type has, and no others."""
    return f".{microseconds:06}000"[: precision + 1] if precision else ""


_PLAIN: dict[str, TextOf] = {
    "BOOLEAN": lambda value: str(value).upper(),
    "DOUBLE": double_text,
    "FLOAT": float_text,
    "DECIMAL": decimal_text,
    "BINARY": lambda value: f"x'{bytes(value).hex()}'",
    "VARBINARY": lambda value: f"x'{bytes(value).hex()}'",
}
