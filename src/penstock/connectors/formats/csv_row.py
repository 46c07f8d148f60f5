"""Rows as CSV messages. Source: Flink's CsvRowDeserializationSchema and CsvRowSerializationSchema (flink-csv)."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.common.serialization import ColumnDecoder, DeserializationSchema, SerializationSchema, quoted_mark
from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import Row, row_factory
from penstock.common.types.composite_types import LIST_TYPES
from penstock.common.types.integers import BITS
from penstock.common.types.record_fields import fields_of
from penstock.common.values.written_texts import number_text
from penstock.connectors.formats.byte_order_mark import text_of
from penstock.connectors.formats.conversion import bytes_of, column_converter, converter
from penstock.connectors.formats.csv_dialect import CsvDialect
from penstock.connectors.formats.declared_fields import check_of, with_field_name
from penstock.connectors.formats.row_values import row_type_of

if TYPE_CHECKING:
    from penstock.common.columns.csv_lines import CsvForm
    from penstock.common.columns.record_columns import RecordColumns

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


class _Characters(msgspec.Struct, frozen=True):
    """The separators of fields. `null_literal` None: no text represents None."""

    dialect: CsvDialect = CsvDialect()
    array_element_delimiter: str = ";"
    null_literal: str | None = None
    line_delimiter: str = "\n"


class CsvRowDeserializationSchema(DeserializationSchema[Row]):
    """Make a Row of each line. Made by `CsvRowDeserializationSchema.Builder(type_info)`."""

    def __init__(self, type_info: RowTypeInfo, characters: _Characters, ignore_parse_errors: bool) -> None:
        self._type_info = type_info
        self._characters = characters
        self._ignore_parse_errors = ignore_parse_errors
        self._readers: list[Callable[[str], Any]] | None = None
        self._columns: list[Callable[[Sequence[str]], Sequence[Any]]] | None = None

    def deserialize(self, message: bytes | None) -> Any:
        """Return the Row of `message`, or None to skip it. None is skipped.

        Raise ValueError for a message that is not a line of these fields. If errors are ignored, an unreadable or
        missing field is None in the Row, and a message with more fields, or other than one line, is skipped. Source:
        Flink docs, "CSV Format", `csv.ignore-parse-errors`.
        """
        return self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> list[Any]:
        """Return the Rows of messages, like `deserialize` for each."""
        try:
            return self._rows(messages)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # A message is not one line of these fields: read each individually for its error.
            return list(map(self._row_or_none, messages))

    def _rows(self, messages: Sequence[Any]) -> list[Any]:
        """Return Rows, read column by column. Raise any error of a line or a field."""
        names, dialect = self._type_info.get_field_names(), self._characters.dialect
        texts = list(map(text_of, messages))
        records = list(dialect.reader_of_records(texts))
        if len(records) != len(texts) or any(len(record) != len(names) for record in records):
            raise ValueError("each message must be one line of these fields")
        if self._columns is None:
            kinds = self._type_info.get_field_types()
            self._columns = [_column_reader_of(kind, self._characters) for kind in kinds]
        columns = [read(fields) for read, fields in zip(self._columns, zip(*records, strict=True), strict=True)]
        return list(map(row_factory(names), zip(*columns, strict=True)))

    def _row_or_none(self, message: bytes | None) -> Any:
        if message is None:
            return None
        try:
            return self._row(text_of(message))
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            if self._ignore_parse_errors:
                return None
            raise ValueError(f"{message!r:.200} cannot be read as CSV of {self._type_info}: {error}") from None

    def _row(self, line: str) -> Any:
        records = [record for record in self._characters.dialect.reader(line) if record]
        if not records and (self._characters.dialect.comments or self._ignore_parse_errors):
            return None
        fields = records[0] if records else [""]
        names = self._type_info.get_field_names()
        missing = max(0, len(names) - len(fields)) if self._ignore_parse_errors else 0
        if len(records) > 1 or len(fields) + missing != len(names):
            raise ValueError(
                f"expected {len(names)} fields in one line, got {len(fields)} fields and {len(records)} lines"
            )
        values = [read(text) for read, text in zip(self._field_readers(), fields, strict=not missing)]
        return row_factory(names)([*values, *[None] * missing])

    def _field_readers(self) -> list[Callable[[str], Any]]:
        if self._readers is None:
            self._readers = [
                _reader_of(kind, self._characters, self._ignore_parse_errors)
                for kind in self._type_info.get_field_types()
            ]
        return self._readers

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder of plain lines, unless the Rows lack a column."""
        if type(self) is not CsvRowDeserializationSchema or not {*columns.names} <= {
            *self._type_info.get_field_names()
        }:
            return None
        from penstock.connectors.formats.csv_columns import CsvMessageDecoder

        characters = self._characters
        decoder = CsvMessageDecoder(
            columns,
            self._type_info,
            characters.dialect,
            characters.null_literal,
            nested=lambda kind: _column_reader_of(kind, characters) if _is_nested(kind) else None,
        )
        return decoder.batch_of

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the Rows."""
        return self._type_info

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_readers": None, "_columns": None}

    class Builder:
        """Build a CsvRowDeserializationSchema; each method returns the builder.

        Raise TypeError for a type other than rows, and for a field type that CSV cannot represent.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = row_type_of(type_info, "Builder")
            for kind in self._type_info.get_field_types():
                # Checked here, because an error of the first message would count as unreadable data.
                _reader_of(kind, _Characters(), False)
            self._characters = _Characters()
            self._ignore_parse_errors = False

        def set_field_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the character between fields. Default: a comma."""
            return self._with_dialect(delimiter=_checked_character(delimiter))

        def set_allow_comments(self, allow_comments: bool) -> CsvRowDeserializationSchema.Builder:
            """Skip lines that start with #."""
            return self._with_dialect(comments=allow_comments)

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text between elements of a list. Default: a semicolon."""
            self._characters = msgspec.structs.replace(self._characters, array_element_delimiter=delimiter)
            return self

        def set_quote_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the character around fields that contain others. Default: a double quote."""
            return self._with_dialect(quote_char=_checked_character(c))

        def set_escape_character(self, c: str) -> CsvRowDeserializationSchema.Builder:
            """Set the character that precedes a literal one. Default: none."""
            return self._with_dialect(escape_char=_checked_character(c))

        def set_null_literal(self, null_literal: str) -> CsvRowDeserializationSchema.Builder:
            """Set the text that represents None. Default: there is no such text."""
            self._characters = msgspec.structs.replace(self._characters, null_literal=null_literal)
            return self

        def set_ignore_parse_errors(self, ignore_parse_errors: bool) -> CsvRowDeserializationSchema.Builder:
            """Read missing or unreadable fields as None, and skip messages that are not a line of fields."""
            self._ignore_parse_errors = ignore_parse_errors
            return self

        def _with_dialect(self, **changed: Any) -> CsvRowDeserializationSchema.Builder:
            self._characters = _with_dialect(self._characters, changed)
            return self

        def build(self) -> CsvRowDeserializationSchema:
            """Create the schema."""
            return CsvRowDeserializationSchema(self._type_info, self._characters, self._ignore_parse_errors)


class CsvRowSerializationSchema(SerializationSchema):
    """Write Rows as lines. Made by `CsvRowSerializationSchema.Builder(type_info)`."""

    def __init__(self, type_info: RowTypeInfo, characters: _Characters) -> None:
        self._type_info = type_info
        self._characters = characters
        self._line_of: Callable[[Any], str] | None = None

    def serialize(self, element: Any) -> bytes:
        """Return the line of a record: a Row, a dict or an object with attributes by name; others by position.

        Raise TypeError for anything else, ValueError for another number of fields, for a value that is not of its
        field's type, and for one that needs quotes if these are disabled.
        """
        if self._line_of is None:
            self._line_of = _line_writer(self._type_info, self._characters)
        return self._line_of(element).encode()

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether there is a column of the type of each field, none of them nested or a decimal."""
        from penstock.connectors.formats.declared_columns import has_declared_columns

        fits = type(self) is CsvRowSerializationSchema and has_declared_columns(columns, self._type_info)
        return fits and self._form.takes_columns(columns.only(self._type_info.get_field_names()))

    def serialize_columns(self, batch: Any) -> list[bytes]:
        """Return the lines of the records of a pyarrow.RecordBatch."""
        return self._form.messages(batch, self._characters.line_delimiter.encode())

    @property
    def _form(self) -> CsvForm:
        from penstock.common.columns.csv_lines import CsvForm

        dialect = self._characters.dialect
        return CsvForm(
            self._type_info.get_field_names(),
            dialect.delimiter,
            dialect.quote_char,
            dialect.escape_char,
            null_value=self._characters.null_literal or "",
            time_separator=" ",
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_line_of": None}

    class Builder:
        """Build a CsvRowSerializationSchema; each method returns the builder.

        Raise TypeError for a type other than rows.
        """

        def __init__(self, type_info: TypeInformation) -> None:
            self._type_info = row_type_of(type_info, "Builder")
            self._characters = _Characters(null_literal="")

        def set_field_delimiter(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the character between fields. Default: a comma."""
            return self._with_dialect(delimiter=_checked_character(c))

        def set_line_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            r"""Set the end of a line: \n, \r, \r\n or nothing. Default: \n."""
            if delimiter not in ("\n", "\r", "\r\n", ""):
                raise ValueError(rf"the end of a line must be \n, \r, \r\n or nothing, got {delimiter!r}")
            self._characters = msgspec.structs.replace(self._characters, line_delimiter=delimiter)
            return self

        def set_array_element_delimiter(self, delimiter: str) -> CsvRowSerializationSchema.Builder:
            """Set the text between elements of a list. Default: a semicolon."""
            self._characters = msgspec.structs.replace(self._characters, array_element_delimiter=delimiter)
            return self

        def disable_quote_character(self) -> CsvRowSerializationSchema.Builder:
            """Write no quotes."""
            return self._with_dialect(quote_char=None)

        def set_quote_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the character around fields that contain others. Default: a double quote."""
            return self._with_dialect(quote_char=_checked_character(c))

        def set_escape_character(self, c: str) -> CsvRowSerializationSchema.Builder:
            """Set the character that precedes a literal one. Default: none."""
            return self._with_dialect(escape_char=_checked_character(c))

        def set_null_literal(self, s: str) -> CsvRowSerializationSchema.Builder:
            """Set the text that represents None. Default: the empty text."""
            self._characters = msgspec.structs.replace(self._characters, null_literal=s)
            return self

        def _with_dialect(self, **changed: Any) -> CsvRowSerializationSchema.Builder:
            self._characters = _with_dialect(self._characters, changed)
            return self

        def build(self) -> CsvRowSerializationSchema:
            """Create the schema."""
            return CsvRowSerializationSchema(self._type_info, self._characters)


def _with_dialect(characters: _Characters, changed: dict[str, Any]) -> _Characters:
    return msgspec.structs.replace(characters, dialect=msgspec.structs.replace(characters.dialect, **changed))


def _checked_character(character: str) -> str:
    if len(character) != 1:
        raise ValueError(f"expected one character, got {character!r}")
    return character


def _reader_of(type_info: TypeInformation, characters: _Characters, lenient: bool) -> Callable[[str], Any]:
    """Return the reader of a field, or of an element. `lenient`: unreadable texts are None."""
    read, null = _strict_reader_of(type_info, characters, lenient), characters.null_literal
    if not lenient:
        return read if null is None else lambda text: None if text == null else read(text)

    def read_if_possible(text: str) -> Any:
        try:
            return None if text == null else read(text)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            return None

    return read_if_possible


def _column_reader_of(type_info: TypeInformation, characters: _Characters) -> Callable[[Sequence[str]], Sequence[Any]]:
    """Return the reader of one field of many messages."""
    read, null = _strict_reader_of(type_info, characters, False), characters.null_literal
    together = None if _is_nested(type_info) else column_converter(type_info)

    def read_all(texts: Sequence[str]) -> Sequence[Any]:
        if null is not None and null in texts:
            return [None if text == null else read(text) for text in texts]
        return results_of(read, len(texts), texts) if together is None else together(texts)

    return read_all


def _is_nested(type_info: TypeInformation) -> bool:
    return isinstance(type_info, (RowTypeInfo, *LIST_TYPES))


def _strict_reader_of(type_info: TypeInformation, characters: _Characters, lenient: bool) -> Callable[[str], Any]:
    if type_info == _BYTES:
        return bytes_of
    delimiter = characters.array_element_delimiter
    if isinstance(type_info, LIST_TYPES):
        read_item = _reader_of(type_info._element_type, characters, lenient)
        return lambda text: [read_item(item) for item in text.split(delimiter)] if text else []
    if isinstance(type_info, RowTypeInfo):
        # Flink's rule: the fields of a nested row are separated like elements of a list.
        make = Row(*type_info.get_field_names())
        readers = [_reader_of(kind, characters, lenient) for kind in type_info.get_field_types()]
        return lambda text: make(*[read(part) for read, part in zip(readers, text.split(delimiter), strict=True)])
    return converter(type_info)


def _line_writer(type_info: RowTypeInfo, characters: _Characters) -> Callable[[Any], str]:
    """Return the function that writes the line of a record."""
    texts_of, dialect = _writer_of_fields(type_info, characters), characters.dialect
    # One buffer for all lines: creating one costs as much as writing a line.
    line = io.StringIO()
    write = csv.writer(
        line,
        delimiter=dialect.delimiter,
        quotechar=dialect.quote_char,
        escapechar=dialect.escape_char,
        quoting=csv.QUOTE_NONE if dialect.quote_char is None else csv.QUOTE_MINIMAL,
        # CR LF, so that a field with either character is quoted, whatever ends the lines here.
        lineterminator="\r\n",
    ).writerow
    end = characters.line_delimiter

    def line_of(record: Any) -> str:
        texts = texts_of(record)
        line.seek(0)
        line.truncate()
        try:
            write(texts)
        except csv.Error as error:
            raise ValueError(f"{record!r:.200} cannot be written as CSV: {error}") from None
        text = line.getvalue()[:-2]
        if text.startswith("\ufeff"):
            text = quoted_mark(text, dialect.delimiter, dialect.quote_char, dialect.escape_char)
        return text + end

    return line_of


def _writer_of_fields(type_info: RowTypeInfo, characters: _Characters) -> Callable[[Any], list[str]]:
    """Return the function that writes the texts of a record's fields."""
    names = tuple(type_info.get_field_names())
    writers = [_writer_of(kind, characters) for kind in type_info.get_field_types()]

    def texts_of(record: Any) -> list[str]:
        texts: list[str] = []
        for name, write, field in zip(names, writers, fields_of(record, names), strict=True):
            try:
                texts.append(write(field))
            except (TypeError, ValueError) as error:
                raise with_field_name(name, error) from None
        return texts

    return texts_of


def _writer_of(type_info: TypeInformation, characters: _Characters) -> Callable[[Any], str]:
    """Return the function that writes the text of a field, or of an element."""
    write, null = _writer_of_values(type_info, characters), characters.null_literal or ""
    return lambda value: null if value is None else write(value)


def _writer_of_values(type_info: TypeInformation, characters: _Characters) -> Callable[[Any], str]:
    if isinstance(type_info, ExternalTypeInfo):
        return _writer_of_values(type_info._type_info, characters)
    if isinstance(type_info, RowTypeInfo):
        texts_of = _writer_of_fields(type_info, characters)
        return lambda value: _joined(texts_of(value), characters.array_element_delimiter)
    check = check_of(type_info)
    if isinstance(type_info, LIST_TYPES):
        write_item = _writer_of(type_info._element_type, characters)
        return lambda value: (
            _text_of(value)
            if isinstance(value, _BINARY)
            else _joined([write_item(item) for item in check(value)], characters.array_element_delimiter)
        )
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _PLAIN_TYPES:
        return lambda value: str(check(value))
    return lambda value: _text_of(check(value))


def _joined(texts: list[str], delimiter: str) -> str:
    """Return the text of a list or a nested row: it is not quoted, so elements must not contain the delimiter."""
    text = delimiter.join(texts)
    if texts and text.split(delimiter) != texts:
        raise ValueError(
            f"an element of {texts!r:.200} contains the separator {delimiter!r} and would be read as two elements: "
            "set another with set_array_element_delimiter"
        )
    return text


_PLAIN_TYPES = (*BITS, BasicType.STRING, BasicType.CHAR)
"""Types whose text is `str` of the value."""
_BINARY = (bytes, bytearray)


def _text_of(value: Any) -> str:
    if isinstance(value, _BINARY):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return number_text(value)
    if isinstance(value, datetime.datetime):
        # As java.sql.Timestamp reads and writes it: it refuses a T in the middle.
        return value.isoformat(" ")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)
