"""A source of two halves of rows with a pause of the clock behind each, as Flink's tests wait for results there."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow

from penstock.api.source import Boundedness, EnumeratorContext, Nothing, ReaderContext, Source
from penstock.connectors.base.ranges import RangeSplit
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader

PAUSE_MS = 20_000
PACE_MS = 5


class Pauses:
    """The readers that wait behind the first half of their rows, with the time since when (ms)."""

    def __init__(self) -> None:
        self._began: dict[int, int] = {}
        self._readers: list[object] = []

    def note(self, reader: object, now_ms: int) -> None:
        """Record that a reader waits. Readers are kept alive, because ids could be reused otherwise."""
        if id(reader) not in self._began:
            self._readers.append(reader)
            self._began[id(reader)] = now_ms

    def last_ms(self, count: int) -> int | None:
        """Return when the last of `count` readers began to wait; None: not all of them wait."""
        return max(self._began.values()) if len(self._began) >= count > 0 else None


_current = Pauses()


def new_pauses() -> Pauses:
    """Return a new recorder, to which all readers of this process report from now on.

    Readers are unpickled in slots, so a test can't pass objects to them.
    """
    global _current
    _current = Pauses()
    return _current


class HalvesSource(Source[Any]):
    """`first`: how many rows the first half has. One subtask reads all rows, in order.

    `is_paced`: each row comes at its time, so that several sources go on together.
    """

    is_second: ClassVar[bool] = False
    """Whether any of these sources has begun with its second half."""

    def __init__(self, table: pyarrow.Table, first: int, *, is_paced: bool) -> None:
        self._table = table.combine_chunks()
        self._first = first
        self._is_paced = is_paced

    def __copy__(self) -> HalvesSource:
        return self

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED."""
        return Boundedness.BOUNDED

    def create_enumerator(self, context: EnumeratorContext) -> FixedSplitEnumerator:
        """Create one split, with a number behind the last row for the pause there."""
        return FixedSplitEnumerator(context, [RangeSplit(0, 0, self._table.num_rows + 1)])

    def restore_enumerator(self, context: EnumeratorContext, state: list[RangeSplit]) -> FixedSplitEnumerator:
        """Restore the splits that were not assigned."""
        return FixedSplitEnumerator(context, state)

    def create_reader(self, context: ReaderContext) -> SplitReader[Any]:
        """Create a reader of the rows."""
        return _HalvesReader(context, self._table, self._first, is_paced=self._is_paced)

    def get_produced_type(self) -> Any:
        """Return None: rows are batches."""
        return None


class _HalvesReader(SplitReader[Any]):
    def __init__(self, context: ReaderContext, table: pyarrow.Table, first: int, *, is_paced: bool) -> None:
        super().__init__(context)
        self._is_paced = is_paced
        self._next_ms = 0
        self._table = table
        self._first = first
        self._ends_of_pauses: dict[int, int] = {}

    def read(self, split: RangeSplit, max_records: int) -> Chunk | Nothing:
        position, count = split.position, self._table.num_rows
        if position in (self._first, count):
            until = self._ends_of_pauses.setdefault(position, self.context.now_ms() + PAUSE_MS)
            if self.context.now_ms() < until:
                if position == self._first:
                    _current.note(self, self.context.now_ms())
                return Nothing(until)
            HalvesSource.is_second = True
        if self._is_paced and position < count:
            if self.context.now_ms() < self._next_ms:
                return Nothing(self._next_ms)
            max_records, self._next_ms = 1, self.context.now_ms() + PACE_MS
        stop = self._first if position < self._first else count
        rows = min(max_records, stop - position)
        schema = self._table.schema
        batches = self._table.slice(position, rows).to_batches() if rows else []
        values: Any = batches[0] if batches else pyarrow.RecordBatch.from_pylist([], schema=schema)
        if position >= count:
            return Chunk(values, None)
        return Chunk(values, RangeSplit(split.index, position + rows, split.end))
