"""Key groups of many integers at once: those of the same keys as Python objects (`engine/state/keys.py`).

An integer is encoded as a tag, its sign, the number of its bytes, and these, the last one lowest. A CRC is linear: that
of the whole is the CRC of the beginning followed by zeros, XOR what each byte adds, which depends on its place from
the end only. So each byte is one look into a table, and zeros in front add nothing.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy

from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.keys import encode_key

_BYTES = 8
_OVERHEAD = len(encode_key(0))
"""The bytes of an encoded integer but for its amount."""
_SPREAD = 0x9E3779B1
_LIMITS = numpy.array([1 << (8 * size) for size in range(_BYTES)], numpy.uint64)
"""The smallest number of 1 byte, of 2 bytes, and so on."""


def groups_of_integers(values: Integers, max_parallelism: int) -> Integers:
    """Return the key group of each integer, as `key_group_of` does of one."""
    return groups_of_codes(codes_of_integers(values)[0], max_parallelism)


def groups_of_codes(codes: Any, max_parallelism: int) -> Integers:
    """Return the key groups of keys by the CRCs of their encoding."""
    spread = codes.astype(numpy.uint64) * numpy.uint64(_SPREAD) & numpy.uint64(0xFFFFFFFF)
    groups: Integers = (spread * numpy.uint64(max_parallelism) >> numpy.uint64(32)).view(numpy.int64)
    return groups


def codes_of_integers(values: Integers) -> tuple[Any, Integers]:
    """Return the CRC of each integer's encoding (uint32), and how many bytes that has."""
    if not len(values):
        return numpy.zeros(0, numpy.uint32), numpy.zeros(0, numpy.int64)
    beginnings, added = _tables()
    negative = values < 0
    # The smallest has no positive counterpart in int64, but its bits are those of its amount in uint64.
    amounts = numpy.abs(values).view(numpy.uint64)
    sizes = numpy.searchsorted(_LIMITS, amounts, side="right")
    codes = beginnings[negative.view(numpy.uint8), sizes]
    for place in range(int(sizes.max())):
        codes ^= added[place][(amounts >> numpy.uint64(8 * place)).astype(numpy.uint8)]
    return codes, sizes + _OVERHEAD


@functools.cache
def _tables() -> tuple[Any, Any]:
    """Return the CRC of each beginning with zeros behind it, by sign and size; what a byte adds, by place from the end.

    Beginnings are cut from encoded keys, so that these are described in one place.
    """
    beginnings = numpy.zeros((2, _BYTES + 1), numpy.uint32)
    for size in range(_BYTES + 1):
        largest = (1 << (8 * size)) - 1
        for negative, key in enumerate((largest, -largest)):
            encoded = encode_key(key)
            beginnings[negative, size] = zlib.crc32(encoded[: len(encoded) - size] + bytes(size))
    added = numpy.zeros((_BYTES, 256), numpy.uint32)
    for place in range(_BYTES):
        of_zeros = zlib.crc32(bytes(place + 1))
        for byte in range(256):
            added[place, byte] = zlib.crc32(bytes([byte]) + bytes(place)) ^ of_zeros
    return beginnings, added
