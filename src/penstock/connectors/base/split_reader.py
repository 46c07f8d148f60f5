"""Base classes of readers that read one split after another. A new source implements how one split is read.

`SplitReader` keeps the splits of a subtask in a queue, each at its current position, so its snapshot is that queue. It
requests the next split when it starts its last one: the answer arrives while there is still work.

    SplitReader          `read(split, max_records)`: for sources that can start anywhere at no cost (a range of numbers)
    ChunkedSplitReader   `open(split)`: for sources that are expensive to open (a file): an iterator of chunks stays
    open
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from penstock.api.source import (
    END_OF_INPUT,
    EndOfInput,
    Nothing,
    ReaderContext,
    Records,
    SourceReader,
)

T = TypeVar("T")


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Records read from a split, in order, and the split positioned after them; None at the end of the split."""

    values: list[Any]
    position: Any | None
    timestamps: list[int] | None = None


class SplitReader(SourceReader[T]):
    """Read the splits in the order in which they were assigned."""

    interleaved = False
    """Whether successive polls alternate between splits.

    Required for unbounded splits: without it the first split would starve the others.
    """

    def __init__(self, context: ReaderContext) -> None:
        self.context = context
        self._splits: deque[Any] = deque()
        self._requested = False
        self._no_more = False

    @abstractmethod
    def read(self, split: Any, max_records: int) -> Chunk | Nothing:
        """Return the next records of `split`, at most `max_records`, or `Nothing` if none are due yet.

        `split` is the position of the previous chunk, or the split as assigned.
        """

    def start(self) -> None:
        """Request the first split, unless splits were restored from a snapshot."""
        self._request_ahead()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        """Read from the current split."""
        if not self._splits:
            if self._no_more:
                return END_OF_INPUT
            self._request_ahead()
            return Nothing()
        split = self._splits[0]
        self._request_ahead()
        chunk = self.read(split, max_records)
        if isinstance(chunk, Nothing):
            return chunk
        assert len(chunk.values) <= max_records, "read() returned a chunk longer than max_records"
        finished = chunk.position is None
        if finished:
            self._splits.popleft()
        else:
            self._splits[0] = chunk.position
            if self.interleaved:
                self._splits.rotate(-1)
        return Records(split.split_id, chunk.values, chunk.timestamps, finished)

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Append splits to the queue."""
        self._splits.extend(splits)
        self._requested = False

    def no_more_splits(self) -> None:
        """End when all assigned splits are read."""
        self._no_more = True

    def snapshot_state(self) -> list[Any]:
        """Return the splits not yet read to their end, each at its position."""
        return list(self._splits)

    def _request_ahead(self) -> None:
        # One request at a time: splits that this reader does not need yet stay available to others.
        if len(self._splits) <= 1 and not self._requested and not self._no_more:
            self._requested = True
            self.context.request_split()


class ChunkedSplitReader(SplitReader[T]):
    """Read a split through an iterator of chunks that stays open until the split ends.

    Chunks may have any length: a long one is returned in parts. A position inside a chunk is the split at the start of
    the chunk plus a number of records to skip, so `open` must apply what `skip` writes into a split.
    """

    def __init__(self, context: ReaderContext) -> None:
        super().__init__(context)
        self._chunks: Iterator[Chunk] | None = None
        self._chunk: Chunk | None = None
        self._chunk_start: Any = None
        self._taken = 0

    @abstractmethod
    def open(self, split: Any) -> Iterator[Chunk]:
        """Yield the chunks of `split` from its position on.

        The generator is closed with the split or with the reader.
        """

    @abstractmethod
    def skip(self, split: Any, count: int) -> Any:
        """Return `split` with its position advanced by `count` records."""

    def read(self, split: Any, max_records: int) -> Chunk:
        """Return the next chunk, or the next part of a chunk longer than `max_records`."""
        chunk = self._chunk
        if chunk is None:
            if self._chunks is None:
                self._chunks = self.open(split)
            chunk = next(self._chunks, None)
            if chunk is None:
                self._release()
                return Chunk([], None)
            self._chunk_start = split
            if len(chunk.values) <= max_records:
                if chunk.position is None:
                    self._release()
                return chunk
            self._chunk = chunk
            self._taken = 0
        return self._slice(chunk, max_records)

    def close(self) -> None:
        """Close the split being read."""
        self._release()

    def _slice(self, chunk: Chunk, max_records: int) -> Chunk:
        first = self._taken
        self._taken = upto = first + max_records
        values = chunk.values[first:upto]
        timestamps = None if chunk.timestamps is None else chunk.timestamps[first:upto]
        if upto < len(chunk.values):
            # There is no byte position inside a chunk (a line format parses whole blocks): the position is the chunk's
            # start and a count. A restore parses the block again and drops that many records.
            return Chunk(values, self.skip(self._chunk_start, upto), timestamps)
        self._chunk = None
        if chunk.position is None:
            self._release()
        return Chunk(values, chunk.position, timestamps)

    def _release(self) -> None:
        chunks, self._chunks, self._chunk = self._chunks, None, None
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
