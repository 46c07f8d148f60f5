"""The state of aligned windows on columns: arrays of each window, and which of its keys wait for its end.

On the heap the arrays are the table of state, else a write-back cache in front of it (see `keyed_arrays.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.columns.aggregate_classes import arrays_of, value_types
from penstock.engine.runtime.columns.aggregated_fields import columns_of_fields, fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.declared_keys import declared_keys
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.partial_aggregates import partial_types
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.arrays.array_table import KEYS_MAX, ArrayTable
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slices


class WindowArraysOperator(SlicedWindowOperator):
    """Holds the aggregates of windows in arrays. `columns`: those of the records that it receives."""

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        settings: WindowSettings,
        *,
        key_fields: Sequence[str],
        aggregates: FieldAggregates,
        columns: RecordColumns,
    ) -> None:
        super().__init__(name, key_selector, settings)
        self._settings = settings
        self._key_fields = tuple(key_fields)
        self._aggregates = aggregates.aggregates
        self._columns = self.columns_received = columns
        self._of_partials = False
        """Whether it receives partial aggregates, not records."""

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        if self.late_tag is not None or self._of_partials:
            return None
        return columns_of_fields(self._columns, self._key_fields, self._aggregates)

    def _fields_of(self, chunk: Columns) -> list[Any]:
        """Return the column for each aggregate; None for the number of records."""
        if self._of_partials:
            first = len(self._key_fields)
            return chunk.batch.columns[first : first + len(self._aggregates)]  # type: ignore[no-any-return]
        return fields_of_aggregates(self._aggregates, chunk.batch)

    def setup(self, context: OperatorContext, output: Output) -> None:
        schema = self._columns.schema
        self._types = (
            partial_types(self._aggregates, schema, len(self._key_fields))
            if self._of_partials
            else value_types(self._aggregates, schema)
        )
        self._memory = context.memory_account("windows", self._keys_held)
        self._arrays: dict[int, KeyedArrays] = {}
        """Start of window -> its aggregates, of windows that have got records since the last snapshot."""
        super().setup(context, output)
        self._waiting_noted = False
        """Whether a savepoint has noted which keys wait, though all do."""

    def make_slices(self, name: str) -> Slices:
        slices: Slices | None = self.backend.arrays(name, lambda: SlicedArrays(self._new_table))
        return self.backend.slices(name) if slices is None else slices

    def open(self) -> None:
        super().open()
        self._on_heap = self._slices if isinstance(self._slices, SlicedArrays) else None

    def restore_waiting(self) -> None:
        self._all_wait = isinstance(self._slices, SlicedArrays) and not self._lateness_ms and not self._ended.slices
        """Whether a window's keys all wait for its end. Then it is not noted for each."""
        if not self._all_wait:
            super().restore_waiting()
            return
        self._forget_waiting_keys()

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for start in list(self._arrays):
            self._write_back(start)
        if self._all_wait and self._on_heap is not None:
            if self._waiting_noted:
                # Keys that have come since then are missing.
                self._forget_waiting_keys()
            self._waiting_noted = savepoint
            if savepoint:
                # Other operators continue a savepoint, and some cannot list the keys of a window.
                for start in self._on_heap.slices:
                    self._waiting.at(start).current.update(dict.fromkeys(self._on_heap.keys(start), True))
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _forget_waiting_keys(self) -> None:
        """Let windows wait whose keys are not noted, because they all wait."""
        assert isinstance(self._slices, SlicedArrays)
        for start in list(self._waiting.slices):
            self._waiting.drop(start)
        for start in self._slices.slices:
            self._waiting.at(start)

    def _arrays_at(self, start: int) -> KeyedArrays:
        """Return the arrays of a window, to add to."""
        arrays = self._arrays.get(start)
        if arrays is None:
            arrays = self._arrays[start] = self._new_arrays(start)
        return arrays

    def _new_arrays(self, start: int) -> KeyedArrays:
        if self._on_heap is not None:
            return KeyedArrays(self._on_heap.arrays_at(start))
        return KeyedArrays(self._new_table(is_cache=True), self._reader_of(start))

    def _new_table(self, is_cache: bool = False) -> ArrayTable:
        declared = declared_keys(self.name, self._columns.schema, self._key_fields)
        return ArrayTable(arrays_of(self._aggregates, self._types), self._memory, is_cache, check_keys=declared.check)

    def _reader_of(self, start: int) -> Callable[[list[Any]], list[Any]] | None:
        read = self._slices.reader(start)
        return None if read is None else lambda keys: list(map(read, keys))

    def _bound_caches(self) -> None:
        """Write back and forget the caches in front of a table if they have too many keys."""
        if self._on_heap is None and (sum(map(len, self._arrays.values())) > KEYS_MAX or self._memory.is_over):
            for written in list(self._arrays):
                self._write_back(written)
                self._drop_cache(written)

    def _write_back(self, start: int) -> None:
        """Write what has changed in the arrays of a window to the table behind them, and which keys wait."""
        arrays = self._arrays[start]
        if self._on_heap is None:
            self._slices.at(start).current.update(arrays.take_changes())
        if not self._all_wait:
            # An earlier snapshot has the keys that were waiting when it was taken.
            self._waiting_for(start).update(dict.fromkeys(arrays.take_new_keys(), True))

    def _drop_cache(self, start: int) -> None:
        """Forget the arrays of a window. On the heap the table has them still."""
        arrays = self._arrays.pop(start, None)
        if arrays is not None and self._on_heap is None:
            arrays.release_memory()

    def _carry_arrays(self, window: int, arrays: KeyedArrays) -> None:
        """Merge the aggregates of a window into those of the next one."""
        into = self.carried_into(window)
        if into is None:
            return
        later = self._arrays_at(into)
        self._waiting_for(into)
        try:
            later.absorb(arrays)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", timestamp=self._last_ms(window)) from error

    def carry(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        into = self.carried_into(window)
        if into in self._arrays:
            # What is carried key by key goes to the table behind.
            self._write_back(into)
            self._drop_cache(into)
        yield from super().carry(window, keys)

    def _whole_arrays(self, window: int) -> KeyedArrays | None:
        """Return the arrays of a window if they have all keys that its results have, in their order."""
        arrays = self._arrays.get(window)
        if self._on_heap is not None:
            table = self._on_heap.arrays_at(window)
            # Restored from increments, a window may have keys that were removed.
            are_whole = table.alive == len(table) and (self._all_wait or self._do_all_wait(window, table))
            return KeyedArrays(table) if are_whole else None
        return arrays if arrays is not None and arrays.are_whole and not self._lateness_ms else None

    def _do_all_wait(self, window: int, table: ArrayTable) -> bool:
        """Return whether all keys of a window with allowed lateness wait for its end, in the order of their slots."""
        if window in self._arrays:
            self._write_back(window)
        waiting = self._waiting.take(window)
        # Not `_waiting_for`, which lets the window fire once more.
        self._waiting.at(window).current.update(waiting)
        return list(waiting) == table.keys.keys(slice(None))

    def _keys_held(self) -> int:
        """Return how many keys all windows have in arrays. State may be restored before `open`."""
        on_heap = [table for table in self.backend.tables.values() if isinstance(table, SlicedArrays)]
        if not on_heap:
            return sum(map(len, self._arrays.values()))
        return sum(len(arrays) for table in on_heap for arrays in table.slices.values())
