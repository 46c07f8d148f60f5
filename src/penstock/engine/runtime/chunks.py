"""Chunks: what operators pass to each other, and what edges transport. A chunk has rows or columns.

A chunk is shared and never changed in place: a fork passes one chunk to all of its branches.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.chunk import Columns

from penstock.common.values.copies import independent_copies

Values: TypeAlias = list[Any]
Timestamps: TypeAlias = "list[int] | None"


class ChunkKind(enum.IntEnum):
    """The kinds of chunks in a buffer, as its header stores them."""

    ROWS = 0
    COLUMNS = 2
    """Batches of Arrow: engine/runtime/columns/chunk.py."""
    MESSAGE = 1
    """Not records: a message between slots, or to the driver."""


class Rows(msgspec.Struct, gc=False):
    """Records as Python objects: `values`, and `timestamps` (ms) of the same length, or None.

    Not tracked by the garbage collector: the lists are, and no value refers to its chunk.
    """

    kind: ClassVar[ChunkKind] = ChunkKind.ROWS
    light_bytes: ClassVar[int] = 0
    """A buffer weighs so many bytes more than it has, see FewRows."""
    values: Values
    timestamps: Timestamps = None

    def __len__(self) -> int:
        return len(self.values)

    def untimed(self) -> Rows:
        """Return the same records without timestamps."""
        return Rows(self.values)

    def timed(self, timestamp: int) -> Rows:
        """Return the same records, all with this timestamp."""
        return Rows(self.values, [timestamp] * len(self.values))

    def part(self, start: int, stop: int | None = None) -> Rows:
        """Return the records from `start` to `stop`."""
        timestamps = self.timestamps
        return Rows(self.values[start:stop], timestamps[start:stop] if timestamps is not None else None)

    def selected(self, indexes: list[int]) -> Rows:
        """Return the records at these positions."""
        values, timestamps = self.values, self.timestamps
        times = None if timestamps is None else [timestamps[index] for index in indexes]
        return Rows([values[index] for index in indexes], times)

    def independent(self) -> Rows:
        """Return a chunk whose values can be changed without an effect on this one."""
        return Rows(independent_copies(self.values), self.timestamps)


class EncodedColumns(msgspec.Struct, gc=False):
    """Columns as they are on an edge, whose schema only the edge knows.

    `forms`: the form of each column (engine/runtime/columns/sent_columns.py), None if the column is in `batch`, a
    message of Arrow's IPC format; () if all are. Of few rows `batch` is the list of values of each column.
    `timestamps`: ms, as integers of this machine, unless `narrow_timestamps` has them
    (engine/runtime/columns/narrow.py). `kinds`: a byte for each row.
    """

    kind: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    light_bytes: ClassVar[int] = 0
    records: int
    batch: bytes | list[list[Any]]
    timestamps: bytes | None = None
    forms: tuple[tuple[Any, ...] | None, ...] = ()
    narrow_timestamps: tuple[int, str, bytes] | None = None
    kinds: bytes | None = None

    def __len__(self) -> int:
        return self.records


Chunk: TypeAlias = "Rows | Columns"
