"""A batch with records for side outputs at their places among its rows."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import pyarrow


class SidedBatch:
    """Records of a source: the rows of `batch`, and values for side outputs, which have no columns.

    Its length and its slices are those of the list of all records, so that a source's positions are those of rows.
    """

    def __init__(self, batch: pyarrow.RecordBatch, positions: Sequence[int], sides: Sequence[Any]) -> None:
        """`sides`: pairs of an OutputTag and a value. `positions`: theirs among all records, in ascending order."""
        self.batch = batch
        self.positions = positions
        self.sides = sides

    def __len__(self) -> int:
        return len(self.batch) + len(self.sides)

    def __getitem__(self, part: slice) -> SidedBatch:
        start, stop, _ = part.indices(len(self))
        stop = max(start, stop)
        first, last = bisect_left(self.positions, start), bisect_left(self.positions, stop)
        rows = self.batch.slice(start - first, stop - last - (start - first))
        return SidedBatch(rows, [at - start for at in self.positions[first:last]], self.sides[first:last])


def joined(parts: Sequence[pyarrow.RecordBatch | SidedBatch]) -> pyarrow.RecordBatch | SidedBatch:
    """Return batches of the same columns as one."""
    batches: list[pyarrow.RecordBatch] = []
    positions: list[int] = []
    sides: list[Any] = []
    start = 0
    for part in parts:
        if isinstance(part, SidedBatch):
            positions += [start + at for at in part.positions]
            sides += part.sides
            batches.append(part.batch)
        else:
            batches.append(part)
        start += len(part)
    batch = pyarrow.concat_batches(batches)
    return SidedBatch(batch, positions, sides) if sides else batch
