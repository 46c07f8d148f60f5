"""JSON messages as plain values or as those of a type, by batches. Source: Flink's JsonDeserializationSchema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.decoding import json_decoder
from penstock.common.serialization import DeserializationSchema, SerializationSchema, json_bytes


class JsonDeserializationSchema(DeserializationSchema):
    """Decodes JSON: to dicts, lists, strings, numbers, or to `record_type`, a dataclass or what else msgspec decodes.

    Raises ValueError for a message that is no JSON, or not of that type.
    """

    def __init__(self, record_type: Any = Any) -> None:
        self._type = record_type
        self._decode = json_decoder(record_type).decode

    def deserialize(self, message: bytes) -> Any:
        """Decode one value."""
        return self._decode(message)

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Decode values."""
        return list(map(self._decode, messages))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type,)


class JsonSerializationSchema(SerializationSchema):
    """Encodes values as JSON: what `json` knows, dataclasses, Rows (objects, or arrays); dates and decimals as text.

    NaN, Infinity and -Infinity are these texts. Source: Jackson, by which Flink's class writes.
    """

    def serialize(self, element: Any) -> bytes:
        """Encode one value."""
        return json_bytes(element)
