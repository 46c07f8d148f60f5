"""A network buffer: what one Spark row carries. A header of 18 bytes, then a pickled list of segments.

A segment is a pair `(values, timestamps)` of parallel lists (timestamps None if the stream has none) or an `Element`.
The header starts with what batched mode sorts by, most significant first and big-endian, so that Spark can order rows
by the first bytes alone: key group, edge, sender, sequence number, target. An empty buffer is a push.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, TypeAlias

import msgspec

from penstock.common.functions.script_functions import dumps
from penstock.common.stored import stored_as
from penstock.engine.runtime.checkpoint_options import CheckpointOptions

# What travels in band beside the records, in order with those of its channel.


class Element(msgspec.Struct, frozen=True, gc=False):
    """Base of everything in band that is not a record."""


@stored_as("watermark")
class Watermark(Element, frozen=True, gc=False):
    """No record with a timestamp (ms) of `timestamp` or less is to be expected any more on this channel."""

    timestamp: int


@stored_as("watermark-status")
class WatermarkStatus(Element, frozen=True, gc=False):
    """Whether the channel takes part in event time: an idle one no longer holds back the watermark."""

    active: bool


@stored_as("barrier")
class CheckpointBarrier(Element, frozen=True, gc=False):
    """Separates what belongs to checkpoint `checkpoint_id` from what comes after it."""

    checkpoint_id: int
    timestamp_ms: int
    options: CheckpointOptions = CheckpointOptions()


@stored_as("end-of-data")
class EndOfData(Element, frozen=True, gc=False):
    """No more records come, barriers still may. `drain`: event time goes to its end and all timers fire."""

    drain: bool = True


@stored_as("end-of-input")
class EndOfInput(Element, frozen=True, gc=False):
    """Nothing more comes on this channel at all."""


@stored_as("latency-marker")
class LatencyMarker(Element, frozen=True, gc=False):
    """Sent by a source at `marked_ms` (processing time): how long it takes to arrive is the latency so far."""

    marked_ms: int
    vertex: int
    subtask: int


Segment: TypeAlias = "tuple[list[Any], list[int] | None] | Element"

PUSH = b""
OUTCOME_EDGE = 0xFFFF
"""The edge of rows by which slots of a batched job tell the driver that they have ended; `target` is their level."""
ADVICE_EDGE = 0xFFFE
"""The edge of what a slot advises those that send to it: network/debloating.py. `sender` and `target` are slots."""
BUNDLE_EDGE = 0xFFFD
"""The edge of a row that holds several buffers: engine/runtime/task/worker_slots.py."""
NO_KEY_GROUP = -1
ATTEMPT_MASK = 0xFFFF
"""The part of an attempt's number that a header has."""
SORT_PREFIX_BYTES = 16
_HEADER = struct.Struct(">HHHQHH")
HEADER_BYTES = _HEADER.size
_FRAME_BYTES = HEADER_BYTES + 22
"""Of a buffer with one whole number without a timestamp, what is not the number. A timestamp takes some 10 bytes."""
_ELEMENT_BYTES = 2
"""What an element counts as, however many bytes it has: as much as a small record, as a watermark may fire timers."""
_LIST_BYTES = 15
"""Of a pickled list, what is not the values in it."""
_WEIGHT_MAX = 0xFFFF


class Header(msgspec.Struct, frozen=True, gc=False):
    """Where a buffer comes from and goes to.

    `key_group`: NO_KEY_GROUP on edges without keys. In pipelined mode, too: what is decoded there says nothing, since a
    buffer with elements has its weight in the same place.
    """

    key_group: int
    edge: int
    sender: int
    sequence: int
    target: int
    attempt: int


def encode(header: Header, segments: list[Segment]) -> bytes:
    """The bytes of a buffer. Raises what pickle raises if a value can't be pickled."""
    content = dumps(segments)
    weight = 0
    if len(segments) != 1 or not isinstance(segments[0], tuple):
        weight = _weight(segments, len(content))
    return encode_header(header, weight) + content


def encode_header(header: Header, weight: int = 0) -> bytes:
    """The bytes of a header. `weight`: what a buffer with elements brings; 0: the header has the key group."""
    # The header sorts as unsigned bytes: NO_KEY_GROUP (-1) becomes 0, before all groups.
    first = weight or header.key_group + 1
    attempt = header.attempt & ATTEMPT_MASK
    return _HEADER.pack(first, header.edge, header.sender, header.sequence, header.target, attempt)


def _weight(segments: list[Segment], size: int) -> int:
    """What a buffer with elements brings; 0: there are none, or so much else that they don't count."""
    elements = [segment for segment in segments if not isinstance(segment, tuple)]
    weight = _ELEMENT_BYTES * len(elements)
    if 0 < len(elements) < len(segments):
        of_elements = len(dumps(elements)) - _LIST_BYTES
        weight += content_of(HEADER_BYTES + size - of_elements)
    return weight if weight <= _WEIGHT_MAX else 0


def content_bytes(buffer: bytes) -> int:
    """What a buffer of pipelined mode brings. Of small ones most is frame and elements, which takes little work.

    A watermark has 54 bytes: as much as twenty records, on which a slow task may work for seconds.
    """
    return int.from_bytes(buffer[:2], "big") or content_of(len(buffer))


def content_of(size: int) -> int:
    """What a buffer of `size` bytes brings if all in it are records: at least 1."""
    return max(1, size - _FRAME_BYTES)


def decode_header(buffer: bytes) -> Header:
    """Only the header: enough to relay a buffer without decoding it."""
    group, edge, sender, sequence, target, attempt = _HEADER.unpack_from(buffer)
    return Header(group - 1, edge, sender, sequence, target, attempt)


def decode_segments(buffer: bytes) -> list[Segment]:
    """The segments, in order."""
    segments: list[Segment] = pickle.loads(memoryview(buffer)[HEADER_BYTES:])
    return segments
