"""Cut many slices out of one text: by views of Arrow, whose conversion copies each slice as a whole."""

from __future__ import annotations

import numpy
import pyarrow
from numpy.typing import NDArray

from penstock.connectors.nexmark.draws import Ints

Bytes = NDArray[numpy.uint8]
_INLINE_BYTES = SPARE_BYTES = 12
_PREFIX_BYTES = 4


def slices(text: Bytes, starts: Ints, sizes: Ints) -> pyarrow.StringArray:
    """Return slices of a text in ASCII. No slice begins in its last `SPARE_BYTES`.

    Source: Arrow columnar format, "Variable-size Binary View Layout": a view of at most 12 bytes holds them, another
    one their first four, the number of the buffer and the position in it.
    """
    views = numpy.zeros((len(starts), 4), numpy.int32)
    views[:, 0] = sizes
    views[:, 1] = _items(text, _PREFIX_BYTES, "i4")[starts]
    views[:, 3] = starts
    short = numpy.flatnonzero(sizes <= _INLINE_BYTES)
    if len(short):
        inline = _items(text, _INLINE_BYTES, "V12")[starts[short]].view(numpy.uint8).reshape(-1, _INLINE_BYTES)
        inline = numpy.where(numpy.arange(_INLINE_BYTES) < sizes[short, None], inline, 0)
        views.view(numpy.uint8)[short, _PREFIX_BYTES:] = inline
    buffers = [None, pyarrow.py_buffer(views), pyarrow.py_buffer(text)]
    return pyarrow.Array.from_buffers(pyarrow.string_view(), len(starts), buffers).cast(pyarrow.string())


def _items(text: Bytes, size: int, kind: str) -> numpy.ndarray:
    """Return the items of `size` bytes that begin at each byte."""
    return numpy.ndarray((len(text) - size + 1,), numpy.dtype(kind), text, strides=(1,))
