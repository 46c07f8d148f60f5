"""Serializers: a value to a stream of bytes and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one type to a stream and reads them back. Equal if class and attributes are."""

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None:
        """Append `element` to the stream."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T:
        """Read the next element from the stream, and no byte more."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """For state that has no namespace: takes no byte."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        """Writes nothing."""

    def deserialize(self, stream: BinaryIO) -> bytes:
        """Reads nothing; the namespace is empty bytes."""
        return b""
