"""Place the values of events of one kind in the rows of a batch of all kinds: the other rows are null."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow
from numpy.typing import NDArray

from penstock.connectors.nexmark.draws import Ints


class Placement:
    """The rows that events of one kind have in a batch. All columns of the kind share one bitmap of these rows."""

    def __init__(self, is_of_kind: NDArray[numpy.bool_]) -> None:
        self._count = len(is_of_kind)
        self.rows: Ints = numpy.flatnonzero(is_of_kind)
        """In order."""
        self._are_all = len(self.rows) == self._count
        self._nulls = self._count - len(self.rows)
        self._validity = None if self._are_all else pyarrow.py_buffer(numpy.packbits(is_of_kind, bitorder="little"))
        self._ranks: Ints | None = None
        self._is_of_kind = is_of_kind

    @classmethod
    def of_all(cls, count: int) -> Placement:
        """Return the placement of a kind that all events have."""
        return cls(numpy.ones(count, numpy.bool_))

    def numbers(self, values: Ints, kind: pyarrow.DataType) -> pyarrow.Array:
        """Return a column of 64-bit numbers."""
        if not self._are_all:
            placed = numpy.zeros(self._count, numpy.int64)
            placed[self.rows] = values
            values = placed
        return self._array(kind, [pyarrow.py_buffer(values)])

    def texts(self, texts: pyarrow.StringArray) -> pyarrow.Array:
        """Return a column of texts. Their bytes stay where they are."""
        offsets, characters = texts.buffers()[1:]
        if not self._are_all:
            ends = numpy.frombuffer(offsets, numpy.int32)[texts.offset : texts.offset + len(texts) + 1]
            offsets = pyarrow.py_buffer(ends[self._texts_before()])
        return self._array(pyarrow.string(), [offsets, characters])

    def struct(self, kind: pyarrow.StructType, fields: Sequence[pyarrow.Array]) -> pyarrow.StructArray:
        """Return a column of structs of columns of this placement."""
        return pyarrow.StructArray.from_buffers(
            kind, self._count, [self._validity], null_count=self._nulls, children=list(fields)
        )

    def _array(self, kind: pyarrow.DataType, buffers: list[pyarrow.Buffer | None]) -> pyarrow.Array:
        return pyarrow.Array.from_buffers(kind, self._count, [self._validity, *buffers], self._nulls)

    def _texts_before(self) -> Ints:
        """Return the number of events of the kind before each row, and before the end."""
        if self._ranks is None:
            self._ranks = numpy.zeros(self._count + 1, numpy.int64)
            numpy.cumsum(self._is_of_kind, out=self._ranks[1:])
        return self._ranks
