"""The channel of an edge of columns, with what is gathered for it."""

from __future__ import annotations

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.few_rows import joined_parts
from penstock.engine.runtime.network.sender import OutputChannel


class ColumnAccumulator(OutputChannel):
    """A channel whose last chunk is still gathered, from slices of chunks."""

    __slots__ = ("parts", "waiting")

    def __init__(self, target: int) -> None:
        super().__init__(target)
        self.parts: list[Columns] = []
        self.waiting = 0
        """How many records `parts` hold."""

    def extend(self, columns: Columns) -> None:
        """Append records."""
        self.parts.append(columns)
        self.waiting += len(columns)

    def take(self) -> Columns:
        """Remove and return the records that are gathered, as one chunk."""
        columns = joined_parts(self.parts)
        self.parts.clear()
        self.waiting = 0
        return columns

    def append_chunk(self, columns: Columns) -> None:
        """Append a chunk to the items of the next buffer."""
        self.items.append(columns)
        self.records += len(columns)

    def close_chunk(self) -> None:
        """Close the current chunk: an element follows, or timestamps begin or end."""
        if self.parts:
            self.append_chunk(self.take())
