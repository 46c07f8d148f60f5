"""De-duplication on columns: all rows of a chunk at once, with the state and the changelog of that on rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.aggregate_arrays import CountArray
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.declared_keys import declared_keys
from penstock.engine.runtime.columns.field_arrays import FieldArray, NumberArray, field_array
from penstock.engine.runtime.columns.keyed_input import check_inserts, keys_in
from penstock.engine.runtime.columns.keyed_values import KeyedValues, Slots
from penstock.engine.runtime.columns.replaced_rows import changelog
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.operators.deduplicate import KEPT_ROWS_TABLE, DeduplicateOperator, Kept
from penstock.engine.state.arrays.array_table import KEYS_MAX, ArrayTable
from penstock.engine.state.arrays.expiring_table import array_table, expire_arrays
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


class ColumnDeduplicateOperator(DeduplicateOperator):
    """`columns`: those of the rows, also of those that it emits. They have row kinds: their type is a RowTypeInfo."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        kept: Kept,
        *,
        key_fields: Sequence[str],
        columns: RecordColumns,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(name, key_selector, kept, columns.names, ttl=ttl)
        self._key_fields = tuple(key_fields)
        self._columns = self.columns_received = self.columns_given = columns

    def event_time_field(self, received: str | None) -> str | None:
        return None if self.kept.last or self.kept.by_event_time else received

    def on_rows(self) -> Operator:
        return DeduplicateOperator(self.name, self.key_selector, self.kept, self.names, ttl=self.ttl)

    def use_table(self) -> None:
        self._memory = self.context.memory_account("kept rows", self._keys_held)
        self._values: KeyedValues | None = None
        self._heap_table: ArrayTable | None = None
        self._heap_table = self.backend.arrays(KEPT_ROWS_TABLE, self._new_table)
        if self._heap_table is None:
            super().use_table()

    def use_ttl(self) -> None:
        if self._heap_table is None:
            super().use_ttl()
        else:
            expire_arrays(self.backend, KEPT_ROWS_TABLE, self._heap_table, self.context.now_ms())

    def open(self) -> None:
        super().open()
        self._values = self._new_values()

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        times = chunk.timestamps
        if self.kept.by_event_time and (times is None or int(times.min()) <= MIN_TIMESTAMP):
            raise self.untimed()
        check_inserts(self, chunk, "deduplication")
        assert self._values is not None
        of_rows = self._values.slots_of(keys_in(self, chunk, self._key_fields))
        runs = Runs(of_rows.slots)
        changes = (
            self._first_rows(chunk, of_rows, runs) if self.kept.only_keys else self._replaced(chunk, of_rows, runs)
        )
        if self._heap_table is None and (len(self._values) > KEYS_MAX or self._memory.is_over):
            self._write_back()
            self._table.release_memory()
            self._values = self._new_values()
        return not len(changes) or self.output.emit(changes)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        if self._heap_table is None:
            self._write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _first_rows(self, chunk: Columns, of_rows: Slots, runs: Runs) -> Columns:
        firsts = runs.order[runs.starts]
        new = ~of_rows.have_values[firsts]
        slots = runs.slots[new]
        self._table.change(slots)
        keys: Any = self._table.values[0]
        keys.add(slots, None)
        return chunk.selected(numpy.sort(firsts[new]))

    def _replaced(self, chunk: Columns, of_rows: Slots, runs: Runs) -> Columns:
        if self.kept.by_event_time:
            replaces = self._in_order_of_time(chunk, of_rows, runs)
            if not replaces.all():
                chunk = chunk.filtered(replaces)
                of_rows = Slots(of_rows.slots[replaces], of_rows.have_values[replaces])
                if not len(chunk):
                    return chunk
                runs = Runs(of_rows.slots)
        changes = changelog(
            chunk,
            of_rows,
            runs,
            self._rows_at,
            update_before=self.kept.update_before,
            skip_equal=not self.kept.by_event_time and self.ttl is None,
        )
        self._put(chunk, runs)
        return changes

    def _in_order_of_time(self, chunk: Columns, of_rows: Slots, runs: Runs) -> Mask:
        """Return which rows replace that of their key, since they are later, or earlier."""
        assert chunk.timestamps is not None
        nothing, best = (MIN_TIMESTAMP, numpy.maximum) if self.kept.last else (MAX_TIMESTAMP, numpy.minimum)
        times = chunk.timestamps[runs.order]
        have_values = of_rows.have_values[runs.order[runs.starts]]
        stored = numpy.where(have_values, self._times.numbers(runs.slots), nothing)
        so_far = times.copy()
        so_far[runs.starts] = best(so_far[runs.starts], stored)
        runs.accumulate(best, so_far)
        before = numpy.empty_like(so_far)
        before[1:] = so_far[:-1]
        before[runs.starts] = stored
        replaces = times >= before if self.kept.last else times < before
        replaces[runs.starts[~have_values]] = True
        found: Mask = runs.by_row(replaces)
        return found

    def _put(self, chunk: Columns, runs: Runs) -> None:
        """Store the last row of each run."""
        last = runs.order[runs.ends]
        rows = chunk.batch.take(pyarrow.array(last))
        self._table.change(runs.slots)
        for array, column in zip(self._fields, rows.columns, strict=True):
            array.put(runs.slots, column)
        if self.kept.by_event_time:
            assert chunk.timestamps is not None
            self._times.put_numbers(runs.slots, chunk.timestamps[last])

    def _rows_at(self, slots: Integers) -> pyarrow.RecordBatch:
        columns = [array.column(slots) for array in self._fields]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._columns.schema)

    @property
    def _table(self) -> ArrayTable:
        assert self._values is not None
        return self._values.table

    def _keys_held(self) -> int:
        """Return how many keys are in arrays."""
        return len(self._heap_table if self._heap_table is not None else self._values or ())

    @property
    def _times(self) -> NumberArray:
        found: Any = self._table.values[0]
        return found  # type: ignore[no-any-return]

    @property
    def _fields(self) -> Sequence[FieldArray]:
        found: Any = self._table.values[1 if self.kept.by_event_time else 0 :]
        return found  # type: ignore[no-any-return]

    def _new_table(self, is_cache: bool = False) -> ArrayTable:
        arrays: list[StateArray] = []
        if self.kept.only_keys:
            arrays = [CountArray()]
        else:
            if self.kept.by_event_time:
                arrays = [NumberArray(pyarrow.int64())]
            arrays += [field_array(self._columns, name) for name in self.names]
        ttl_ms = None if self.ttl is None else self.ttl.get_ttl().to_milliseconds()
        declared = declared_keys(self.name, self._columns.schema, self._key_fields)
        return array_table(
            arrays, ttl_ms, self.context.now_ms, memory=self._memory, is_cache=is_cache, check_keys=declared.check
        )

    def _new_values(self) -> KeyedValues:
        if self._heap_table is not None:
            return KeyedValues(self._heap_table)
        return KeyedValues(self._new_table(is_cache=True), self.table.get_many if self.table else None)

    def _write_back(self) -> None:
        """Write what has changed in the arrays to the table behind them."""
        self.rows.write(self._table.take_changes())
