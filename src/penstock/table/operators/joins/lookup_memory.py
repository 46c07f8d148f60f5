"""A LookupJoin of a changelog: what was looked up for a row is remembered, so that it goes when the row goes.

The table may have changed meanwhile. Source: Flink's KeyedLookupJoinRunner.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.changelog import are_added, changes_of, kinds_of
from penstock.table.operators.joins.lookup_join import LookupJoinOperator
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.keyed.plain_objects import PlainObjects

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class LookupMemoryOperator(KeyedTableOperator):
    """`keys`: the key of the rows. Its state is the list of the rows that each was joined with."""

    def __init__(self, join: LookupJoinOperator, keys: Sequence[str], *, ttl_ms: int | None = None) -> None:
        super().__init__(join.name, keys, received=join.received, given=join.given, ttl_ms=ttl_ms)
        self._join = join

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = PlainObjects(list)
        return [self._rows]

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._join.setup(context, output)

    def open(self) -> None:
        super().open()
        self._join.open()

    def close(self) -> None:
        self._join.close()
        super().close()

    def process(self, chunk: Columns) -> bool:
        slots = self.slots_of(chunk).slots
        adds = are_added(chunk)
        added = numpy.flatnonzero(adds)
        found, batch = self._join.partners_of(Columns(chunk.batch.take(pyarrow.array(added))))
        bounds = numpy.searchsorted(found, numpy.arange(len(added) + 1)).tolist()
        rows = list(zip(*map(python_values, batch.columns), strict=True))
        partners = iter([rows[start:stop] for start, stop in pairwise(bounds)])
        emitted: list[tuple[Any, ...]] = []
        places: list[int] = []
        for place, (slot, is_added) in enumerate(zip(slots.tolist(), adds.tolist(), strict=True)):
            if is_added:
                mine = self._rows.values[slot] = next(partners)
            else:
                mine, self._rows.values[slot] = self._rows.values[slot] or [], None
            emitted += mine
            places += [place] * len(mine)
        self._forget(slots)
        self.end_chunk()
        return not emitted or self.output.emit(self._changes(chunk, emitted, places))

    def _forget(self, slots: Any) -> None:
        runs = Runs(slots)
        gone = numpy.array([one is None for one in self._rows.values[runs.slots].tolist()], numpy.bool_)
        if gone.any():
            self.remove(runs.slots[gone])

    def _changes(self, chunk: Columns, rows: list[tuple[Any, ...]], places: list[int]) -> Columns:
        positions = numpy.array(places, numpy.int64)
        names = self.given.names[len(self.received.names) :]
        theirs = self.given.only(names).exact_batch(list(zip(*rows, strict=True)))
        mine = chunk.batch.take(pyarrow.array(positions))
        batch = pyarrow.RecordBatch.from_arrays([*mine.columns, *theirs.columns], schema=self.given.schema)
        return changes_of(batch, kinds_of(chunk)[positions])
