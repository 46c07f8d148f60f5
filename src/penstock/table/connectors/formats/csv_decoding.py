"""Lines of CSV as columns: plain lines are split and converted by Arrow, others one by one.

Source: Flink's CsvToRowDataConverters (flink-csv).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow
from pyarrow import types as arrow

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.connectors.formats.csv_dialect import CsvDialect
from penstock.connectors.formats.plain_csv import PlainLines, with_nulls
from penstock.table.connectors.formats.csv_form import CsvForm
from penstock.table.connectors.formats.json_values import decimal_of
from penstock.table.connectors.formats.message_format import MessageDecoder
from penstock.table.connectors.formats.text_values import DATE, TIME, cast, date_of, moment_of, moments, time_of
from penstock.table.functions.java_text import parse_double

_Converter = Callable[[str], Any]
_INTEGER = re.compile(r"[+-]?[0-9]+")
_SHORT_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(.*)", re.DOTALL)


class CsvDecoder(MessageDecoder):
    """Decodes lines whose fields are the columns, in order."""

    name = "CSV"
    remedy = "csv.ignore-parse-errors to true"

    def __init__(self, schema: pyarrow.Schema, form: CsvForm, *, ignores_errors: bool) -> None:
        super().__init__(schema, ignores_errors=ignores_errors)
        self._form = form
        self._dialect = CsvDialect(form.delimiter, form.quote, form.escape, form.comments)
        self._lines = PlainLines(self._dialect, len(schema), {name: at for at, name in enumerate(schema.names)})
        self._nulls = () if form.null is None else (form.null,)
        self._converters = {field.name: self._converter(field.type) for field in schema}

    def usual(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        lines = b"\n".join(messages) + b"\n"
        if lines.count(b"\n") != len(messages):
            raise ValueError("a message has several lines")
        texts = None
        if self._lines.length(lines, last=True, newlines_in_values=False) == len(lines):
            texts = self._lines.texts(lines)
        # Arrow leaves out empty lines.
        if texts is None or any(len(column) != len(messages) for column in texts[0].values()):
            raise ValueError("a line is not plain")
        columns = [_cast(with_nulls(texts[0][field.name], self._nulls), field.type) for field in self.schema]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)

    def single(self, message: bytes) -> dict[str, Any] | None:
        text = message.decode("utf-8").rstrip("\r\n")
        if not text or (self._form.comments and text.startswith("#")):
            return None
        fields = next(self._dialect.reader_of_lines([text]), None)
        if not fields:
            return None
        names = self.schema.names
        if len(fields) > len(names) or (len(fields) < len(names) and not self.ignores_errors):
            raise ValueError(f"expected {len(names)} fields, got {len(fields)}")
        row = dict.fromkeys(names)
        for name, field in zip(names, fields, strict=False):
            row[name] = self._value(name, field)
        return row

    def _value(self, name: str, text: str) -> Any:
        if text == self._form.null:
            return None
        try:
            return self._converters[name](text)
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            if self.ignores_errors:
                return None
            raise ValueError(f"field {name!r}: {error}") from None

    def _converter(self, kind: pyarrow.DataType) -> _Converter:
        if arrow.is_string(kind):
            return str
        if arrow.is_boolean(kind):
            return lambda text: text.strip().lower() == "true"
        if arrow.is_integer(kind):
            return partial(_integer, kind.bit_width)
        if arrow.is_floating(kind):
            return lambda text: parse_double(text.strip())
        if arrow.is_decimal(kind):
            return lambda text: decimal_of(text, kind)
        if arrow.is_date32(kind):
            return lambda text: date_of(_long_date(text))
        if arrow.is_time32(kind):
            return time_of
        if arrow.is_timestamp(kind):
            return lambda text: moment_of(_long_date(text.strip()), kind, " ")
        if arrow.is_binary(kind):
            return lambda text: base64.b64decode(text, validate=True)
        if arrow.is_list(kind):
            element = self._element(kind.value_type)
            return lambda text: [element(one) for one in text.split(self._form.elements)] if text else []
        names = [field.name for field in kind]
        elements = [self._element(field.type) for field in kind]

        def row(text: str) -> dict[str, Any]:
            parts = text.split(self._form.elements)
            if len(parts) != len(names):
                raise ValueError(f"expected {len(names)} fields of a row, got {len(parts)}")
            return {name: read(part) for name, read, part in zip(names, elements, parts, strict=True)}

        return row

    def _element(self, kind: pyarrow.DataType) -> _Converter:
        convert = self._converter(kind)
        return lambda text: None if text == self._form.null else convert(text)


def _integer(bits: int, text: str) -> int:
    trimmed = text.strip()
    if not _INTEGER.fullmatch(trimmed):
        raise ValueError(f"{text!r:.80} is not a whole number")
    value = int(trimmed)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"{value} does not have {bits} bits")
    return value


def _long_date(text: str) -> str:
    """Return a text whose month and day have two digits, as Date.valueOf of Java reads it."""
    found = _SHORT_DATE.fullmatch(text)
    return text if found is None else f"{found[1]}-{found[2]:0>2}-{found[3]:0>2}{found[4]}"


def _cast(texts: pyarrow.Array, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return the values of texts of the usual form. Raises ValueError, or ArrowInvalid, for others."""
    if arrow.is_string(kind):
        return texts.cast(kind)
    if arrow.is_timestamp(kind):
        return moments(texts, kind, " ")
    pattern = _pattern(kind)
    if pattern is None:
        raise ValueError(f"values of {kind} are read one by one")
    return cast(texts, pattern, kind)


def _pattern(kind: pyarrow.DataType) -> str | None:
    if arrow.is_integer(kind):
        return "-?[0-9]+"
    if arrow.is_floating(kind):
        return r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"
    if arrow.is_boolean(kind):
        return "(true|false)"
    if arrow.is_date32(kind):
        return DATE
    return TIME if arrow.is_time32(kind) else None
