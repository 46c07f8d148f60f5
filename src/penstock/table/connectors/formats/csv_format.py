"""`'format' = 'csv'`. Source: Flink docs, "CSV Format"."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, TextType
from penstock.table.connectors.formats.csv_decoding import CsvDecoder
from penstock.table.connectors.formats.csv_encoding import CsvEncoder
from penstock.table.connectors.formats.csv_form import CsvForm, check_type
from penstock.table.connectors.formats.message_format import Encoder, MessageDecoder, MessageFormat

DELIMITER = option("field-delimiter", TextType(), ",")
NO_QUOTES = option("disable-quote-character", BooleanType(), False)
QUOTE = option("quote-character", TextType(), None)
COMMENTS = option("allow-comments", BooleanType(), False)
IGNORE_ERRORS = option("ignore-parse-errors", BooleanType(), False)
ELEMENTS = option("array-element-delimiter", TextType(), ";")
ESCAPE = option("escape-character", TextType(), None)
NULL = option("null-literal", TextType(), None)
SCIENTIFIC = option("write-bigdecimal-in-scientific-notation", BooleanType(), True)
_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\b": "\b", "\\f": "\f", "\\\\": "\\"}
"""Escapes of Java in an option, which SQL reads as two characters."""


class CsvFormat(MessageFormat):
    """Rows as lines of fields."""

    name = "csv"
    reads_whole = True
    options: ClassVar[tuple[ConfigOption[Any], ...]] = (
        DELIMITER,
        NO_QUOTES,
        QUOTE,
        COMMENTS,
        IGNORE_ERRORS,
        ELEMENTS,
        ESCAPE,
        NULL,
        SCIENTIFIC,
    )

    def check(self) -> None:
        if self.get(NO_QUOTES) and self.get(QUOTE) is not None:
            raise ValueError("quote-character can't be set if disable-quote-character is true")
        for one in (DELIMITER, QUOTE, ESCAPE):
            if (text := self.get(one)) is not None and len(_unescaped(text)) != 1:
                raise ValueError(f"{one.key} must be one character, got {text!r}")

    @property
    def form(self) -> CsvForm:
        """How lines are read and written."""
        escape = self.get(ESCAPE)
        return CsvForm(
            delimiter=_unescaped(self.get(DELIMITER)),
            quote=None if self.get(NO_QUOTES) else self.get(QUOTE) or '"',
            escape=None if escape is None else _unescaped(escape),
            comments=self.get(COMMENTS),
            elements=_unescaped(self.get(ELEMENTS)),
            null=self.get(NULL),
            scientific=self.get(SCIENTIFIC),
        )

    def decoder(self, schema: pyarrow.Schema) -> MessageDecoder:
        for field in schema:
            check_type(field)
        return CsvDecoder(schema, self.form, ignores_errors=self.get(IGNORE_ERRORS))

    def encoder(self, schema: pyarrow.Schema) -> Encoder:
        for field in schema:
            check_type(field)
        return CsvEncoder(self.form)


def _unescaped(text: str) -> str:
    return _ESCAPES.get(text, text)
