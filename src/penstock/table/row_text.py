"""The text of rows as Flink's Row.toString gives it: `+I[1, Hi, 2.0, 2020-10-10T00:00:01, null]`."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from penstock.common.types import Row
from penstock.table.functions.java_text import decimal_text, double_text, float_text
from penstock.table.logical_types import ROWS, TIMESTAMPS, LogicalType

TextOf = Callable[[Any], str]


class RowText:
    """Makes the text of Rows of a type. Values are those that columns have in Python. Picklable."""

    def __init__(self, row_type: LogicalType) -> None:
        self.row_type = row_type
        self._fields = [text_of(one) for one in row_type.children]

    def __reduce__(self) -> tuple[type[RowText], tuple[LogicalType]]:
        return RowText, (self.row_type,)

    def __call__(self, row: Row) -> str:
        """Return the text of a row."""
        fields = (write(value) for write, value in zip(self._fields, row, strict=False))
        return f"{row.get_row_kind()}[{', '.join(fields)}]"


def text_of(logical: LogicalType) -> TextOf:
    """Return the function from a value of a type to its text."""
    write = _writer(logical)
    return lambda value: "null" if value is None else write(value)


def _writer(logical: LogicalType) -> TextOf:
    root = logical.root
    parts = [text_of(one) for one in logical.children]
    if root in ROWS:
        return lambda value: _row(value, logical.names, parts)
    if root == "ARRAY":
        return lambda value: f"[{', '.join(map(parts[0], value))}]"
    if root in ("MAP", "MULTISET"):
        second = parts[1] if root == "MAP" else str
        return lambda value: "{" + ", ".join(f"{parts[0](key)}={second(one)}" for key, one in _pairs(value)) + "}"
    if root in TIMESTAMPS:
        return _instant if root == "TIMESTAMP_LTZ" else _timestamp
    return _PLAIN.get(root, str)


def _row(value: Any, names: tuple[str, ...], parts: list[TextOf]) -> str:
    values = [value[name] for name in names] if isinstance(value, dict) else list(value)
    return f"+I[{', '.join(write(one) for write, one in zip(parts, values, strict=True))}]"


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else value


def _timestamp(value: datetime.datetime) -> str:
    return f"{value.date().isoformat()}T{_time(value.time())}"


def _instant(value: datetime.datetime) -> str:
    utc = value.astimezone(datetime.UTC)
    seconds = "" if utc.second or utc.microsecond else ":00"
    return f"{utc.date().isoformat()}T{_time(utc.time())}{seconds}Z"


def _time(value: datetime.time) -> str:
    text = f"{value.hour:02}:{value.minute:02}"
    if value.second or value.microsecond:
        text += f":{value.second:02}"
    if value.microsecond:
        digits = f"{value.microsecond:06}"
        text += "." + (digits[:3] if digits.endswith("000") else digits)
    return text


_PLAIN: dict[str, TextOf] = {
    "BOOLEAN": lambda value: str(value).lower(),
    "DOUBLE": double_text,
    "FLOAT": float_text,
    "DECIMAL": decimal_text,
    "TIME": _time,
    "BINARY": lambda value: f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]",
    "VARBINARY": lambda value: f"[{', '.join(str(byte - 256 if byte > 127 else byte) for byte in value)}]",
}
