"""SinkUpsertMaterializer: the rows of each primary key, as a sink that replaces rows by key is to see them.

Rows of one primary key may have other keys in the query, and so come from several subtasks: an insertion of one before
the deletion of another. So all rows of a key are remembered, and the last one counts. With ON CONFLICT DO ERROR or DO
NOTHING rows wait for the next watermark, up to which each deletion has come. Source: Flink's SinkUpsertMaterializer and
WatermarkCompactingSinkMaterializer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.errors import ProgramError
from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.changelog import ADDED, DELETE, INSERT, UPDATE_AFTER, are_added, changes_of, kinds_of
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.keyed.plain_objects import PlainObjects
from penstock.table.operators.keyed.row_identity import are_equal, place_of
from penstock.table.operators.keyed.timed import TimedOperator
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

DEDUPLICATE, FAIL, NOTHING = "DEDUPLICATE", "ERROR", "NOTHING"
"""ON CONFLICT DO ...: the last row counts; several are an error; the first row counts."""
WAITING = "(sink) waiting"
"""key -> [(kind, row), ...]: what waits for a watermark."""
Fields = tuple[Any, ...]
Change = tuple[RowKind, Fields]


class MaterializeOperator(KeyedTableOperator, TimedOperator):
    """`keys`: the primary key. `upsert_key`: the columns by which rows of the query replace each other; None: all."""

    def __init__(
        self,
        keys: Sequence[str],
        upsert_key: Sequence[int] | None,
        *,
        conflict: str,
        table: str,
        columns: TableColumns,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__("SinkMaterializer", keys, received=columns, given=columns, ttl_ms=ttl_ms)
        # Without columns in the key, all rows are one.
        self._identity_of = None if upsert_key is None else itemgetter(*upsert_key) if upsert_key else _nothing
        self._conflict = conflict
        self._table_name = table

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = PlainObjects(list)
        return [self._rows]

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._waits = None if self._conflict == DEDUPLICATE else self.backend.layered(WAITING)

    def open(self) -> None:
        super().open()
        self._waiting: dict[Any, list[Change]] = {}
        if self._waits is not None:
            self._waiting = {key: [(RowKind(kind), row) for kind, row in of] for key, of in self._waits.items()}
        self._stored = set(self._waiting)

    def process(self, chunk: Columns) -> bool:
        rows: list[Fields] = list(zip(*map(python_values, chunk.batch.columns), strict=True))
        if self._waits is not None:
            keys = self.keys_of_rows(chunk).to_list()
            for key, kind, row in zip(keys, kinds_of(chunk).tolist(), rows, strict=True):
                self._waiting.setdefault(key, []).append((RowKind(kind), row))
            return True
        slots = self.slots_of(chunk).slots
        places: list[int] = []
        changed = bytearray()
        uncovered: list[Fields] = []
        for place, (slot, comes, row) in enumerate(zip(slots.tolist(), are_added(chunk).tolist(), rows, strict=True)):
            change = self._changed(slot, row, comes=comes)
            if change is None:
                continue
            changed.append(change[0])
            if change[1] is row:
                places.append(place)
            else:
                places.append(len(rows) + len(uncovered))
                uncovered.append(change[1])
        self.remove_empty(slots, self._rows.values)
        self.end_chunk()
        return not places or self.output.emit(self._taken(chunk.batch, uncovered, places, changed))

    def _taken(
        self, batch: pyarrow.RecordBatch, uncovered: list[Fields], places: list[int], kinds: bytearray
    ) -> Columns:
        """Return changes. `places`: of their rows among those of a batch, and behind them those that have come back."""
        if uncovered:
            batch = pyarrow.concat_batches([batch, self.given.exact_batch(list(zip(*uncovered, strict=True)))])
        taken = batch.take(pyarrow.array(places, pyarrow.int64()))
        return changes_of(taken, numpy.frombuffer(bytes(kinds), numpy.uint8))

    def due(self, until: int) -> Iterator[Columns]:
        if self._waiting and (changes := self._compacted()):
            yield self._columns_of(changes)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        if self._waits is not None:
            for key in self._stored - self._waiting.keys():
                self._waits.discard(key)
            for key, changes in self._waiting.items():
                self._waits.put(key, [(kind.value, row) for kind, row in changes])
            self._stored = set(self._waiting)
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _changed(self, slot: int, row: Fields, *, comes: bool) -> tuple[int, Fields] | None:
        """Return what a row changes of the table: a kind and a row; None: nothing."""
        there: list[Fields] | None = self._rows.values[slot]
        if not there:
            if not comes:
                return None
            self._rows.values[slot] = [row]
            return INSERT, row
        place = self._place(there, row, comes=comes)
        if comes:
            if place is None:
                there.append(row)
            else:
                there[place] = row
            return UPDATE_AFTER, row
        if place is None:
            return None
        del there[place]
        if not there:
            self._rows.values[slot] = None
            return DELETE, row
        return (UPDATE_AFTER, there[-1]) if place == len(there) else None

    def _place(self, there: list[Fields], row: Fields, *, comes: bool) -> int | None:
        """Return which of the rows of its primary key a row replaces or takes back."""
        identity_of = self._identity_of
        if identity_of is None:
            return None if comes else place_of(there, row)
        return place_of([identity_of(one) for one in there], identity_of(row))

    def _compacted(self) -> list[Change]:
        """Return what has changed since the last watermark, with at most one row of each key."""
        changes: list[Change] = []
        keys = list(self._waiting)
        slots = self.slots_of_keys(keys)
        for key, slot in zip(keys, slots.tolist(), strict=True):
            before: list[Fields] = list(self._rows.values[slot] or [])
            for kind, row in self._waiting[key]:
                self._changed(slot, row, comes=kind.value in ADDED)
            after: list[Fields] = self._rows.values[slot] or []
            if len(after) > 1 and self._conflict == FAIL:
                raise ProgramError(
                    f"several rows have the primary key {key!r} of the table {self._table_name}, and the statement "
                    f"says ON CONFLICT DO ERROR: {dict(zip(self.received.names, after[0], strict=True))} and "
                    f"{dict(zip(self.received.names, after[1], strict=True))}"
                )
            if not after and before:
                changes.append((RowKind.DELETE, before[0]))
            elif after and not are_equal(before[:1], after[:1]):
                changes.append((RowKind.UPDATE_AFTER if before else RowKind.INSERT, after[0]))
        self._waiting = {}
        self.remove_empty(slots, self._rows.values)
        self.end_chunk()
        return changes

    def _columns_of(self, changes: Sequence[Change]) -> Columns:
        kinds = numpy.array([kind.value for kind, _ in changes], numpy.uint8)
        batch = self.given.exact_batch(list(zip(*(row for _, row in changes), strict=True)))
        return changes_of(batch, kinds)


def _nothing(row: Fields) -> None:
    return None
