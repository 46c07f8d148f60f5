"""JSON_STRING, JSON_OBJECT, JSON_ARRAY and JSON, which marks text that is JSON already.

An argument that is the result of one of these has the type RAW_JSON: it is inserted as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.table.functions.cast_text import raw, writer_of
from penstock.table.functions.columns import Column, as_array, per_row, rows_of
from penstock.table.functions.errors import FunctionError, InvalidCallError
from penstock.table.functions.java_text import double_text, float_text
from penstock.table.functions.json_values import Raw, parse, write
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import (
    APPROXIMATE_NUMERIC,
    CHARACTER_STRING,
    EXACT_NUMERIC,
    STRING,
    TIMESTAMPS,
    LogicalType,
)

FAMILY = Family()
RAW_JSON = replace(STRING, class_name="JSON")


def converter_of(kind: LogicalType) -> Callable[[Any], Any]:
    """Return the function from a value of a raw column to what JSON has for it."""
    convert = _converter_of(kind)
    return lambda value: None if value is None else convert(value)


def _converter_of(kind: LogicalType) -> Callable[[Any], Any]:
    if kind == RAW_JSON.with_nullability(kind.nullable):
        return _as_raw
    if kind.root in CHARACTER_STRING or kind.root == "BOOLEAN" or kind.root in EXACT_NUMERIC or kind.root == "NULL":
        return lambda value: value
    if kind.root == "VARIANT":
        return Raw
    if kind.root in APPROXIMATE_NUMERIC:
        number_text = float_text if kind.root == "FLOAT" else double_text
        return lambda value: Decimal(number_text(value))
    if kind.root in ("BINARY", "VARBINARY"):
        return lambda value: base64.b64encode(value).decode()
    if kind.root in TIMESTAMPS:
        write_time = writer_of(kind, "UTC")
        suffix = "Z" if kind.root == "TIMESTAMP_LTZ" else ""
        return lambda value: _iso(write_time(value)) + suffix
    if not kind.children:
        raise InvalidCallError(f"Unsupported argument type. JSON has no form for values of the type {kind}.")
    children = [converter_of(child) for child in kind.children]
    if kind.root == "ARRAY":
        return lambda values: [children[0](value) for value in values]
    if kind.root == "MAP":
        return lambda pairs: {key: children[1](value) for key, value in pairs}
    if kind.root == "MULTISET":
        return lambda pairs: dict(pairs)
    fields = list(zip(kind.names, children, strict=True))
    return lambda row: {name: convert(row[name]) for name, convert in fields}


def _iso(text: str) -> str:
    whole, _, fraction = text.replace(" ", "T").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _as_raw(text: str) -> Any:
    """Return JSON that is inserted; blank text is null."""
    return Raw(text) if text.strip() else None


def _converted(call: Call, index: int, rows: int) -> list[Any]:
    kind = call.types[index]
    column = call.columns[index] if kind.root == "NULL" else raw(call.columns[index], kind)
    return list(map(converter_of(kind), as_array(column, rows).to_pylist()))


@FAMILY.kernel("JSON_STRING", signatures=["<ANY>"], result=STRING)
def json_string(call: Call) -> Column:
    """Return a value as JSON."""
    convert = converter_of(call.types[0])
    column = call.columns[0] if call.types[0].root == "NULL" else raw(call.columns[0], call.types[0])
    return per_row(lambda value: write(convert(value)), [column], pa.string())


def _keys_are_text(arguments: Arguments) -> LogicalType:
    for kind in arguments.types[1::2]:
        if kind.class_name == "JSON":
            raise InvalidCallError(MISPLACED_JSON)
        if kind.root not in CHARACTER_STRING:
            raise InvalidCallError(f"JSON_OBJECT: expected text as a key, got {kind}")
    return STRING


@FAMILY.kernel("JSON_OBJECT", signatures=["<SYMBOL>, <ANY>..."], result=_keys_are_text, nullable=False)
def json_object(call: Call) -> Column:
    """Make an object: JSON_OBJECT(on null, key, value, ...). With ABSENT, fields that are NULL are left out."""
    absent = call.constant(0) == "ABSENT"
    rows = rows_of(call.columns)
    columns = [_converted(call, index, rows or 1) for index in range(1, len(call.columns))]
    texts = []
    for row in range(rows or 1):
        values = [column[row] for column in columns]
        fields = dict(zip(values[::2], values[1::2], strict=True))
        texts.append(write({key: value for key, value in fields.items() if not (absent and value is None)}))
    return pa.scalar(texts[0]) if rows is None else pa.array(texts, pa.string())


@FAMILY.kernel("JSON_ARRAY", signatures=["<SYMBOL>, <ANY>..."], result=STRING, nullable=False)
def json_array(call: Call) -> Column:
    """Make an array: JSON_ARRAY(on null, value, ...). With ABSENT, elements that are NULL are left out."""
    absent = call.constant(0) == "ABSENT"
    rows = rows_of(call.columns)
    columns = [_converted(call, index, rows or 1) for index in range(1, len(call.columns))]
    texts = [
        write([column[row] for column in columns if not (absent and column[row] is None)]) for row in range(rows or 1)
    ]
    return pa.scalar(texts[0]) if rows is None else pa.array(texts, pa.string())


MISPLACED_JSON = (
    "The JSON() function is currently only supported inside JSON_ARRAY() or as the VALUE param of JSON_OBJECT()"
)


@FAMILY.values("JSON", "<CHARACTER_STRING>", result=STRING)
def json_(text: str) -> str:
    """Check and normalize text that is JSON, for JSON_OBJECT and JSON_ARRAY. Blank text stays."""
    if not text.strip():
        return text
    try:
        return write(parse(text), ordered=False)
    except ValueError as error:
        at = getattr(error, "pos", 0)
        line = text.count("\n", 0, at) + 1
        column = at - text.rfind("\n", 0, at)
        raise FunctionError(
            f"Invalid JSON string in JSON(value) function: {error} at [line: {line}, column: {max(column - 1, 1)}]"
        ) from None


@FAMILY.values("PARSE_JSON", "<CHARACTER_STRING>", result=LogicalType("VARIANT"))
def parse_json(text: str) -> str:
    """Read JSON as a value of the type VARIANT."""
    try:
        return write(parse(text), ordered=False)
    except ValueError as error:
        raise FunctionError(f"Failed to parse json string: {error}") from None
