"""The aggregates of slices of windows: a table by key for each slice, on the heap or in front of a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from penstock.engine.state.arrays.array_table import KEYS_MAX
from penstock.engine.state.arrays.row_keys import keys_of_values
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.memory_budget import MemoryAccount
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.aggregate_table import AggregateTable
from penstock.table.operators.windows.stored_keys import KEYS_AT_ONCE, StoredKeys


class AggregateSlices(ABC):
    """Slices by their ends (ms)."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def open(self) -> None:
        """Find what was restored."""

    @abstractmethod
    def ends(self) -> Iterable[int]:
        """Return the ends of all slices. They may be dropped meanwhile."""

    @abstractmethod
    def has(self, end: int) -> bool:
        """Return whether there is a slice."""

    @abstractmethod
    def table(self, end: int) -> AggregateTable:
        """Return the table to which rows of a slice are added, until `end_chunk`."""

    @abstractmethod
    def merged(self, ends: Sequence[int]) -> Iterator[AggregateTable]:
        """Yield what slices, at least one, have together: tables that have no key in common. Do not change them."""

    @abstractmethod
    def drop(self, end: int) -> None:
        """Remove a slice."""

    def end_chunk(self) -> None:
        """Release memory, if there is too little."""

    def write_back(self) -> None:
        """Let a snapshot have all changes."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of keys in memory, of all slices."""

    def _merged(self, tables: Sequence[AggregateTable]) -> AggregateTable:
        if len(tables) == 1:
            return tables[0]
        whole = AggregateTable(self._calls)
        for one in tables:
            whole.merge(one)
        return whole


class HeapSlices(AggregateSlices):
    """Slices that are state themselves."""

    def __init__(self, calls: Calls, slices: SlicedArrays) -> None:
        super().__init__(calls)
        self._slices = slices

    def ends(self) -> Iterable[int]:
        return list(self._slices.slices)

    def has(self, end: int) -> bool:
        return end in self._slices.slices

    def table(self, end: int) -> AggregateTable:
        table = self._slices.arrays_at(end)
        assert isinstance(table, AggregateTable)
        return table

    def merged(self, ends: Sequence[int]) -> Iterator[AggregateTable]:
        yield self._merged([self.table(end) for end in ends])

    def drop(self, end: int) -> None:
        self._slices.drop(end)

    def __len__(self) -> int:
        return sum(map(len, self._slices.slices.values()))


class StoredSlices(AggregateSlices):
    """A write-back cache of slices in front of a store. `behind`: (key, end) -> a tuple of the values of all arrays.

    A slice that has never left the cache is read from there alone; of others the keys are on the heap.
    """

    def __init__(self, calls: Calls, behind: LayeredTable, memory: MemoryAccount, keys: StoredKeys) -> None:
        super().__init__(calls)
        self._behind = behind
        self._memory = memory
        self._keys = keys
        self._tables: dict[int, AggregateTable] = {}
        self._written: set[int] = set()
        """Slices of which the store may have entries."""

    def open(self) -> None:
        self._keys.load(self._behind)
        self._written = {*self._keys.ends}

    def ends(self) -> Iterable[int]:
        return {*self._tables, *self._keys.ends}

    def has(self, end: int) -> bool:
        return end in self._tables or self._keys.has(end)

    def table(self, end: int) -> AggregateTable:
        table = self._tables.get(end)
        if table is None:
            read: Callable[[list[Any]], list[Any]] | None = partial(self._read, end) if self._keys.has(end) else None
            table = self._tables[end] = AggregateTable(self._calls, self._memory, is_cache=True, read=read)
        return table

    def merged(self, ends: Sequence[int]) -> Iterator[AggregateTable]:
        if not any(map(self._keys.has, ends)):
            yield self._merged([self.table(end) for end in ends])
            return
        for end in ends:
            self._evict(end)
        keys = list(dict.fromkeys(key for end in ends for key in self._keys.of(end)))
        for first in range(0, len(keys), KEYS_AT_ONCE):
            some = keys[first : first + KEYS_AT_ONCE]
            yield self._merged([self._read_table(end, some) for end in ends])

    def drop(self, end: int) -> None:
        table = self._tables.pop(end, None)
        if end in self._written:
            cached = [] if table is None else table.keys.keys(slice(None))
            self._behind.discard_all((key, end) for key in {*self._keys.of(end), *cached})
            self._written.discard(end)
        self._keys.drop(end)
        if table is not None:
            table.release_memory()

    def end_chunk(self) -> None:
        if self._memory.is_over or len(self) > KEYS_MAX:
            for end in list(self._tables):
                self._evict(end)

    def write_back(self) -> None:
        for end in self._tables:
            self._write(end)

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def _evict(self, end: int) -> None:
        if end not in self._tables:
            return
        self._write(end)
        table = self._tables.pop(end)
        self._keys.add(end, table.row_keys())
        table.release_memory()

    def _write(self, end: int) -> None:
        changes = self._tables[end].take_changes()
        self._behind.current.update(((key, end), value) for key, value in changes.items())
        self._written.add(end)

    def _read(self, end: int, keys: list[Any]) -> list[Any]:
        return self._behind.get_many([(key, end) for key in keys])

    def _read_table(self, end: int, keys: list[Any]) -> AggregateTable:
        table = AggregateTable(self._calls)
        found = [(key, value) for key, value in zip(keys, self._read(end, keys), strict=True) if value is not None]
        if found:
            slots = table.slots_of(keys_of_values([key for key, _ in found]))
            table.load(slots, [value for _, value in found])
        return table
