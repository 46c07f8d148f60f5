"""Columns as JSON objects: Arrow makes the texts of whole columns and joins them.

Source: Flink's RowDataToJsonConverters (flink-json).
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.json_lines import escaped
from penstock.common.columns.lines import TEXT, joined
from penstock.common.values.written_texts import json_bytes
from penstock.table.functions.java_text import decimal_text, double_text, float_text

_NON_FINITE = {"NaN", "Infinity", "-Infinity"}


class JsonWriting(msgspec.Struct, frozen=True):
    """How objects are written. `separator`: between date and time of timestamps.

    `null_key`: the text of a key of a map that is NULL, None: such a key is an error, or is dropped.
    """

    separator: str = " "
    drops_null_keys: bool = False
    null_key: str | None = None
    plain_decimals: bool = False
    ignores_nulls: bool = False


class JsonEncoder:
    """Encodes rows of `schema`. Raises ValueError for types that JSON does not have."""

    def __init__(self, schema: pyarrow.Schema, writing: JsonWriting) -> None:
        self._writing = writing
        for field in schema:
            check_type(field.type)

    def __call__(self, batch: pyarrow.RecordBatch) -> list[bytes]:
        """Return the object of each row. JSON escapes line breaks, so no message has one."""
        if not batch.num_rows:
            return []
        texts = self._object(batch.schema.names, batch.columns, "\n")
        return bytes(memoryview(texts.buffers()[2])).split(b"\n")[: batch.num_rows]

    def _object(self, names: list[str], columns: list[pyarrow.Array], end: str = "") -> pyarrow.Array:
        """Return the object of each row, and `end` behind it."""
        if self._writing.ignores_nulls:
            return self._object_of_present(names, columns, end)
        parts: list[pyarrow.Array | str] = []
        before = "{"
        for name, column in zip(names, columns, strict=True):
            label = f"{before}{json_bytes(name).decode()}:"
            text = None if column.null_count else self._content(column)
            if text is not None:
                # What surrounds all texts of a column is joined to the label, and to what follows.
                parts += [f'{label}"', text]
                before = '",'
            else:
                value = self._value(column)
                parts += [label, value.fill_null("null") if value.null_count else value]
                before = ","
        return joined(*parts, f"{before.rstrip(',')}}}{end}")

    def _object_of_present(self, names: list[str], columns: list[pyarrow.Array], end: str) -> pyarrow.Array:
        parts = []
        for name, column in zip(names, columns, strict=True):
            # With a comma in front of each: that of the first is cut off below.
            value = joined(f",{json_bytes(name).decode()}:", self._value(column))
            parts.append(value.fill_null("") if value.null_count else value)
        content = compute.utf8_ltrim(joined(*parts), ",") if parts else None
        return joined("{", content, f"}}{end}")

    def _content(self, column: pyarrow.Array) -> pyarrow.Array | None:
        """Return what is between the quotation marks of each value; None if JSON has values of this type unquoted."""
        kind = column.type
        if arrow.is_string(kind):
            return escaped(column.cast(TEXT))
        if arrow.is_timestamp(kind):
            return moments_text(column, self._writing.separator)
        if arrow.is_date32(kind):
            return column.cast(TEXT)
        if arrow.is_time32(kind):
            return compute.utf8_slice_codeunits(column.cast(TEXT), 0, 8)
        return None

    def _value(self, column: pyarrow.Array) -> pyarrow.Array:
        """Return the JSON of each value, null for NULL."""
        content = self._content(column)
        if content is not None:
            return joined('"', content, '"')
        kind = column.type
        if arrow.is_integer(kind) or arrow.is_boolean(kind):
            return column.cast(TEXT)
        if arrow.is_floating(kind):
            return texts_one_by_one(column, _float(float_text if arrow.is_float32(kind) else double_text))
        if arrow.is_decimal(kind):
            if kind.scale <= 6:
                return column.cast(TEXT)
            return texts_one_by_one(column, decimal_text if self._writing.plain_decimals else str)
        if arrow.is_binary(kind):
            return texts_one_by_one(column, lambda value: f'"{base64.b64encode(value).decode()}"')
        return self._nested(column)

    def _nested(self, column: pyarrow.Array) -> pyarrow.Array:
        kind = column.type
        if arrow.is_struct(kind):
            texts = self._object([field.name for field in kind], column.flatten())
        elif arrow.is_list(kind):
            texts = _joined_lists(column, self._value(column.flatten()).fill_null("null"), *"[]")
        elif arrow.is_map(kind):
            texts = self._map(column)
        else:
            texts = pyarrow.nulls(len(column), TEXT)
        return compute.if_else(column.is_valid(), texts, pyarrow.scalar(None, TEXT)) if column.null_count else texts

    def _map(self, column: pyarrow.MapArray) -> pyarrow.Array:
        entries = []
        for value in column:
            pairs = {}
            for key, item in zip(*_parts(value), strict=True):
                if key is None:
                    if self._writing.drops_null_keys:
                        continue
                    if self._writing.null_key is None:
                        raise ValueError("a map has a key that is NULL: set map-null-key.mode to DROP or LITERAL")
                    key = self._writing.null_key
                pairs[key] = item
            entries.append(pairs)
        items = pyarrow.array([item for pairs in entries for item in pairs.values()], column.type.item_type)
        texts = iter(self._value(items).fill_null("null").to_pylist())
        objects = (",".join(f"{json_bytes(key).decode()}:{next(texts)}" for key in pairs) for pairs in entries)
        return pyarrow.array([f"{{{one}}}" for one in objects], TEXT)


def check_type(kind: pyarrow.DataType) -> None:
    """Raise ValueError for a type that JSON does not have."""
    if arrow.is_map(kind) and not arrow.is_string(kind.key_type):
        raise ValueError(f"keys of maps must be texts in JSON, and the type is {kind}")
    if arrow.is_duration(kind):
        raise ValueError("JSON has no values of an INTERVAL")
    for index in range(kind.num_fields):
        check_type(kind.field(index).type)


def moments_text(column: pyarrow.Array, separator: str) -> pyarrow.Array:
    """Return timestamps as texts, with as many digits of a second as needed, and Z if they are instants."""
    kind = column.type
    texts = column.cast(pyarrow.timestamp(kind.unit)).cast(TEXT)
    if kind.unit != "s":
        # Behind the dot of the fraction, which is there: no zeros of the seconds are cut off.
        texts = compute.utf8_rtrim(compute.utf8_rtrim(texts, "0"), ".")
    if separator != " ":
        texts = compute.replace_substring(texts, " ", separator, max_replacements=1)
    return joined(texts, "Z") if kind.tz is not None else texts


def _float(text_of: Callable[[float], str]) -> Callable[[float], str]:
    def write(value: float) -> str:
        text = text_of(value)
        return f'"{text}"' if text in _NON_FINITE else text

    return write


def texts_one_by_one(column: pyarrow.Array, text_of: Callable[..., str]) -> pyarrow.Array:
    """Return the texts of values for which Arrow has no text in the form that is needed. NULL stays NULL."""
    return pyarrow.array([None if value is None else text_of(value) for value in column.to_pylist()], TEXT)


def _parts(value: pyarrow.MapScalar) -> tuple[list[object], list[object]]:
    pairs = value.as_py() or []
    return [key for key, _ in pairs], [item for _, item in pairs]


def _joined_lists(column: pyarrow.ListArray, texts: pyarrow.Array, opening: str, closing: str) -> pyarrow.Array:
    """Return the texts of a list's values joined. `texts`: of all values, those of NULL lists left out."""
    lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    ends = pyarrow.array([0, *lengths.cumsum().tolist()], pyarrow.int32())
    lists = pyarrow.ListArray.from_arrays(ends, texts.cast(pyarrow.string()))
    return joined(opening, compute.binary_join(lists, ",").cast(TEXT), closing)
