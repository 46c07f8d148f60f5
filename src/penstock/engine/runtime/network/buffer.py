"""A network buffer, the content of one Spark row: a header of 19 bytes, then its items, chunks and elements.

The header starts with the fields that batched mode sorts by, most significant first and big-endian, so that Spark can
order rows by the first bytes: key group, edge, sender, sequence number, target. The kind of its chunks, which is last,
names the codec of the items. An empty buffer is a push.
"""

from __future__ import annotations

import functools
import importlib
import pickle
import struct
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import msgspec

from penstock.common.functions.script_functions import dumps
from penstock.common.stored import stored_as
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.chunks import Chunk, ChunkKind, EncodedColumns, Rows
from penstock.engine.runtime.network.worth import IN_ROWS, ROWS_MIN, Price


class Element(msgspec.Struct, frozen=True, gc=False):
    """Base of in-band items that are not records. Elements keep their order with the records of their channel."""


@stored_as("watermark")
class Watermark(Element, frozen=True, gc=False):
    """No more records with a timestamp of `timestamp` (ms) or less will follow on this channel."""

    timestamp: int


@stored_as("watermark-status")
class WatermarkStatus(Element, frozen=True, gc=False):
    """Whether the channel takes part in event time: an idle channel does not hold back the watermark."""

    active: bool


@stored_as("barrier")
class CheckpointBarrier(Element, frozen=True, gc=False):
    """Separates the records that belong to checkpoint `checkpoint_id` from later ones."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


@stored_as("end-of-data")
class EndOfData(Element, frozen=True, gc=False):
    """No more records follow, but barriers may. `drain`: event time advances to its end, and all timers fire."""

    drain: bool = True


@stored_as("end-of-input")
class EndOfInput(Element, frozen=True, gc=False):
    """Nothing more follows on this channel."""


@stored_as("latency-marker")
class LatencyMarker(Element, frozen=True, gc=False):
    """Measures latency: a source sent it at `marked_ms` (processing time)."""

    marked_ms: int
    vertex: int
    subtask: int


@stored_as("begin-of-superstep")
class BeginOfSuperstep(Element, frozen=True, gc=False):
    """The records that follow on this channel belong to superstep `number` of a structured iteration, from 0."""

    number: int
    aggregates: bytes = b""
    """The aggregators of the iteration, with what each had after the superstep before: pickled."""
    wakes: bool = False
    """Whether heads may wait for a superstep to begin: then it travels to them, too, on feedback edges."""


@stored_as("end-of-superstep")
class EndOfSuperstep(Element, frozen=True, gc=False):
    """No more records of superstep `number` follow on this channel."""

    number: int
    records: int = 0
    """On a feedback edge: how many records its sender has fed back in this superstep, over all channels."""
    aggregates: bytes = b""
    """What tasks before this one have aggregated in this superstep, on one channel only: pickled values by name."""
    checkpoint: int = 0
    """The newest checkpoint whose barrier waits at each head before the sender; 0: there is no such checkpoint."""
    is_open: bool = False
    """Whether more input may come to a head before the sender: then the iteration does not end."""


ELEMENTS = frozenset(
    (
        Watermark, WatermarkStatus, CheckpointBarrier, EndOfData, EndOfInput, LatencyMarker, BeginOfSuperstep,
        EndOfSuperstep,
    )
)  # fmt: skip
"""The types of elements. All other items are chunks."""
BufferItem: TypeAlias = "Chunk | EncodedColumns | Element"

PUSH = b""
OUTCOME_EDGE = 0xFFFF
"""The edge of rows in which slots of a batched job report their end to the driver; `target` is their level."""
ADVICE_EDGE = 0xFFFE
"""The edge of a slot's advice to its senders: network/debloating.py. `sender` and `target` are slots."""
BUNDLE_EDGE = 0xFFFD
"""The edge of a row that holds several buffers: engine/runtime/task/worker_slots.py."""
CLAIM_EDGE = 0xFFFC
"""The edge of a row whose payload lies in memory that workers share: network/claims.py. `sender`, `target`: workers."""
OFFER_EDGE = 0xFFFB
"""The edge of a row that offers such memory."""
NO_KEY_GROUP = -1
ATTEMPT_MASK = 0xFFFF
"""The bits of an attempt's number that a header contains."""
SORT_PREFIX_BYTES = 16
_HEADER = struct.Struct(">HHHQHHB")
HEADER_BYTES = _HEADER.size
_KIND_POSITION = HEADER_BYTES - 1
_FRAME_BYTES = HEADER_BYTES + 22
"""Overhead of a buffer that holds one int without a timestamp (bytes). A timestamp takes about 10 bytes more."""
_ELEMENT_BYTES = 2
"""The weight of an element, whatever its size: that of a small record, because a watermark may fire timers."""
_LIST_BYTES = 15
"""Overhead of a pickled list (bytes)."""
_WEIGHT_MAX = 0xFFFF


class Header(msgspec.Struct, frozen=True, gc=False):
    """The origin and the destination of a buffer.

    `key_group`: NO_KEY_GROUP on edges without keys, and in pipelined mode. In pipelined mode ignore the decoded value:
    a buffer with elements has its weight in the same place.
    """

    key_group: int
    edge: int
    sender: int
    sequence: int
    target: int
    attempt: int
    kind: ChunkKind = ChunkKind.ROWS


class Codec:
    """Encodes the items of a buffer whose chunks have one kind."""

    def encode(self, items: Sequence[BufferItem], price: Price) -> bytes:
        """Return the items as bytes. Raises the error of pickle if a value can't be pickled.

        `price`: of bytes on the exchange (network/worth.py).
        """
        raise NotImplementedError

    def decode(self, content: memoryview) -> list[BufferItem]:
        """Return the items, in order."""
        raise NotImplementedError

    def values(self, items: Sequence[BufferItem]) -> list[Any]:
        """Return the records among the items, as Python objects, for the error of one that can't be encoded."""
        raise NotImplementedError

    def sizes(self, items: Sequence[BufferItem]) -> Iterator[tuple[Any, int]]:
        """Yield each record with the bytes that it takes alone."""
        raise NotImplementedError


class RowCodec(Codec):
    """A pickled list. A chunk is a pair of parallel lists in it, so that the pickle names no class of ours."""

    def encode(self, items: Sequence[BufferItem], price: Price) -> bytes:
        return dumps([(item.values, item.timestamps) if type(item) is Rows else item for item in items])

    def decode(self, content: memoryview) -> list[BufferItem]:
        return [Rows(*item) if type(item) is tuple else item for item in pickle.loads(content)]

    def values(self, items: Sequence[BufferItem]) -> list[Any]:
        return [value for item in items if type(item) is Rows for value in item.values]

    def sizes(self, items: Sequence[BufferItem]) -> Iterator[tuple[Any, int]]:
        return ((value, len(dumps(value))) for value in self.values(items))


class ColumnCodec(Codec):
    """A pickled list, in which a chunk is the fields of EncodedColumns: only its receiver knows the schema.

    Where an edge carries rows as well, such a chunk is a list.
    """

    def encode(self, items: Sequence[Any], price: Price) -> bytes:
        byte_ns = price.byte_ns(0 if price.shared_from is None else sum(map(_content_bytes, items)))
        return dumps([item if type(item) in ELEMENTS else _fields(item, byte_ns) for item in items])

    def decode(self, content: memoryview) -> list[BufferItem]:
        return [_WITH_FIELDS.get(type(item), _same)(item) for item in pickle.loads(content)]

    def values(self, items: Sequence[BufferItem]) -> list[Any]:
        return _ROWS.values(items)

    def sizes(self, items: Sequence[Any]) -> Iterator[tuple[Any, int]]:
        yield from _ROWS.sizes(items)
        for item in items:
            if type(item) not in ELEMENTS and type(item) is not Rows:
                for row in range(len(item)):
                    record = item.part(row, row + 1)
                    yield record.batch, record.batch.nbytes


def _same(item: Any) -> Any:
    return item


_WITH_FIELDS: dict[type, Any] = {tuple: lambda fields: EncodedColumns(*fields), list: lambda fields: Rows(*fields)}
_ROWS = RowCodec()


def _content_bytes(item: Any) -> int:
    """Return about how many bytes columns have before they are encoded; 0 of other items, or so few that none is."""
    if type(item) in ELEMENTS or type(item) is Rows or len(item) < ROWS_MIN:
        return 0
    if type(item) is EncodedColumns:
        return len(item.batch)
    times = 0 if item.timestamps is None else item.timestamps.nbytes
    return item.batch.nbytes + times  # type: ignore[no-any-return]


def _fields(chunk: Any, byte_ns: float) -> tuple[Any, ...] | list[Any]:
    """Return the fields of EncodedColumns, of a chunk that is encoded already or not; those of Rows as a list."""
    if type(chunk) is Rows:
        return [chunk.values, chunk.timestamps]
    if type(chunk) is EncodedColumns:
        return msgspec.structs.astuple(chunk)
    return _column_codec().fields(chunk, byte_ns)  # type: ignore[no-any-return]


@functools.cache
def _column_codec() -> ModuleType:
    # When it is first needed: jobs on rows import no Arrow.
    return importlib.import_module("penstock.engine.runtime.columns.codec")


class MessageCodec(Codec):
    """A pickled message between slots, or from a slot to the driver: the one item of its buffer, not a record."""

    def encode(self, items: Sequence[Any], price: Price) -> bytes:
        (message,) = items
        return dumps(message)

    def decode(self, content: memoryview) -> list[Any]:
        return [pickle.loads(content)]


CODECS: dict[int, Codec] = {
    ChunkKind.ROWS: _ROWS, ChunkKind.MESSAGE: MessageCodec(), ChunkKind.COLUMNS: ColumnCodec(),
}  # fmt: skip


def encode(header: Header, items: Sequence[BufferItem], price: Price = IN_ROWS) -> bytes:
    """Encode a buffer. Raises the error of pickle if a value can't be pickled.

    `price`: of bytes on the exchange (network/worth.py).
    """
    content = CODECS[header.kind].encode(items, price)
    weight = 0
    if len(items) != 1 or type(items[0]) in ELEMENTS:
        weight = _weight(items, len(content))
    elif (light_bytes := items[0].light_bytes) and len(content) + light_bytes <= _WEIGHT_MAX:  # type: ignore[union-attr]
        weight = content_of(HEADER_BYTES + len(content)) + light_bytes
    return encode_header(header, weight) + content


def encode_message(header: Header, message: Any) -> bytes:
    """Encode a message. `header`: of the kind MESSAGE."""
    return encode_header(header) + CODECS[header.kind].encode([message], IN_ROWS)


def encode_header(header: Header, weight: int = 0) -> bytes:
    """Encode a header. `weight`: the content of a buffer with elements (bytes); 0: the header has the key group."""
    # The header sorts as unsigned bytes: NO_KEY_GROUP (-1) becomes 0, which sorts before all groups.
    first = weight or header.key_group + 1
    attempt = header.attempt & ATTEMPT_MASK
    return _HEADER.pack(first, header.edge, header.sender, header.sequence, header.target, attempt, header.kind)


def _weight(items: Sequence[BufferItem], size: int) -> int:
    """Return the content of a buffer with elements (bytes); 0 if it has no elements, or too many records to matter."""
    elements = [item for item in items if type(item) in ELEMENTS]
    weight = _ELEMENT_BYTES * len(elements)
    if 0 < len(elements) < len(items):
        element_bytes = len(dumps(elements)) - _LIST_BYTES
        weight += content_of(HEADER_BYTES + size - element_bytes)
        weight += sum([item.light_bytes for item in items if not isinstance(item, Element)])
    return weight if weight <= _WEIGHT_MAX else 0


def content_bytes(buffer: bytes) -> int:
    """Return the content of a buffer in pipelined mode (bytes), without overhead and with a small weight for elements.

    A watermark takes 54 bytes, as many as twenty records, but a slow task may work on twenty records for seconds.
    """
    return int.from_bytes(buffer[:2], "big") or content_of(len(buffer))


def content_of(size: int) -> int:
    """Return the content of a buffer of `size` bytes that holds only records (bytes, at least 1)."""
    return max(1, size - _FRAME_BYTES)


def decode_header(buffer: bytes) -> Header:
    """Decode only the header, which is enough to relay a buffer."""
    group, edge, sender, sequence, target, attempt, kind = _HEADER.unpack_from(buffer)
    return Header(group - 1, edge, sender, sequence=sequence, target=target, attempt=attempt, kind=kind)


def decode_items(buffer: bytes) -> list[BufferItem]:
    """Decode the chunks and elements of a buffer, in order. Chunks of columns stay encoded."""
    return CODECS[buffer[_KIND_POSITION]].decode(memoryview(buffer)[HEADER_BYTES:])


def decode_message(buffer: bytes) -> Any:
    """Decode the message of a buffer of the kind MESSAGE."""
    return decode_items(buffer)[0]
