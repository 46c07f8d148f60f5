"""Readers that read one split after another: what is left for a new source to write is how one split is read.

`SplitReader` keeps the splits of a subtask in a queue, each at the place where reading goes on, so a snapshot is that
queue. It asks for the next split when it begins its last one: the answer travels while there is still work.

    SplitReader          `read(split, max_records)`: for sources that can start anywhere at no cost (a range of numbers)
    ChunkedSplitReader   `open(split)`: for sources where opening is dear (a file): an iterator of chunks is kept open
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
    """Records read from a split, in order, and the split at the place right after them; None when that is its end."""

    values: list[Any]
    position: Any | None
    timestamps: list[int] | None = None


class SplitReader(SourceReader[T]):
    """Reads its splits in the order in which they came."""

    interleaved = False
    """True: polls take the held splits in turn. Needed where splits have no end, or all but one would starve."""

    def __init__(self, context: ReaderContext) -> None:
        self.context = context
        self._splits: deque[Any] = deque()
        self._asked = False
        self._no_more = False

    @abstractmethod
    def read(self, split: Any, max_records: int) -> Chunk | Nothing:
        """The next records of `split`, at most `max_records`, or `Nothing` if none are due yet.

        `split` is the position that the chunk before named, or the split as it was assigned.
        """

    def start(self) -> None:
        """Ask for a first split, unless some came from a snapshot."""
        self._ask_in_time()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        """Read on in the split whose turn it is."""
        if not self._splits:
            if self._no_more:
                return END_OF_INPUT
            self._ask_in_time()
            return Nothing()
        split = self._splits[0]
        self._ask_in_time()
        chunk = self.read(split, max_records)
        if isinstance(chunk, Nothing):
            return chunk
        assert len(chunk.values) <= max_records, "a chunk is longer than was asked for"
        finished = chunk.position is None
        if finished:
            self._splits.popleft()
        else:
            self._splits[0] = chunk.position
            if self.interleaved:
                self._splits.rotate(-1)
        return Records(split.split_id, chunk.values, chunk.timestamps, finished)

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these after the ones already here."""
        self._splits.extend(splits)
        self._asked = False

    def no_more_splits(self) -> None:
        """End when the splits that are here have been read."""
        self._no_more = True

    def snapshot_state(self) -> list[Any]:
        """The splits not yet read to their end, each at its position."""
        return list(self._splits)

    def _ask_in_time(self) -> None:
        if len(self._splits) <= 1 and not self._asked and not self._no_more:
            self._asked = True
            self.context.request_split()


class ChunkedSplitReader(SplitReader[T]):
    """Reads a split through an iterator of chunks that stays open until the split ends.

    Chunks may have any length: a long one is handed out in slices. A position inside a chunk is the split at the start
    of the chunk plus a number of records to skip, so `open` must honour what `skip` writes into a split.
    """

    def __init__(self, context: ReaderContext) -> None:
        super().__init__(context)
        self._chunks: Iterator[Chunk] | None = None
        self._chunk: Chunk | None = None
        self._chunk_start: Any = None
        self._taken = 0

    @abstractmethod
    def open(self, split: Any) -> Iterator[Chunk]:
        """Chunks of `split` from its position on. A generator, closed when the split has ended or the reader closes."""

    @abstractmethod
    def skip(self, split: Any, count: int) -> Any:
        """`split`, to be read on `count` records further than its position says."""

    def read(self, split: Any, max_records: int) -> Chunk:
        """The next chunk, or the next slice of one that is too long to be handed out at once."""
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
