"""How values become bytes for the outside world, and bytes values: for message queues and for files."""

from __future__ import annotations

import codecs
import csv
import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import IO, Any

import msgspec

from penstock.common.record_fields import fields_of
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row


class SerializationSchema(ABC):
    """Turns a value into the bytes of a message."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes | None:
        """The bytes that stand for `element`; None where a message without content is meant."""


class DeserializationSchema(ABC):
    """Turns the bytes of a message into a value."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """The value that `message` stands for. None: the message is left out."""

    def is_end_of_stream(self, element: Any) -> bool:
        """Whether `element` says that nothing comes after it."""
        return False

    def get_produced_type(self) -> TypeInformation:
        """The type of the values."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings. Raises ValueError if Python knows no such character set."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = _known_charset(charset)

    def serialize(self, element: Any) -> bytes:
        """The encoded string. Raises TypeError if `element` is no str."""
        if not isinstance(element, str):
            raise TypeError(f"SimpleStringSchema writes str, got {element!r} of type {type(element).__name__}")
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """The decoded string. Raises UnicodeDecodeError if the bytes are no such text."""
        return message.decode(self._charset)

    def get_produced_type(self) -> TypeInformation:
        """STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes, as they are."""

    def serialize(self, element: Any) -> bytes:
        """The bytes. Raises TypeError if `element` is no bytes-like object."""
        if not isinstance(element, (bytes, bytearray, memoryview)):
            raise TypeError(f"ByteArraySchema writes bytes, got {element!r} of type {type(element).__name__}")
        return bytes(element)

    def deserialize(self, message: bytes) -> bytes:
        """The bytes."""
        return message

    def get_produced_type(self) -> TypeInformation:
        """An array of BYTE, which is what bytes are."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a Row or tuple, which must hold bytes. Raises ValueError if `field_index` is negative."""

    def __init__(self, field_index: int) -> None:
        if field_index < 0:
            raise ValueError(f"the position of a field is 0 or more, got {field_index}")
        self._field_index = field_index

    def serialize(self, element: Any) -> bytes | None:
        """The bytes of that field. Raises TypeError if it holds something else than bytes or None."""
        value = element[self._field_index]
        if value is None or isinstance(value, bytes):
            return value
        raise TypeError(f"field {self._field_index} of {element!r} must hold bytes, got {value!r}")


class Encoder(ABC):
    """Writes values into a file, one after the other."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """What is appended to the file for `value`; its line ending, if there is one, included."""

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """`str(value)`, a line each. Raises ValueError if Python knows no such character set."""
        return _StringEncoder(charset_name)

    @staticmethod
    def json_encoder() -> Encoder:
        """JSON, a line each. Rows become objects by their names, or arrays; dates and decimals become strings."""
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
        """Comma-separated values, a record each: dicts, Rows, tuples, or objects with attributes. No header.

        `columns`: names of the fields to write, in order; left out, records must be Rows, tuples or lists, and all
        their fields are written. Values are quoted where they must be; `quote_char` None: never, and what would need
        it is an error unless there is an `escape_char`. True is `true`, dates are ISO 8601, lists and dicts JSON, bytes
        base64. `null_value`: what stands for None. Raises TypeError or ValueError for names or characters that can't
        be.
        """
        return _CsvEncoder(columns, (delimiter, quote_char, escape_char), null_value, charset_name)


class BulkWriter(ABC):
    """Writes one file whose format does not let records be appended one by one: columns, footers."""

    @abstractmethod
    def add_element(self, element: Any) -> None:
        """Take one value. It may be held back."""

    def add_elements(self, elements: Sequence[Any]) -> None:
        """Take several, in order. Override it where that is cheaper than one by one."""
        for element in elements:
            self.add_element(element)

    @abstractmethod
    def flush(self) -> None:
        """Write what is held back, as far as the format allows."""

    @abstractmethod
    def finish(self) -> None:
        """Write all that is left, footer included. The stream is closed by whoever opened it."""

    def discard(self) -> None:
        """Called instead of `finish` where the file is given up: release what is open. The stream is still open."""


class BulkWriterFactory(ABC):
    """Makes a BulkWriter for each file. Pickled to the workers: holds settings, nothing open."""

    @abstractmethod
    def create(self, stream: IO[bytes]) -> BulkWriter:
        """A writer onto an empty file."""


class _StringEncoder(Encoder):
    def __init__(self, charset_name: str) -> None:
        self._charset = _known_charset(charset_name)

    def encode(self, value: Any) -> bytes:
        return f"{value}\n".encode(self._charset)


class _JsonEncoder(Encoder):
    def encode(self, value: Any) -> bytes:
        return _JSON.encode(value) + b"\n"


def _json_form(value: Any) -> Any:
    if isinstance(value, Row):
        return list(value) if value._fields is None else value.as_dict()
    raise TypeError(f"{value!r} of type {type(value).__name__} can't be written as JSON")


# Outside of the encoder, which is pickled.
_JSON = msgspec.json.Encoder(enc_hook=_json_form, decimal_format="string")


_CsvCharacters = tuple[str, str | None, str | None]
"""Delimiter, quote, escape."""
_CSV_AS_IT_IS = frozenset({str, int, float, Decimal})


class _CsvEncoder(Encoder):
    def __init__(
        self, columns: Sequence[str] | None, characters: _CsvCharacters, null_value: str, charset_name: str
    ) -> None:
        if isinstance(columns, str) or (columns is not None and not columns):
            raise TypeError(f"columns must be a list of names, or None, got {columns!r}")
        _csv_line(characters)  # raises TypeError for characters that can't separate or quote
        self._columns = None if columns is None else tuple(columns)
        self._characters = characters
        self._null_value = null_value
        self._charset = _known_charset(charset_name)

    def encode(self, value: Any) -> bytes:
        if self._columns is not None:
            fields = fields_of(value, self._columns)
        elif isinstance(value, (Row, tuple, list)):
            fields = list(value)
        else:
            raise TypeError(f"a CSV record by position is a Row, tuple or list; name the columns for {value!r}")
        null = self._null_value
        texts = [
            null if field is None else field if type(field) in _CSV_AS_IT_IS else _csv_form(field) for field in fields
        ]
        try:
            return _csv_line(self._characters)(texts).encode(self._charset)
        except csv.Error as error:
            raise ValueError(f"{value!r} can't be written as CSV: {error}") from error


@lru_cache(maxsize=64)
def _csv_line(characters: _CsvCharacters) -> Callable[[Sequence[Any]], str]:
    """The function from fields to a line. Outside of the encoder, which is pickled."""
    delimiter, quote_char, escape_char = characters
    writer = csv.writer(
        _Echo(),
        delimiter=delimiter,
        quotechar=quote_char,
        escapechar=escape_char,
        quoting=csv.QUOTE_NONE if quote_char is None else csv.QUOTE_MINIMAL,
        # Of both characters, since what is in it is what is quoted.
        lineterminator="\r\n",
    )
    write = writer.writerow  # It returns what `write` of its file returns.
    return lambda fields: write(fields)[:-2] + "\n"


class _Echo:
    """A file that hands back what is written to it."""

    def write(self, text: str) -> str:
        return text


def _csv_form(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (Row, list, tuple, dict)):
        return _JSON.encode(value).decode()
    if isinstance(value, bytes):
        return _JSON.encode(value).decode()[1:-1]
    return str(value)


def _known_charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(f"Python knows no character set {name!r}") from None
