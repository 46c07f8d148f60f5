"""JSON messages as plain values or values of a type, in batches. Source: Flink's JsonDeserializationSchema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from penstock.common.serialization import ColumnDecoder, DeserializationSchema, SerializationSchema
from penstock.common.types.type_variables import Record
from penstock.common.values.written_texts import json_bytes
from penstock.connectors.formats.byte_order_mark import has_mark, without_mark
from penstock.connectors.formats.json_decimals import decoder_of

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


class JsonDeserializationSchema(DeserializationSchema[Record]):
    """Decode JSON to dicts, lists, strings, numbers, or to `record_type`: a dataclass or another type of msgspec.

    Raise ValueError for a message that is not JSON, or not of that type. Skip a byte order mark before it, as Jackson
    does.
    """

    @overload
    def __init__(self, record_type: type[Record]) -> None: ...

    @overload
    def __init__(self: JsonDeserializationSchema[Any], record_type: Any = Any) -> None: ...

    def __init__(self, record_type: Any = Any) -> None:
        self._type = record_type
        self._decode = decoder_of(record_type)

    def deserialize(self, message: bytes) -> Any:
        """Decode one value."""
        try:
            return self._decode(message)
        except ValueError:
            # Marks are rare: check only after a failure.
            if not has_mark(message):
                raise
        return self._decode(without_mark(message))

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Decode values."""
        try:
            return list(map(self._decode, messages))
        except ValueError:
            if not any(map(has_mark, messages)):
                raise
        return list(map(self._decode, map(without_mark, messages)))

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder of objects with the fields of a class; None for plain values and other types."""
        if type(self) is not JsonDeserializationSchema:
            return None
        from penstock.connectors.formats.json_columns import decoder_of_type

        return decoder_of_type(columns, self._type)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._type,)


class JsonSerializationSchema(SerializationSchema):
    """Encode values as JSON: types of `json`, dataclasses, Rows (objects, or arrays); dates and decimals as text.

    NaN, Infinity and -Infinity are these texts. Source: Jackson, with which Flink's class writes.
    """

    def serialize(self, element: Any) -> bytes:
        """Encode one value."""
        return json_bytes(element)

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the columns are written as their records are: they are not nested, nor tuples."""
        from penstock.common.columns import json_lines

        return type(self) is JsonSerializationSchema and json_lines.takes_columns(columns)

    def serialize_columns(self, batch: Any) -> list[bytes]:
        """Encode a pyarrow.RecordBatch."""
        from penstock.common.columns.json_lines import json_messages

        return json_messages(batch)
