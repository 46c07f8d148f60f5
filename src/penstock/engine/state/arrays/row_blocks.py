"""Rows of Arrow that are only appended, and taken by their numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers

_BLOCK_BYTES_MAX = 1 << 25
"""Larger blocks are not copied into one, which would take longer than a step."""


class RowBlocks:
    """Rows in blocks, of which each is about twice as large as the next one.

    So a row is copied a few times, and `take` looks into few blocks. Neither a block nor a list of blocks ever changes:
    another thread, which writes a snapshot, may take rows while others are appended.
    """

    def __init__(self, blocks: list[pyarrow.RecordBatch] | None = None) -> None:
        self._blocks: list[pyarrow.RecordBatch] = blocks or []

    def append(self, rows: pyarrow.RecordBatch) -> None:
        """Append rows, which all have one schema."""
        blocks = [*self._blocks, rows]
        while len(blocks) > 1 and blocks[-2].num_rows < 2 * blocks[-1].num_rows:
            if blocks[-2].nbytes + blocks[-1].nbytes > _BLOCK_BYTES_MAX:
                break
            blocks[-2:] = [pyarrow.concat_batches(blocks[-2:])]
        self._blocks = blocks

    def copy(self) -> RowBlocks:
        """Return the rows as they are now, without a copy of them."""
        return RowBlocks(self._blocks)

    def take(self, rows: Integers, names: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return the rows with these numbers, in this order. `names`: these columns only."""
        blocks = self._blocks if names is None else [block.select(list(names)) for block in self._blocks]
        if len(blocks) == 1:
            return blocks[0].take(pyarrow.array(rows))
        bounds = numpy.cumsum([0, *(block.num_rows for block in blocks)])
        of_rows = numpy.searchsorted(bounds, rows, side="right") - 1
        # Of integers of 16 bits NumPy sorts by radix. There are never so many blocks.
        order = of_rows.astype(numpy.uint16).argsort(kind="stable")
        cuts = numpy.searchsorted(of_rows[order], numpy.arange(len(blocks) + 1)).tolist()
        parts = [
            block.take(pyarrow.array(rows[order[start:stop]] - first))
            for block, first, start, stop in zip(blocks, bounds.tolist(), cuts, cuts[1:], strict=False)
            if start < stop
        ]
        if len(parts) == 1:
            return parts[0]
        found = pyarrow.concat_batches(parts)
        if (numpy.diff(order) > 0).all():
            return found
        places = numpy.empty_like(order)
        places[order] = numpy.arange(len(order))
        return found.take(pyarrow.array(places))

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return sum(block.nbytes for block in self._blocks)
