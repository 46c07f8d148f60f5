"""Serializers: write values to a stream and read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one type to a stream and reads them. Serializers with equal class and attributes are equal."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None:
        """Append `element` to the stream."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T:
        """Read the next element from the stream, consuming exactly its bytes."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """The serializer of state without a namespace. It writes nothing."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BinaryIO) -> bytes:
        """Return empty bytes as the namespace, without reading."""
        return b""
