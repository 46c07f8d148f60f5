"""Joins small chunks of columns that wait in the queue of a task.

A chunk of columns costs some 0.06 ms however few rows it has, twice what a small chunk of rows costs. At a short
buffer timeout many small ones arrive, and a task that has fallen behind would process each for itself. Joined, those
that wait cost about as much as one: the task catches up.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.engine.runtime.task.budget import Pacing

CHUNKS_MAX = 32
"""Bounds the time in which buffers are received before the first of their records is processed."""
RECORDS_MAX = 1 << 13
"""From so many rows on, a chunk costs many times as much as an empty one, even in a long chain."""


class ChunkInput(Protocol):
    """An input of a task."""

    pacing: Pacing

    def records(self, chunk: Any, position: int) -> None:
        """Process a chunk from `position` on."""


class JoinedChunks:
    """A work item: chunks of columns of one input, in order, which one call of its operator takes together."""

    __slots__ = ("_chunks", "input", "records")

    def __init__(self, input: ChunkInput, chunk: Any) -> None:
        self.input = input
        self._chunks = [chunk]
        self.records = len(chunk)

    @property
    def has_room(self) -> bool:
        """Whether another chunk may join. A slow function gets no more rows than it takes in a call."""
        return self.records < min(self.input.pacing.records_max, RECORDS_MAX) and len(self._chunks) < CHUNKS_MAX

    def add(self, input: ChunkInput, chunk: Any) -> bool:
        """Let a chunk join, if it may. Edges of one input may differ in having timestamps."""
        first = self._chunks[0]
        if input is not self.input or not self.has_room or (first.timestamps is None) != (chunk.timestamps is None):
            return False
        if first.schema is not chunk.schema and first.schema != chunk.schema:
            return False
        self._chunks.append(chunk)
        self.records += len(chunk)
        return True

    def __call__(self) -> None:
        """Process the chunks."""
        if len(self._chunks) == 1:
            self.input.records(self._chunks[0], 0)
            return
        from penstock.engine.runtime.columns.few_rows import joined_parts

        self.input.records(joined_parts(self._chunks), 0)
