"""Encode and decode fields of Kafka's protocol. Source: kafka.apache.org/protocol, "Protocol Primitive Types"."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.common.values.varint import encode_varint

T = TypeVar("T")


class Request:
    """A request under construction. A *flexible* version has compact strings and arrays, and tagged fields."""

    def __init__(self, api_key: int, version: int, *, is_flexible: bool = False) -> None:
        self.api_key = api_key
        self.version = version
        self.is_flexible = is_flexible
        self._parts: list[bytes] = []

    def int8(self, value: int) -> Request:
        return self._add(">b", value)

    def int16(self, value: int) -> Request:
        return self._add(">h", value)

    def int32(self, value: int) -> Request:
        return self._add(">i", value)

    def int64(self, value: int) -> Request:
        return self._add(">q", value)

    def string(self, value: str) -> Request:
        data = value.encode()
        self._parts.append((encode_varint(len(data) + 1) if self.is_flexible else struct.pack(">h", len(data))) + data)
        return self

    def data(self, value: bytes) -> Request:
        self._parts.append(struct.pack(">i", len(value)) + value)
        return self

    def strings(self, values: Sequence[str]) -> Request:
        self._parts.append(encode_varint(len(values) + 1) if self.is_flexible else struct.pack(">i", len(values)))
        for value in values:
            self.string(value)
        return self

    def tags(self) -> Request:
        """Append an empty set of tagged fields."""
        self._parts.append(b"\0")
        return self

    def framed(self, correlation_id: int, client_id: str) -> bytes:
        """Return the request with its length and header."""
        name = client_id.encode()
        header = struct.pack(">hhih", self.api_key, self.version, correlation_id, len(name)) + name
        body = header + (b"\0" if self.is_flexible else b"") + b"".join(self._parts)
        return struct.pack(">i", len(body)) + body

    def _add(self, layout: str, value: int) -> Request:
        self._parts.append(struct.pack(layout, value))
        return self


class Response:
    """Read the body of a response."""

    def __init__(self, data: bytes, *, is_flexible: bool) -> None:
        self._content = data
        self._at = 0
        self._is_flexible = is_flexible

    def int8(self) -> int:
        return self._take(">b")

    def int16(self) -> int:
        return self._take(">h")

    def int32(self) -> int:
        return self._take(">i")

    def int64(self) -> int:
        return self._take(">q")

    def string(self) -> str:
        """Read a string; null is read as the empty string."""
        length = self._varint() - 1 if self._is_flexible else self.int16()
        return self._bytes(length).decode()

    def data(self) -> bytes:
        return self._bytes(self.int32())

    def array(self, element: Callable[[], T]) -> list[T]:
        """Read an array whose elements `element` reads."""
        length = self._varint() - 1 if self._is_flexible else self.int32()
        return [element() for _ in range(length)]

    def tags(self) -> None:
        """Skip the tagged fields if this version has any."""
        if self._is_flexible:
            for _ in range(self._varint()):
                self._varint()
                self._bytes(self._varint())

    def _take(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._content, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def _bytes(self, length: int) -> bytes:
        data = self._content[self._at : self._at + max(length, 0)]
        self._at += max(length, 0)
        return data

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._content[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
