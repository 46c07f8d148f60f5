"""The base of operators whose state is a struct of arrays: a slot for each key of a table.

On the heap the arrays are the state. Where state is larger than memory they are a write-back cache in front of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.time import Time
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_values import KeyedValues, Slots
from penstock.engine.runtime.operators.expiring_values import ExpiringValues
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.state.arrays.array_table import KEYS_MAX, ArrayTable
from penstock.engine.state.arrays.expiring_table import array_table, expire_arrays
from penstock.engine.state.arrays.row_keys import BatchKeys, Integers, RowKeys, TupleKeys
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.keyed.table_keys import selector_of, tuples_of_chunk
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

STATE_TABLE = "(state)"
"""key -> a tuple of the values of all arrays. Names in brackets can't collide with names of users' states."""


class KeyedTableOperator(KeyedOperator):
    """`keys`: the columns of the key; none: all rows have one key. Subclasses define `new_arrays` and `process`.

    `ttl_ms`: how long a key keeps its state after it was last changed; None: for ever.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        *,
        received: TableColumns,
        given: TableColumns,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, selector_of(keys))
        self.ttl_ms = ttl_ms
        self.key_names = tuple(keys)
        self.columns_received = received
        self.received = received
        self.columns_given = given
        self.given = given

    def new_arrays(self) -> Sequence[StateArray]:
        """Return new arrays of the state. Called again for a cache that is emptied: keep what is returned last."""
        raise NotImplementedError

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._memory = context.memory_account("state of keys", self._keys_held)
        self._values: KeyedValues | None = None
        self._heap_table = self.backend.arrays(STATE_TABLE, self._new_table)
        if self._heap_table is None:
            self._behind = self.backend.layered(STATE_TABLE)

    def open(self) -> None:
        super().open()
        self._values = self._new_values()
        if self._heap_table is not None:
            expire_arrays(self.backend, STATE_TABLE, self._heap_table, self.context.now_ms())
        elif self.ttl_ms is not None:
            self._rows_behind = ExpiringValues(self.backend, STATE_TABLE, self._behind, ttl_of(self.ttl_ms))
            self._rows_behind.use()

    @property
    def state(self) -> ArrayTable:
        """The arrays of all keys, or of those in the cache."""
        assert self._values is not None
        return self._values.table

    def keys_of_rows(self, chunk: Columns) -> RowKeys | TupleKeys:
        """Return the key of each row."""
        return tuples_of_chunk(self, chunk, self.key_names)

    def slots_of(self, chunk: Columns) -> Slots:
        """Return the slot of each row's key, and which keys had a value before. Their state may change now."""
        found = self.find_slots(chunk)
        self.state.change(found.slots)
        return found

    def find_slots(self, chunk: Columns) -> Slots:
        """Return the same as `slots_of`. Before the state of some is changed, `state.change` is to be called."""
        assert self._values is not None
        found = self._values.slots_of(self.keys_of_rows(chunk))
        return Slots(found.slots, found.have_values & self.state.exist(found.slots))

    def slots_of_keys(self, keys: Sequence[Any]) -> Integers:
        """Return the slots of keys, whose state may change now."""
        assert self._values is not None
        slots = self._values.slots_of(BatchKeys(list(keys), numpy.arange(len(keys)))).slots
        self.state.change(slots)
        return slots

    def remove(self, slots: Any) -> None:
        """Remove the state of keys."""
        self.state.remove(slots)

    def remove_empty(self, slots: Integers, values: Any) -> None:
        """Remove the state of those of these keys that have nothing left. `values`: a list of each slot, or None."""
        distinct = numpy.unique(slots)
        gone = numpy.array([not one for one in values[distinct].tolist()], numpy.bool_)
        if gone.any():
            self.remove(distinct[gone])

    def end_chunk(self) -> None:
        """Empty the cache if it is full, and give the slots of removed keys to others."""
        self.state.compact_arrays()
        if self._heap_table is not None:
            self._heap_table.drop_removed()
            self._heap_table.reserve_widened()
        elif len(self.state) > KEYS_MAX or self._memory.is_over:
            self._write_back()
            self.state.release_memory()
            self._values = self._new_values()

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        if self._heap_table is None:
            self._write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def column(self, chunk: Columns, name: str) -> pyarrow.Array:
        """Return a column of a chunk."""
        return chunk.batch.column(name)

    def _keys_held(self) -> int:
        return len(self._heap_table if self._heap_table is not None else self.state if self._values else ())

    def _new_table(self, is_cache: bool = False) -> ArrayTable:
        return array_table(self.new_arrays(), self.ttl_ms, self.context.now_ms, memory=self._memory, is_cache=is_cache)

    def _new_values(self) -> KeyedValues:
        if self._heap_table is not None:
            return KeyedValues(self._heap_table)
        return KeyedValues(self._new_table(is_cache=True), self._behind.get_many)

    def _write_back(self) -> None:
        """Write what has changed in the cache to the table behind it."""
        changes = self.state.take_changes()
        if self.ttl_ms is None:
            self._behind.current.update(changes)
        else:
            self._rows_behind.write(changes)


def ttl_of(ttl_ms: int) -> StateTtlConfig:
    """Return a time to live that begins when state is written; what has expired is not read. As Flink's SQL does."""
    return StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).build()
