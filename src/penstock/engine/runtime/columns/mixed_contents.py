"""What windows of declared rows contain: rows, a dict, or arrays, where a chunk has enough records of a window.

On the heap both forms are in one table of state (`mixed_slices.py`). Elsewhere the table has rows only, and the arrays
of a window are a write-back cache in front of it, as on columns (`keyed_arrays.py`): a key is read when it first
occurs, and those that have changed are written together, before a snapshot or when there are too many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import AVG, COUNT, FieldAggregates
from penstock.engine.runtime.chunks import Values
from penstock.engine.runtime.columns.aggregate_classes import arrays_of, value_types
from penstock.engine.runtime.columns.aggregated_fields import fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.exact_fields import exact_kind
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.arrays.array_table import KEYS_MAX, ArrayTable
from penstock.engine.state.arrays.mixed_slices import MixedSlices
from penstock.engine.state.arrays.row_keys import RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slices
    from penstock.engine.state.tables import Layer

ARRAYS_FROM = 64
"""A window gets arrays with the first chunk that has so many records of it."""
_MOVED_MAX = 4096
"""Windows with more keys than that keep their form: moving them takes a microsecond for each."""


class _UnfitError(Exception):
    """A table has a key or an accumulator that arrays would change."""


class MixedContentsOperator(SlicedWindowOperator):
    """Holds the aggregates of windows in either form. `columns`: those of records, of exact types."""

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
        self._key_fields = tuple(key_fields)
        self._function = aggregates
        self._aggregates = aggregates.aggregates
        self._columns = columns
        self._of_partials = False
        """Whether chunks of columns are partial aggregates."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        schema = self._columns.schema
        self._types = value_types(self._aggregates, schema)
        self._key_kinds = [exact_kind(schema.field(field).type) for field in self._key_fields]
        self._memory = context.memory_account("windows", self._keys_cached)
        self._caches: dict[int, KeyedArrays] = {}
        """Window -> its arrays, if they are in front of a table."""
        self._stays_rows: set[int] = set()
        """Windows that get no arrays in front of their table: some value would be changed by them."""
        super().setup(context, output)
        self._waiting_noted = False
        """Whether a savepoint has noted which keys of arrays wait, though all do."""

    def make_slices(self, name: str) -> Slices:
        mixed: Slices | None = self.backend.arrays(name, lambda: MixedSlices(self._new_table, self._fit))
        return self.backend.slices(name) if mixed is None else mixed

    def open(self) -> None:
        super().open()
        self._mixed = self._slices if isinstance(self._slices, MixedSlices) else None

    def _new_table(self) -> ArrayTable:
        # Not in the budget of the slot: a program on rows is not refused for its state, and rows would take more.
        return ArrayTable(arrays_of(self._aggregates, self._types))

    def _fit(self, keys: Collection[Any], values: Collection[Any]) -> bool:
        """Return whether arrays give back exactly these keys and accumulators."""
        kinds = self._key_kinds
        parts = [keys] if len(kinds) == 1 else list(zip(*keys, strict=True))
        if not all({*map(type, part)} <= {kind, type(None)} for part, kind in zip(parts, kinds, strict=False)):
            return False
        columns = zip(self._aggregates, self._types, zip(*values, strict=True), strict=False)
        return all(_fits(one.kind, float if kind is numpy.float64 else int, column) for one, kind, column in columns)

    # The form of a window.

    def has_arrays(self) -> bool:
        """Return whether a window has arrays."""
        return bool(self._caches if self._mixed is None else self._mixed.arrays.slices)

    def _arrays_of(self, window: int) -> KeyedArrays | None:
        """Return the arrays of a window; None: it has rows, or nothing."""
        if self._mixed is None:
            return self._caches.get(window)
        table = self._mixed.arrays.slices.get(window)
        return None if table is None else KeyedArrays(table)

    def _arrays_for(self, window: int, records: int) -> KeyedArrays | None:
        """Return the arrays of a window, which it gets if so many records are worth it."""
        arrays = self._arrays_of(window)
        if arrays is not None or records < ARRAYS_FROM or window in self._ended.slices:
            return arrays
        if self._mixed is None:
            return self._new_cache(window)
        waiting = self._waiting.slices.get(window)
        keys = [] if waiting is None else list(waiting.as_mapping())
        if len(keys) > _MOVED_MAX or not self._mixed.to_arrays(window, keys):
            return None
        if waiting is not None:
            # The keys of arrays wait because their window does.
            self._forget_keys(window)
        return KeyedArrays(self._mixed.arrays.arrays_at(window))

    def _leave_arrays(self, window: int) -> None:
        """Let a window have rows, and note which of its keys wait."""
        if self._mixed is None:
            self._write_back(window)
            self._drop_cache(window)
        elif window in self._mixed.arrays.slices:
            self._note_waiting(window, self._mixed.arrays.keys(window))
            self._mixed.to_rows(window)

    def _note_waiting(self, window: int, keys: Collection[Any]) -> None:
        self._waiting.at(window).current.update(dict.fromkeys(keys, True))

    def _forget_keys(self, window: int) -> None:
        """Let a window wait whose keys are not noted."""
        self._waiting.drop(window)
        self._waiting.at(window)

    # Arrays in front of a table.

    def _new_cache(self, window: int) -> KeyedArrays | None:
        if window in self._stays_rows:
            return None
        table = ArrayTable(arrays_of(self._aggregates, self._types), self._memory, is_cache=True)
        arrays = self._caches[window] = KeyedArrays(table, self.reader_of(window))
        return arrays

    def reader_of(self, window: int) -> Callable[[list[Any]], list[Any]] | None:
        """Return a function from keys to what the table has of them; None: it has nothing of this window."""
        read_one = self._slices.reader(window)
        if read_one is None:
            return None

        def read(keys: list[Any]) -> list[Any]:
            found = list(map(read_one, keys))
            present = [value for value in found if value is not None]
            if not self._fit([key for key, value in zip(keys, found, strict=True) if value is not None], present):
                raise _UnfitError
            return found

        return read

    def _write_back(self, window: int) -> None:
        """Write what has changed in the arrays of a window to its table, and which keys wait."""
        arrays = self._caches.get(window)
        if arrays is not None:
            self._slices.at(window).current.update(arrays.take_changes())
            self._note_waiting(window, arrays.take_new_keys())

    def _drop_cache(self, window: int) -> None:
        arrays = self._caches.pop(window, None)
        if arrays is not None:
            arrays.release_memory()

    def _bound_caches(self) -> None:
        """Write back and forget the arrays in front of the table if they have too many keys."""
        if self._caches and (self._keys_cached() > KEYS_MAX or self._memory.is_over):
            for window in list(self._caches):
                self._leave_arrays(window)

    def _keys_cached(self) -> int:
        return sum(map(len, self._caches.values()))

    # Additions.

    def _fields_of(self, chunk: Columns) -> list[Any]:
        """Return the column for each aggregate; None for the number of records."""
        if self._of_partials:
            first = len(self._key_fields)
            return chunk.batch.columns[first : first + len(self._aggregates)]  # type: ignore[no-any-return]
        return fields_of_aggregates(self._aggregates, chunk.batch)

    def _values_of(self, chunk: Columns) -> list[Any]:
        """Return for each row the values of `_fields_of`."""
        columns = [[True] * len(chunk) if field is None else field.to_pylist() for field in self._fields_of(chunk)]
        return list(zip(*columns, strict=True)) if columns else [()] * len(chunk)

    def _add_chunk(self, window: int, keys: RowKeys, chunk: Columns) -> None:
        """Add columns to a window that waits."""
        arrays = self._arrays_for(window, len(chunk))
        if arrays is None:
            self._add_values(window, keys.to_list(), self._values_of(chunk))
            return
        self._waiting_for(window)
        try:
            (arrays.merge if self._of_partials else arrays.add)(keys, self._fields_of(chunk))
        except _UnfitError:
            self.stay_rows(window)
            self._add_values(window, keys.to_list(), self._values_of(chunk))
        self._bound_caches()

    def _add_values(self, window: int, keys: list[Any], values: list[Any]) -> None:
        """Add columns to a window that waits and has rows: for each row what `_values_of` has of it."""
        waiting = self._waiting_for(window)
        if window in self._ended.slices:
            # After a restart event time starts again, so a window that has fired waits again.
            waiting.update(dict.fromkeys(keys, True))
        table, function = self._slices.at(window), self._function
        layer, older = table.current, table.older
        add = function.add_partial if self._of_partials else function.add_values
        for key, value in zip(keys, values, strict=True):
            before = layer.get(key)
            if before is None:
                before = older(key)
            if before is None:
                before = function.create_accumulator()
                waiting[key] = True
            layer[key] = add(value, before)

    def stay_rows(self, window: int) -> None:
        """Let a window have rows: it has a value that arrays would change."""
        if self._mixed is None and (window in self._caches):
            self._stays_rows.add(window)
        self._leave_arrays(window)

    def _add_to_slice(
        self, start: int, windows: Sequence[int], keys: list[Any], values: Values, new_keys: list[Layer] | None = None
    ) -> None:
        if not self._shares:
            self.stay_rows(start)
        super()._add_to_slice(start, windows, keys, values, new_keys=new_keys)

    # What a cumulative window has goes into the next one.

    def carry(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        into = self.carried_into(window)
        if into is not None:
            self._leave_arrays(into)
        yield from super().carry(window, keys)

    def _carry_arrays(self, window: int, arrays: KeyedArrays) -> bool:
        """Merge arrays into those of the next window. Return whether it could have arrays; if not, nothing is done."""
        into = self.carried_into(window)
        if into is None:
            return True
        later = self._arrays_for(into, len(arrays))
        if later is None:
            return False
        self._waiting_for(into)
        try:
            later.absorb(arrays)
        except _UnfitError:
            self.stay_rows(into)
            return False
        return True

    # Snapshots.

    def restore_waiting(self) -> None:
        slices = self._slices
        if not isinstance(slices, MixedSlices):
            super().restore_waiting()
            return
        for start in list(slices.arrays.slices):
            if start in self._ended.slices:
                slices.to_rows(start)
            else:
                self._forget_keys(start)
        for start in list(slices.rows.slices):
            self._let_wait(slices, start)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for window in self._caches:
            self._write_back(window)
        if self._mixed is not None:
            starts = list(self._mixed.arrays.slices)
            if self._waiting_noted:
                # Keys that have come since then are missing.
                for start in starts:
                    self._forget_keys(start)
            self._waiting_noted = savepoint
            if savepoint:
                # Other operators continue a savepoint, and some cannot list the keys of a window.
                for start in starts:
                    self._note_waiting(start, self._mixed.arrays.keys(start))
        return super().prepare_snapshot(checkpoint_id, savepoint)


def _fits(aggregate: str, kind: type, values: Sequence[Any]) -> bool:
    """Return whether arrays keep these parts of accumulators. `kind`: of the values that they aggregate."""
    if aggregate == AVG:
        values = [None if pair is None else pair[0] for pair in values]
    elif aggregate == COUNT:
        kind = int
    if not {*map(type, values)} <= {kind, type(None)}:
        return False
    # Sums may have any size. A column of 64 bits holds all other integers of arrays.
    return kind is not int or aggregate in ("sum", AVG) or all(v is None or -(1 << 63) <= v < 1 << 63 for v in values)
