"""Columns as lines of CSV. Source: Flink's RowDataToCsvConverters (flink-csv)."""

from __future__ import annotations

import base64

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.lines import TEXT, joined
from penstock.table.connectors.formats.csv_form import CsvForm
from penstock.table.connectors.formats.json_encoding import moments_text, texts_one_by_one
from penstock.table.functions.java_text import decimal_text, double_text, float_text


class CsvEncoder:
    """Encodes rows as lines without their ends."""

    def __init__(self, form: CsvForm) -> None:
        self._form = form

    def __call__(self, batch: pyarrow.RecordBatch) -> list[bytes]:
        """Return the line of each row. Raises ValueError for a text that can't be written without quotes."""
        parts: list[pyarrow.Array | str] = []
        for column in batch.columns:
            texts = self._texts(column)
            if not _is_number(column.type):
                texts = self._quoted(texts)
            parts += [texts.fill_null(self._form.written_null), self._form.delimiter]
        lines: list[str] = joined(*parts[:-1]).to_pylist()
        return [line.encode() for line in lines]

    def _quoted(self, texts: pyarrow.Array) -> pyarrow.Array:
        """Return texts quoted where they have a special character, or could be taken for NULL or a comment."""
        form = self._form
        special = [form.delimiter, "\n", "\r", *([form.quote] if form.quote else [])]
        special += [form.escape] if form.escape else []
        is_special = compute.equal(texts, form.written_null)
        if form.comments:
            is_special = compute.or_(is_special, compute.starts_with(texts, "#"))
        for one in special:
            is_special = compute.or_(is_special, compute.match_substring(texts, one))
        if not compute.any(is_special).as_py():
            return texts
        if form.quote is None:
            if form.escape is None:
                return texts
            escaped = compute.replace_substring(texts, form.escape, form.escape * 2)
            return compute.replace_substring(escaped, form.delimiter, form.escape + form.delimiter)
        doubled = form.quote * 2
        if form.escape is not None:
            texts, doubled = compute.replace_substring(texts, form.escape, form.escape * 2), form.escape + form.quote
        quoted = joined(form.quote, compute.replace_substring(texts, form.quote, doubled), form.quote)
        return compute.if_else(is_special, quoted, texts)

    def _texts(self, column: pyarrow.Array) -> pyarrow.Array:
        kind = column.type
        if arrow.is_string(kind) or arrow.is_integer(kind) or arrow.is_boolean(kind) or arrow.is_date32(kind):
            return column.cast(TEXT)
        if arrow.is_timestamp(kind):
            return moments_text(column, " ")
        if arrow.is_floating(kind):
            return texts_one_by_one(column, float_text if arrow.is_float32(kind) else double_text)
        if arrow.is_decimal(kind):
            return texts_one_by_one(column, str if self._form.scientific else decimal_text)
        if arrow.is_time32(kind):
            texts = column.cast(pyarrow.time32("ms")).cast(TEXT)
            return compute.utf8_rtrim(compute.utf8_rtrim(texts, "0"), ".")
        if arrow.is_binary(kind):
            return texts_one_by_one(column, lambda value: base64.b64encode(value).decode())
        if arrow.is_list(kind):
            texts = iter(self._texts(column.flatten()).fill_null(self._form.written_null).to_pylist())
            return texts_one_by_one(column, lambda value: self._form.elements.join(next(texts) for _ in value))
        parts: list[pyarrow.Array | str] = []
        for child in column.flatten():
            parts += [self._texts(child).fill_null(self._form.written_null), self._form.elements]
        texts_of_rows = joined(*parts[:-1])
        return compute.if_else(column.is_valid(), texts_of_rows, pyarrow.scalar(None, TEXT))


def _is_number(kind: pyarrow.DataType) -> bool:
    return any(one(kind) for one in (arrow.is_integer, arrow.is_floating, arrow.is_decimal, arrow.is_boolean))
