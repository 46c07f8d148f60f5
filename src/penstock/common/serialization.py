"""Conversion of values to and from bytes, for message queues and files, with PyFlink's names."""

from __future__ import annotations

import codecs
import csv
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import IO, TYPE_CHECKING, Any, Generic

from penstock.common.doors import pyflink_names
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.common.types import Row
from penstock.common.types.declared_text import text_in_files
from penstock.common.types.record_fields import fields_of
from penstock.common.types.type_variables import Record
from penstock.common.values.written_texts import CSV_UNCHANGED, csv_form, json_bytes, with_number_texts

if TYPE_CHECKING:
    import pyarrow

    from penstock.common.columns.csv_lines import CsvForm
    from penstock.common.columns.lines import Lines
    from penstock.common.columns.record_columns import RecordColumns


ColumnDecoder = Callable[[Sequence[bytes]], "pyarrow.RecordBatch"]
"""From messages to a batch that has a row for each of them. Raises any error if one of them is unusual."""


class SerializationSchema(ABC):
    """Converts a value to the bytes of a message."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes | None:
        """Return the bytes of `element`, or None for a message without content."""

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether `serialize_columns` takes batches of these columns."""
        return False

    def serialize_columns(self, batch: Any) -> Sequence[bytes | None]:
        """Return the messages of a pyarrow.RecordBatch: those of its records."""
        raise NotImplementedError(f"{type(self).__name__} serializes records only")


class DeserializationSchema(ABC, Generic[Record]):
    """Converts the bytes of a message to a value. `DeserializationSchema[Click]` tells type checkers which."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Record | None:
        """Return the value of `message`, or None to skip the message."""

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the values of messages in order, with None for skipped ones. Override it if a loop is too slow."""
        return [self.deserialize(message) for message in messages]

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder to columns of the values that `deserialize_batch` returns; None: there is no such decoder.

        It need not decode all: messages for which it raises any error are left to `deserialize_batch`.
        """
        return None

    def is_end_of_stream(self, element: Any) -> bool:
        """Return whether `element` marks the end of the stream."""
        return False

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema[str]):
    """Converts strings in a character set. Raises ValueError if Python does not know the character set."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _known_charset(charset)

    def serialize(self, element: Any) -> bytes:
        """Encode a string. Raises TypeError if `element` is not a str."""
        if not isinstance(element, str):
            raise TypeError(f"SimpleStringSchema needs a str, got {element!r} of type {type(element).__name__}")
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """Decode a string. Raises UnicodeDecodeError if the bytes are invalid."""
        return message.decode(self._charset)

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Decode the messages. Raises UnicodeDecodeError if the bytes are invalid."""
        charset = self._charset
        return [message.decode(charset) for message in messages]

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema[bytes]):
    """Passes bytes unchanged."""

    def serialize(self, element: Any) -> bytes:
        """Return the bytes. Raises TypeError if `element` is not bytes-like."""
        if not isinstance(element, (bytes, bytearray, memoryview)):
            raise TypeError(f"ByteArraySchema needs bytes, got {element!r} of type {type(element).__name__}")
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes."""
        return message

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the bytes."""
        return list(messages)

    def get_produced_type(self) -> TypeInformation:
        """Return a primitive array of BYTE, the type of bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """Writes one field of a Row or tuple, which must be bytes. Raises ValueError if `field_index` is negative."""

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ValueError(f"field_index must be 0 or more, got {field_index}")
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes | None:
        """Return the bytes of the field. Raises TypeError if it is neither bytes nor None."""
        value = element[self._field_index]
        if value is None or isinstance(value, bytes):
            return value
        raise TypeError(f"field {self._field_index} of {element!r} must be bytes, got {value!r}")

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether records have positions, and the column at this one has bytes."""
        import pyarrow

        kind, index = columns.record_type, self._field_index
        has_positions = isinstance(kind, RowTypeInfo) or (isinstance(kind, type) and issubclass(kind, tuple))
        return has_positions and index < len(columns.names) and pyarrow.types.is_binary(columns.schema.types[index])

    def serialize_columns(self, batch: Any) -> Sequence[bytes | None]:
        """Return the column at this position."""
        values: list[bytes | None] = batch.column(self._field_index).to_numpy(zero_copy_only=False).tolist()
        return values


class Encoder(ABC):
    """Encodes values to be appended to a file."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """Return the bytes to append to the file, including a line ending if the format has one."""

    def for_type(self, type_info: TypeInformation) -> Encoder:
        """Return the encoder for values of this declared type."""
        return self

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether `encode_columns` takes batches of these columns."""
        return False

    def encode_columns(self, batch: Any) -> Lines:
        """Return the lines of a pyarrow.RecordBatch: those of its records."""
        raise NotImplementedError(f"{type(self).__name__} encodes records only")

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return an encoder of one text per line: `str(value)`, or Java's text if the stream has a declared type.

        Raises ValueError if Python does not know the character set.
        """
        return _StringEncoder(charset_name)

    @staticmethod
    def json_encoder() -> Encoder:
        """Return an encoder of one JSON value per line.

        Rows with names become objects, other Rows arrays; dates and decimals become strings.
        """
        return _JsonEncoder()

    @staticmethod
    def csv_encoder(
        columns: Sequence[str] | None = None,
        *,
        delimiter: str = ",",
        quote_char: str | None = '"',
        escape_char: str | None = None,
        null_value: str = "",
        charset_name: str = "UTF-8",
    ) -> Encoder:
        """Return an encoder of CSV without a header. Records are dicts, Rows, tuples, or objects with attributes.

        `columns`: names of the fields to write, in order; if None, records must be Rows, tuples or lists, and all
        fields are written. Values are quoted if necessary. If `quote_char` is None, a value that needs quotes raises
        ValueError, unless there is an `escape_char`. `null_value` is the text for None. True is written as `true`,
        dates as ISO 8601, lists and dicts as JSON, bytes as base64. Raises TypeError or ValueError for invalid names or
        characters.
        """
        return _CsvEncoder(columns, (delimiter, quote_char, escape_char), null_value, charset_name)


class BulkWriter(ABC):
    """Writes one file of a format with columns or a footer, to which single records can't be appended."""

    @abstractmethod
    def add_element(self, element: Any) -> None:
        """Add one value, which may be buffered."""

    def add_elements(self, elements: Sequence[Any]) -> None:
        """Add several values, in order. Override it if that is cheaper than adding them one by one."""
        for element in elements:
            self.add_element(element)

    @abstractmethod
    def flush(self) -> None:
        """Write buffered values, as far as the format allows."""

    @abstractmethod
    def finish(self) -> None:
        """Write all remaining data, including the footer. Leave the stream open: its owner closes it."""

    def discard(self) -> None:
        """Release resources. Called instead of `finish` if the file is discarded; the stream is still open."""


class BulkWriterFactory(ABC):
    """Creates a BulkWriter for each file. It is pickled to the workers: it holds settings, and no open resources."""

    @abstractmethod
    def create(self, stream: IO[bytes]) -> BulkWriter:
        """Return a writer to an empty file."""

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether `BulkWriter.add_elements` takes a pyarrow.RecordBatch of these columns, in place of values."""
        return False


class _StringEncoder(Encoder):
    def __init__(self, charset_name: str, type_info: TypeInformation | None = None) -> None:
        self._charset = _charset_of_records(charset_name)
        self._type_info = type_info

    def for_type(self, type_info: TypeInformation) -> Encoder:
        return _StringEncoder(self._charset, type_info)

    def encode(self, value: Any) -> bytes:
        return f"{self._text_of(value)}\n".encode(self._charset)

    @cached_property
    def _text_of(self) -> Callable[[Any], str]:
        return text_in_files(self._type_info)

    def __getstate__(self) -> dict[str, Any]:
        # The function that formats values is created again in each process.
        return {name: value for name, value in vars(self).items() if name != "_text_of"}


class _JsonEncoder(Encoder):
    def encode(self, value: Any) -> bytes:
        return json_bytes(value) + b"\n"

    def takes_columns(self, columns: RecordColumns) -> bool:
        from penstock.common.columns import json_lines

        return json_lines.takes_columns(columns)

    def encode_columns(self, batch: Any) -> Lines:
        from penstock.common.columns import json_lines

        return json_lines.json_lines(batch)


_CsvCharacters = tuple[str, str | None, str | None]
"""Delimiter, quote character, escape character."""


class _CsvEncoder(Encoder):
    def __init__(
        self, columns: Sequence[str] | None, characters: _CsvCharacters, null_value: str, charset_name: str
    ) -> None:
        if isinstance(columns, str) or (columns is not None and not columns):
            raise TypeError(f"columns must be a list of names, or None, got {columns!r}")
        _csv_line(characters)  # raises TypeError for invalid separator or quote characters
        self._columns = None if columns is None else tuple(columns)
        self._characters = characters
        self._null_value = null_value
        self._charset = _charset_of_records(charset_name)

    def encode(self, value: Any) -> bytes:
        if self._columns is not None:
            fields = fields_of(value, self._columns, has_all=False)
        elif isinstance(value, (Row, tuple, list)):
            fields = list(value)
        else:
            raise TypeError(
                f"a CSV record without column names must be a Row, tuple or list; set columns for {value!r}"
            )
        null = self._null_value
        texts = [
            null if field is None else field if type(field) in CSV_UNCHANGED else csv_form(field) for field in fields
        ]
        try:
            line = _csv_line(self._characters)(texts)
            if "nan" in line or "inf" in line:
                # NaN and infinities are rare. To search the line for them costs less than to check each float.
                line = _csv_line(self._characters)([with_number_texts(text) for text in texts])
            return (line if line[0] != "\ufeff" else quoted_mark(line, *self._characters)).encode(self._charset)
        except csv.Error as error:
            raise ValueError(f"{value!r} can't be written as CSV: {error}") from error

    def takes_columns(self, columns: RecordColumns) -> bool:
        # Records without names are Rows or tuples.
        kind = columns.record_type
        fits = (
            self._columns is not None
            or isinstance(kind, RowTypeInfo)
            or (isinstance(kind, type) and issubclass(kind, tuple))
        )
        return fits and self._charset == "utf-8" and self._form.takes_columns(columns)

    def encode_columns(self, batch: Any) -> Lines:
        return self._form.lines(batch)

    @property
    def _form(self) -> CsvForm:
        from penstock.common.columns.csv_lines import CsvForm

        return CsvForm(self._columns, *self._characters, null_value=self._null_value)


@lru_cache(maxsize=64)
def _csv_line(characters: _CsvCharacters) -> Callable[[Sequence[Any]], str]:
    """Return the function from fields to a line. Module-level, because the encoder is pickled."""
    delimiter, quote_char, escape_char = characters
    writer = csv.writer(
        _Echo(),
        delimiter=delimiter,
        quotechar=quote_char,
        escapechar=escape_char,
        quoting=csv.QUOTE_NONE if quote_char is None else csv.QUOTE_MINIMAL,
        # Both characters, because the writer quotes fields that contain a character of the line terminator.
        lineterminator="\r\n",
    )
    write = writer.writerow  # It returns the result of the file's `write`.
    return lambda fields: write(fields)[:-2] + "\n"


def quoted_mark(line: str, delimiter: str, quote_char: str | None, escape_char: str | None) -> str:
    """Quote or escape the first field, which begins with U+FEFF: at the start of a file it would be a mark."""
    if quote_char is None:
        return (escape_char or "") + line
    # A field that contains a delimiter or a line end already begins with a quote.
    field = line.partition(delimiter)[0].rstrip("\r\n")
    return f"{quote_char}{field}{quote_char}{line[len(field) :]}"


class _Echo:
    """A file whose `write` returns its argument."""

    def write(self, text: str) -> str:
        return text


def _charset_of_records(name: str) -> str:
    """Return the character set. Raises ValueError if it writes a byte order mark, which would precede each record."""
    charset = _known_charset(name)
    if "".encode(charset):
        raise ValueError(f"{name} writes a byte order mark before each record: name UTF-8, UTF-16LE or UTF-16BE")
    return charset


def _known_charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(f"unknown character set {name!r}") from None


pyflink_names.resolve_missing_names(__name__)
