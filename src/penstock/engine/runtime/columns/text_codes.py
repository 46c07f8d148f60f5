"""The CRCs of many texts as keys are encoded (`engine/state/keys.py`), byte by byte for all texts at once."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.keys import encode_key

_LONG = 40
"""Texts that are longer on average take less time one by one."""
_OVERHEAD = len(encode_key(""))
_ALL: Any = numpy.uint32(0xFFFFFFFF)


def codes_of_texts(texts: pyarrow.Array) -> tuple[Any, Integers]:
    """Return the CRC of each text's encoding (uint32), and how many bytes that has. `texts`: strings, none is NULL."""
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = numpy.frombuffer(offsets_buffer, numpy.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = numpy.diff(offsets).astype(numpy.int64)
    data = numpy.frombuffer(data_buffer, numpy.uint8) if data_buffer is not None else numpy.zeros(0, numpy.uint8)
    if not len(texts) or int(lengths.sum()) > _LONG * len(texts):
        codes = [zlib.crc32(encode_key(text)) for text in texts.to_pylist()]
        return numpy.array(codes, numpy.uint32), lengths + _OVERHEAD
    # The longest first: those that have a byte at a place are the first ones.
    order = numpy.argsort(-lengths, kind="stable")
    starts, ordered = offsets[:-1].astype(numpy.int64)[order], lengths[order]
    beginnings: Any = numpy.array([_beginning(length) for length in range(int(ordered[0]) + 1)], numpy.uint32)
    codes, table = beginnings[ordered] ^ _ALL, _table()
    counts = len(texts) - numpy.cumsum(numpy.bincount(lengths))
    for place, count in enumerate(counts[: int(ordered[0])].tolist()):
        now = codes[:count]
        codes[:count] = table[(now ^ data[starts[:count] + place]) & 0xFF] ^ (now >> numpy.uint32(8))
    found = numpy.empty_like(codes)
    found[order] = codes ^ _ALL
    return found, lengths + _OVERHEAD


@functools.lru_cache(maxsize=4096)
def _beginning(length: int) -> int:
    """Return the CRC of what comes before a text of this length."""
    return zlib.crc32(encode_key("x" * length)[:_OVERHEAD])


@functools.cache
def _table() -> Any:
    """Return what a byte makes of a CRC without its inversions."""
    # From a CRC of 0 inverted, whose upper bytes add nothing.
    return numpy.array([zlib.crc32(bytes([byte]), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], numpy.uint32)
