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

from penstock.runtime.network.elements import Element

Segment: TypeAlias = "tuple[list[Any], list[int] | None] | Element"

PUSH = b""
OUTCOME_EDGE = 0xFFFF
"""The edge of rows by which slots of a batched job tell the driver that they have ended; `target` is their level."""
ADVICE_EDGE = 0xFFFE
"""The edge of what a slot advises those that send to it: network/debloating.py. `sender` and `target` are slots."""
NO_KEY_GROUP = -1
ELEMENTS_ONLY = 0xFFFE
"""In the place of the key group, where a buffer has no records: more than there are key groups."""
ATTEMPT_MASK = 0xFFFF
"""The part of an attempt's number that a header has."""
SORT_PREFIX_BYTES = 16
_HEADER = struct.Struct(">HHHQHH")
HEADER_BYTES = _HEADER.size
_FRAME_BYTES = HEADER_BYTES + 22
"""Of a buffer with one whole number without a timestamp, what is not the number. A timestamp takes some 10 bytes."""
_ELEMENTS_ONLY = (ELEMENTS_ONLY + 1).to_bytes(2, "big")


class Header(msgspec.Struct, frozen=True, gc=False):
    """Where a buffer comes from and goes to.

    `key_group`: in pipelined mode NO_KEY_GROUP or ELEMENTS_ONLY; in batched mode NO_KEY_GROUP on edges without keys.
    """

    key_group: int
    edge: int
    sender: int
    sequence: int
    target: int
    attempt: int


def encode(header: Header, segments: list[Segment]) -> bytes:
    """The bytes of a buffer. Raises what pickle raises if a value can't be pickled."""
    return _pack(header) + pickle.dumps(segments, protocol=5)


def content_bytes(buffer: bytes) -> int:
    """What a buffer brings: at least 1. Of small buffers most is frame, and that takes no work.

    Nor do elements: a watermark would weigh as much as twenty records that take a second.
    """
    return 1 if buffer.startswith(_ELEMENTS_ONLY) else content_of(len(buffer))


def content_of(size: int) -> int:
    """What a buffer of `size` bytes with records brings."""
    return max(1, size - _FRAME_BYTES)


def decode_header(buffer: bytes) -> Header:
    """Only the header: enough to relay a buffer without decoding it."""
    group, edge, sender, sequence, target, attempt = _HEADER.unpack_from(buffer)
    return Header(group - 1, edge, sender, sequence, target, attempt)


def decode_segments(buffer: bytes) -> list[Segment]:
    """The segments, in order."""
    segments: list[Segment] = pickle.loads(memoryview(buffer)[HEADER_BYTES:])
    return segments


def _pack(header: Header) -> bytes:
    # The header sorts as unsigned bytes: NO_KEY_GROUP (-1) becomes 0, before all groups.
    return _HEADER.pack(
        header.key_group + 1, header.edge, header.sender, header.sequence, header.target, header.attempt & ATTEMPT_MASK
    )
