"""Files of Protobuf messages, each preceded by its length, as written by Java's `writeDelimitedTo`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock.common.errors import SourceError
from penstock.common.serialization import Encoder
from penstock.common.types.type_variables import Record
from penstock.common.values.varint import encode_varint
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.format import RecordFormat
from penstock.connectors.files.formats.streams import ByteStream, check_all_skipped, reading
from penstock.connectors.files.split import FileSplit
from penstock.connectors.formats.protobuf_row import ProtobufRowSerializationSchema, parsed
from penstock.connectors.formats.protobuf_schema import ProtobufSchema, checked_schema
from penstock.connectors.formats.protobuf_values import reader_of

_BLOCK_BYTES = 128 * 1024
_LENGTH_BYTES_MAX = 5
_MESSAGE_BYTES_MAX = (1 << 31) - 1


class ProtobufFormat(RecordFormat[Record]):
    """Read each message of a file as a dict, or as a Row with field names.

    `schema`: a ProtobufSchema, or a class that protoc generated. Fields that the schema does not have are ignored.
    Absent fields are None, or with `read_default_values` their default values, as in
    `ProtobufRowDeserializationSchema`. A file, which may be compressed, is one split. Raise TypeError for another
    schema.
    """

    def __init__(
        self, schema: ProtobufSchema | type, *, as_row: bool = False, read_default_values: bool = False
    ) -> None:
        self._schema = checked_schema(schema)
        self._as_row = as_row
        self._defaults = read_default_values

    def is_splittable(self, path: str) -> bool:
        """Return False: only the previous message shows where a message begins."""
        return False

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`. A position is the offset of a message, plus the number of messages to skip."""
        message_class = self._schema.message_class()
        read = reader_of(message_class.DESCRIPTOR, as_row=self._as_row, defaults=self._defaults)
        to_skip = split.skip
        with reading(split.path, split.offset) as stream:
            for offset, messages, end in _blocks(split.path, stream, split.offset):
                values = []
                for number, message in enumerate(messages):
                    try:
                        values.append(read(parsed(message_class, message)))
                    except ValueError as error:
                        raise SourceError(
                            f"{split.path}: cannot read message {number} after byte {offset} as {self._schema}: {error}"
                        ) from error
                position = split.at(end)
                if to_skip:
                    to_skip, values = max(0, to_skip - len(values)), values[to_skip:]
                    position = position.skipping(to_skip)
                yield Chunk(values, position)
        check_all_skipped(split.path, to_skip)

    def get_produced_type(self) -> Any:
        """Return the type of the Rows, or None for dicts."""
        return self._schema.row_type() if self._as_row else None


class ProtobufEncoder(Encoder):
    """Write records as messages, each preceded by its length: for `FileSink.for_row_format`.

    `schema` and `write_null_string_literal` are those of ProtobufRowSerializationSchema. Raise TypeError for another
    schema; `encode` raises ValueError for a record that the schema does not describe.
    """

    def __init__(self, schema: ProtobufSchema | type, *, write_null_string_literal: str = "") -> None:
        self._messages = ProtobufRowSerializationSchema(schema, write_null_string_literal=write_null_string_literal)

    def encode(self, value: Any) -> bytes:
        message = self._messages.serialize(value)
        return encode_varint(len(message)) + message


def _blocks(path: str, stream: ByteStream, offset: int) -> Iterator[tuple[int, list[bytes], int]]:
    """Yield the start of each block, its messages, and its end.

    Raise SourceError for an incomplete message at the end.
    """
    rest = b""
    wanted = _BLOCK_BYTES
    while True:
        more = stream.read(wanted)
        data = rest + more
        messages, end, wanted = _messages(path, data, offset)
        if not more and end < len(data):
            raise SourceError(f"{path}: the file ends within the message at byte {offset + end}")
        if messages:
            yield offset, messages, offset + end
        if not more:
            return
        offset, rest = offset + end, data[end:]


def _messages(path: str, data: bytes, offset: int) -> tuple[list[bytes], int, int]:
    """Return the complete messages, where they end, and how many bytes to read next."""
    found: list[bytes] = []
    at = 0
    while True:
        length = shift = 0
        start = at
        while start < len(data):
            byte = data[start]
            start += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= 7 * _LENGTH_BYTES_MAX:
                raise SourceError(f"{path}: expected the length of a message at byte {offset + at}")
        else:
            return found, at, _BLOCK_BYTES
        if length > _MESSAGE_BYTES_MAX:
            raise SourceError(f"{path}: expected the length of a message at byte {offset + at}")
        if start + length > len(data):
            return found, at, max(_BLOCK_BYTES, start + length - len(data))
        found.append(data[start : start + length])
        at = start + length
