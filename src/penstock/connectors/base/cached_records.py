"""A source of the records of a cached stream, with their timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TypeVar

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.connectors.base.ranges import RangeSplit
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader

T = TypeVar("T")


class CachedRecordsSource(Source[T]):
    """Emit the (value, timestamp) pairs of each part in order; timestamps are in ms, or None. A part is one split."""

    def __init__(self, parts: Sequence[Sequence[tuple[T, int | None]]]) -> None:
        self._parts = parts

    def __copy__(self) -> CachedRecordsSource[T]:
        # The source owns its records, which may be millions.
        return self

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create a split for each part that has records."""
        splits = [RangeSplit(index, 0, len(part)) for index, part in enumerate(self._parts) if part]
        return FixedSplitEnumerator(context, splits)

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[T]:
        """Create a reader of the records."""
        return _CachedReader(context, self._parts)


class _CachedReader(SplitReader[T]):
    def __init__(self, context: ReaderContext, parts: Sequence[Sequence[tuple[T, int | None]]]) -> None:
        super().__init__(context)
        self._parts = parts

    def read(self, split: RangeSplit, max_records: int) -> Chunk:
        numbers, position = split.take(max_records)
        pairs = self._parts[split.index][numbers.start : numbers.stop]
        timed = pairs[0][1] is not None
        # Either all records of a chunk have timestamps or none has: a union may have both kinds.
        same = list(takewhile(lambda pair: (pair[1] is not None) is timed, pairs))
        if len(same) < len(pairs):
            _, position = split.take(len(same))
        timestamps = [timestamp for _, timestamp in same if timestamp is not None]
        return Chunk([value for value, _ in same], position, timestamps if timed else None)
