"""How values become bytes for the outside world, and bytes values: for message queues and for files."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import IO, Any

import msgspec

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


def _known_charset(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError(f"Python knows no character set {name!r}") from None
