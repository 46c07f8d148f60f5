"""Bundles: several small buffers that travel as one, where slots share workers.

A bundle has a header of its own, and each buffer in it its length before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine.runtime.network.buffer import BUNDLE_EDGE, HEADER_BYTES, NO_KEY_GROUP, Header, encode_header

BUNDLED_BYTES_MAX = 1 << 11
"""Larger buffers travel alone: to copy them costs more than a row."""
_BUNDLED_MOST = 32
"""Buffers in one bundle: 64 KiB at most, which is what Spark's JVM takes from a worker at once."""
_LENGTH_BYTES = 2
_MARK = encode_header(Header(NO_KEY_GROUP, BUNDLE_EDGE, 0, 0, 0, 0))


def bundles(buffers: Sequence[bytes]) -> Iterator[bytes]:
    """Return these buffers, of at most BUNDLED_BYTES_MAX each, in as few as possible; a single one as it is."""
    for start in range(0, len(buffers), _BUNDLED_MOST):
        part = buffers[start : start + _BUNDLED_MOST]
        if len(part) == 1:
            yield part[0]
        else:
            lengths = (len(buffer).to_bytes(_LENGTH_BYTES, "big") for buffer in part)
            yield b"".join((_MARK, *(piece for pair in zip(lengths, part, strict=True) for piece in pair)))


def unbundled(data: bytes) -> Iterator[bytes]:
    """Return the buffers of a bundle, in order, or the buffer that this is; nothing if it is a push."""
    if not data.startswith(_MARK):
        if len(data) >= HEADER_BYTES:
            yield data
        return
    at = len(_MARK)
    while at < len(data):
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "big")
        yield data[start:at]
