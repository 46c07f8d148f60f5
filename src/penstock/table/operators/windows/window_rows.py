"""The rows of windows that wait for their end.

On the heap they are buckets of Arrow rows, one for each window. Otherwise they are lists in a store, by key and window,
behind those that have come lately; a window that fires is read some keys at a time. Both have one form in snapshots.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.bucket_rows import BucketRows
from penstock.engine.runtime.columns.join_table import JoinTable
from penstock.engine.runtime.columns.kept_fields import KeptFields
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.collection_tables import ListTable
from penstock.engine.state.memory_budget import MemoryAccount
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.stored_keys import KEYS_AT_ONCE, StoredKeys
from penstock.table.operators.windows.window_slices import distinct_ends

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext

ROWS_MAX = 1 << 16
"""So many rows wait at most before they are written to a store."""


class TableFields(KeptFields):
    """Rows in snapshots are tuples."""

    def __init__(self, columns: TableColumns) -> None:
        super().__init__(columns, columns.names)
        self._of_table = columns

    def reader(self) -> Callable[[pyarrow.RecordBatch], list[Any]]:
        return lambda batch: list(zip(*map(python_values, batch.columns), strict=True))

    def of_records(self, records: Sequence[Any]) -> pyarrow.RecordBatch:
        return self._of_table.exact_batch(list(zip(*records, strict=True)))


class WindowRows(ABC):
    """The rows of windows, by their end (ms)."""

    def __init__(self) -> None:
        self._ends: set[int] = set()
        self._order: list[int] = []
        """A heap of the ends."""

    @abstractmethod
    def open(self) -> None:
        """Find what was restored."""

    @property
    def first_end(self) -> int | None:
        """The end of the first window that has rows; None: there is none."""
        while self._order and self._order[0] not in self._ends:
            heappop(self._order)
        return self._order[0] if self._order else None

    def note(self, ends: Iterable[int]) -> None:
        """Note windows that have rows."""
        for end in ends:
            if end not in self._ends:
                self._ends.add(end)
                heappush(self._order, end)

    def ended(self, progress: int) -> Iterator[int]:
        """Yield the windows that have ended, which are forgotten."""
        while (end := self.first_end) is not None and end - 1 <= progress:
            self._ends.discard(end)
            yield end

    def add(self, ends: Integers, keys: RowKeys, batch: pyarrow.RecordBatch, progress: int) -> int:
        """Add rows to their windows. Return how many were late: their window has ended up to `progress`."""
        waits = ends - 1 > progress
        late = len(ends) - int(numpy.count_nonzero(waits))
        if late:
            ends, keys, batch = ends[waits], keys.at(waits), batch.filter(pyarrow.array(waits))
        if len(ends):
            self.note(distinct_ends(ends))
            self._append(ends, keys, batch)
        return late

    @abstractmethod
    def _append(self, ends: Integers, keys: RowKeys, batch: pyarrow.RecordBatch) -> None:
        """Add rows to windows that have not ended."""

    @abstractmethod
    def take(self, end: int) -> pyarrow.RecordBatch | None:
        """Remove and return the rows of a window that is not stored, in the order of arrival; None: there are none."""

    @abstractmethod
    def drop(self, progress: int) -> None:
        """Drop the rows of windows that have ended."""

    def is_stored(self, end: int) -> bool:
        """Return whether rows of a window are in a store."""
        return False

    def move_to_store(self, end: int) -> list[Any]:
        """Write all rows to the store. Return the keys of a window, which is forgotten: `take_keys` follows."""
        raise NotImplementedError(f"{type(self).__name__} has no store")

    def take_keys(self, end: int, keys: Sequence[Any]) -> pyarrow.RecordBatch | None:
        """Remove and return the rows of a window that have these keys."""
        raise NotImplementedError(f"{type(self).__name__} has no store")

    def write_back(self) -> None:
        """Let a snapshot have all rows."""


class HeapWindowRows(WindowRows):
    """A table of the backend, whose buckets are the ends of windows."""

    def __init__(self, table: JoinTable) -> None:
        super().__init__()
        self._table = table

    def open(self) -> None:
        self._table.use_restored()
        for span in self._table.spans.values():
            self.note(distinct_ends(_ends_of(span)))

    def _append(self, ends: Integers, keys: RowKeys, batch: pyarrow.RecordBatch) -> None:
        self._table.append(keys, ends, batch)

    def take(self, end: int) -> pyarrow.RecordBatch | None:
        if end not in self._ends:
            return None
        (span,) = self._table.reached(end, end)
        rows: pyarrow.RecordBatch = span.blocks.take(numpy.flatnonzero(_ends_of(span) == end))
        self.drop(end - 1)
        return rows

    def drop(self, progress: int) -> None:
        for _ in self.ended(progress):
            pass
        for _ in self._table.free(progress + 2):
            pass


class StoredWindowRows(WindowRows):
    """`lists`: (key, end) -> rows, each behind that end, as `JoinTable` has them in snapshots."""

    def __init__(self, lists: ListTable, columns: TableColumns, memory: MemoryAccount, keys: StoredKeys) -> None:
        super().__init__()
        self._lists = lists
        self._columns = columns
        self._memory = memory
        self._keys = keys
        self._waiting: dict[int, list[tuple[RowKeys, pyarrow.RecordBatch]]] = {}
        """Rows that have come lately, by window."""
        self._waiting_rows = 0

    def open(self) -> None:
        self._keys.load(self._lists)
        self.note(self._keys.ends)

    def _append(self, ends: Integers, keys: RowKeys, batch: pyarrow.RecordBatch) -> None:
        distinct = distinct_ends(ends)
        for end in distinct:
            places = numpy.flatnonzero(ends == end)
            some = batch if len(distinct) == 1 else batch.take(pyarrow.array(places))
            self._memory.take(some.nbytes)
            self._waiting.setdefault(end, []).append((keys.at(places), some))
        self._waiting_rows += len(ends)
        if self._waiting_rows > ROWS_MAX or self._memory.is_over:
            self.write_back()

    def is_stored(self, end: int) -> bool:
        return self._keys.has(end)

    def take(self, end: int) -> pyarrow.RecordBatch | None:
        self._ends.discard(end)
        batches = self._take_waiting(end)
        return pyarrow.concat_batches(batches) if batches else None

    def move_to_store(self, end: int) -> list[Any]:
        self.write_back()
        keys = self._keys.of(end)
        self._keys.drop(end)
        self._ends.discard(end)
        return keys

    def take_keys(self, end: int, keys: Sequence[Any]) -> pyarrow.RecordBatch | None:
        rows = [row for key in keys for _, row in self._lists.elements((key, end))]
        self._lists.discard_all((key, end) for key in keys)
        return self._columns.exact_batch(list(zip(*rows, strict=True))) if rows else None

    def drop(self, progress: int) -> None:
        for end in self.ended(progress):
            self._take_waiting(end)
            self._lists.discard_all((key, end) for key in self._keys.of(end))
            self._keys.drop(end)

    def write_back(self) -> None:
        rows_of = TableFields(self._columns).reader()
        for end, waiting in self._waiting.items():
            by_key: dict[Any, list[Any]] = {}
            for keys, batch in waiting:
                self._keys.add(end, keys)
                for key, row in zip(keys.to_list(), rows_of(batch), strict=True):
                    by_key.setdefault(key, []).append((end, row))
            for key, rows in by_key.items():
                self._lists.extend((key, end), rows)
        self._waiting, self._waiting_rows = {}, 0
        self._memory.release_all()

    def _take_waiting(self, end: int) -> list[pyarrow.RecordBatch]:
        batches = [batch for _, batch in self._waiting.pop(end, ())]
        self._waiting_rows -= sum(batch.num_rows for batch in batches)
        self._memory.release(sum(batch.nbytes for batch in batches))
        return batches


def window_rows(
    context: OperatorContext, backend: KeyedStateBackend, names: Sequence[str], columns: Sequence[TableColumns]
) -> list[WindowRows]:
    """Return the rows of each input of an operator, in tables with these names."""
    return [_window_rows(context, backend, *one) for one in zip(names, columns, strict=True)]


def taken_rows(inputs: Sequence[WindowRows], end: int) -> Iterator[list[pyarrow.RecordBatch | None]]:
    """Remove the rows of a window, and yield those of each input: all of them, or all that have some keys."""
    if not any(rows.is_stored(end) for rows in inputs):
        yield [rows.take(end) for rows in inputs]
        return
    keys = list(dict.fromkeys(key for rows in inputs for key in rows.move_to_store(end)))
    for first in range(0, len(keys), KEYS_AT_ONCE):
        yield [rows.take_keys(end, keys[first : first + KEYS_AT_ONCE]) for rows in inputs]


def _window_rows(context: OperatorContext, backend: KeyedStateBackend, name: str, columns: TableColumns) -> WindowRows:
    on_heap = backend.arrays(name, lambda: JoinTable(TableFields(columns), bucket_ms=1))
    if on_heap is not None:
        return HeapWindowRows(on_heap)
    keys = StoredKeys(context.memory_account("keys of windows"))
    return StoredWindowRows(
        backend.lists(name, namespaced=True), columns, context.memory_account("rows of windows"), keys
    )


def _ends_of(span: BucketRows) -> Integers:
    return span.times_of(numpy.arange(len(span)))
