"""Values in Avro's binary encoding, read at many positions at once. Source: Avro's specification, "Binary Encoding"."""

from __future__ import annotations

from typing import Any

import numpy
import numpy.typing
import pyarrow

Positions = numpy.typing.NDArray[numpy.int64]
"""Where values begin, in ascending order."""

_WORD_BYTES = 8
_PADDING = bytes(2 * _WORD_BYTES)
_BYTES_MAX = (1 << 31) - 1
"""The offsets of Arrow's texts have 32 bits."""


class UnusualError(Exception):
    """Bytes that are damaged, or that only the reader of single values should read."""


class AvroBytes:
    """Joined values. Positions may be behind the last byte: there are zeros, and the value's end is behind it, too.

    A method that returns positions returns those of the bytes that follow. They are never smaller than those given, so
    that the reader of a record sees by its end whether it has read other bytes than those of the record.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) > _BYTES_MAX:
            raise UnusualError
        self.size = len(data)
        padded = data + _PADDING
        self._buffer = pyarrow.py_buffer(padded)
        self._bytes = numpy.frombuffer(padded, numpy.uint8)
        # A word at each byte: NumPy copies words of the type V8 from any address.
        self._words = numpy.ndarray((self.size + _WORD_BYTES,), "V8", padded, strides=(1,))

    def bytes_at(self, positions: Positions) -> numpy.typing.NDArray[numpy.uint8]:
        """Return single bytes."""
        return self._bytes[numpy.minimum(positions, self.size)]

    def words_at(self, positions: Positions, kind: str) -> numpy.typing.NDArray[Any]:
        """Return eight bytes as one or more numbers of this dtype."""
        return self._words[numpy.minimum(positions, self.size)].view(kind)

    def longs_at(self, positions: Positions) -> tuple[numpy.typing.NDArray[numpy.int64], Positions]:
        """Return integers of a variable length, and the positions behind them."""
        words = self.words_at(positions, "<u8")
        last = ~words & _CONTINUES
        last &= -last
        # All bits up to the first byte that does not continue; of a longer integer, all.
        taken = last ^ (last - _ONE)
        lengths = ((taken & _BYTES) * _BYTES >> _TO_LAST_BYTE).view(numpy.int64)
        found = words & taken & ~_CONTINUES
        for shift, low, high in _JOINS:
            found = (found & low) | ((found & high) >> shift)
        if not last.all():
            self._add_last_bytes(numpy.flatnonzero(last == 0), positions, found, lengths)
        return (found >> _ONE).view(numpy.int64) ^ -(found & _ONE).view(numpy.int64), positions + lengths

    def lengths_at(self, positions: Positions) -> tuple[numpy.typing.NDArray[numpy.int64], Positions]:
        """Return the lengths of texts or bytes, and where they begin. Raise UnusualError for negative ones."""
        lengths, starts = self.longs_at(positions)
        if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= self.size:
            raise UnusualError
        return lengths, starts

    def slices(self, starts: Positions, ends: Positions) -> pyarrow.Array:
        """Return byte strings as an array. Raise UnusualError if they are not in order, or behind the last byte."""
        count = len(starts)
        if not count:
            return pyarrow.array([], pyarrow.binary())
        # Arrow takes every other of the strings between these offsets, in C.
        offsets = numpy.empty(2 * count, numpy.int32)
        offsets[::2], offsets[1::2] = starts, ends
        if ends.max() > self.size or (numpy.diff(offsets) < 0).any():
            raise UnusualError
        both = pyarrow.Array.from_buffers(
            pyarrow.binary(), 2 * count - 1, [None, pyarrow.py_buffer(offsets), self._buffer]
        )
        return both.take(pyarrow.array(numpy.arange(0, 2 * count, 2)))

    def _add_last_bytes(self, longer: Any, positions: Positions, found: Any, lengths: Any) -> None:
        """Add the ninth and the tenth byte of those integers that have them."""
        ninth, tenth = self.bytes_at(positions[longer] + 8), self.bytes_at(positions[longer] + 9)
        has_tenth = ninth >= _CONTINUED
        if (tenth[has_tenth] > 1).any():
            raise UnusualError
        found[longer] |= (ninth & (_CONTINUED - 1)).astype(numpy.uint64) << numpy.uint64(56)
        found[longer] |= numpy.where(has_tenth, tenth, 0).astype(numpy.uint64) << numpy.uint64(63)
        lengths[longer] = 9 + has_tenth


_CONTINUED = 128
_ONE = numpy.uint64(1)
_CONTINUES = numpy.uint64(0x8080808080808080)
_BYTES = numpy.uint64(0x0101010101010101)
_TO_LAST_BYTE = numpy.uint64(56)
_JOINS = [
    (numpy.uint64(1), numpy.uint64(0x007F007F007F007F), numpy.uint64(0x7F007F007F007F00)),
    (numpy.uint64(2), numpy.uint64(0x00003FFF00003FFF), numpy.uint64(0x3FFF00003FFF0000)),
    (numpy.uint64(4), numpy.uint64(0x000000000FFFFFFF), numpy.uint64(0x0FFFFFFF00000000)),
]
"""Join seven bits of each byte: of two bytes to 14, of two of these to 28, and of two of these to 56."""
