"""`'format' = 'raw'`: the content of a message is the only column. Source: Flink docs, "Raw Format"."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pyarrow
from pyarrow import types as arrow

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import TextType
from penstock.table.connectors.formats.message_format import Encoder, MessageDecoder, MessageFormat

CHARSET = option("charset", TextType(), "UTF-8")
ENDIANNESS = option("endianness", TextType(), "big-endian")
_ORDERS = {"big-endian": ">", "little-endian": "<"}
_MARKS = {"utf-16": codecs.BOM_UTF16_BE, "utf-32": b""}
"""Charsets without an order of bytes, and what Java writes at the beginning to name it."""
_NUMBERS = {
    pyarrow.int8(): "b",
    pyarrow.int16(): "h",
    pyarrow.int32(): "i",
    pyarrow.int64(): "q",
    pyarrow.float32(): "f",
    pyarrow.float64(): "d",
    pyarrow.bool_(): "?",
}


class RawFormat(MessageFormat):
    """A text, bytes, a number or a boolean, as it is."""

    name = "raw"
    reads_whole = True
    options: ClassVar[tuple[ConfigOption[Any], ...]] = (CHARSET, ENDIANNESS)

    def check(self) -> None:
        if self.get(ENDIANNESS) not in _ORDERS:
            raise ValueError(f"endianness must be big-endian or little-endian, got {self.get(ENDIANNESS)!r}")
        try:
            "".encode(self.get(CHARSET))
        except LookupError:
            raise ValueError(f"there is no charset {self.get(CHARSET)!r}") from None

    def decoder(self, schema: pyarrow.Schema) -> MessageDecoder:
        return _Decoder(schema, self._field(schema), self.get(CHARSET), _ORDERS[self.get(ENDIANNESS)])

    def encoder(self, schema: pyarrow.Schema) -> Encoder:
        return _Encoder(self._field(schema), self.get(CHARSET), _ORDERS[self.get(ENDIANNESS)])

    def _field(self, schema: pyarrow.Schema) -> pyarrow.Field:
        if len(schema) != 1:
            raise ValueError(f"the format raw has one column, got {len(schema)}: {', '.join(schema.names)}")
        field = schema.field(0)
        if field.type not in _NUMBERS and not arrow.is_string(field.type) and not arrow.is_binary(field.type):
            raise ValueError(f"the format raw has no values of the type {field.type}")
        return field


class _Decoder(MessageDecoder):
    name = "raw"
    reads_null = True

    def __init__(self, schema: pyarrow.Schema, field: pyarrow.Field, charset: str, order: str) -> None:
        super().__init__(schema, ignores_errors=False)
        self._name = field.name
        self._kind = field.type
        self._charset = codecs.lookup(charset).name
        self._order = order

    def usual(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        if arrow.is_string(self._kind) and self._charset == "utf-8":
            column = pyarrow.array(messages, pyarrow.binary()).cast(self._kind)
        else:
            column = pyarrow.array(list(map(self._value, messages)), self._kind)
        return pyarrow.RecordBatch.from_arrays([column], schema=self.schema)

    def single(self, message: bytes) -> dict[str, Any]:
        return {self._name: self._value(message)}

    def _value(self, message: bytes | None) -> Any:
        if message is None or arrow.is_binary(self._kind):
            return message
        if arrow.is_string(self._kind):
            # As Java decodes: what is not of the charset becomes a replacement character.
            return message.decode(_with_order(self._charset, message), "replace")
        form = self._order + _NUMBERS[self._kind]
        if len(message) != struct.calcsize(form):
            raise ValueError(f"expected {struct.calcsize(form)} bytes for the type {self._kind}, got {len(message)}")
        return struct.unpack(form, message)[0]


class _Encoder:
    def __init__(self, field: pyarrow.Field, charset: str, order: str) -> None:
        self._kind = field.type
        self._charset = charset
        self._order = order

    def __call__(self, batch: pyarrow.RecordBatch) -> Sequence[bytes]:
        write = self._writer()
        # NULL has no bytes: Kafka gets a message without a value, a file an empty line.
        return [None if one is None else write(one) for one in batch.column(0).to_pylist()]  # type: ignore[misc]

    def _writer(self) -> Callable[[Any], bytes]:
        if arrow.is_binary(self._kind):
            return bytes
        if arrow.is_string(self._kind):
            # As Java encodes: what the charset does not have becomes a question mark.
            order, mark = _with_order(self._charset), _MARKS.get(codecs.lookup(self._charset).name, b"")
            return lambda value: mark + value.encode(order, "replace") if value else b""
        form = self._order + _NUMBERS[self._kind]
        return lambda value: struct.pack(form, value)


def _with_order(charset: str, message: bytes = b"") -> str:
    """Return the charset with its order of bytes: unless a message says another, Java's is big-endian."""
    name = codecs.lookup(charset).name
    if name not in _MARKS or message.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE)):
        return name
    return f"{name}-be"
