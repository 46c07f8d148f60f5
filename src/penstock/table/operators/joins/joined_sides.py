"""The base of joins that keep the rows of each input in a `JoinSide`: as state on the heap, or written to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.joined_inputs import JoinedInputs, JoinInput
from penstock.table.operators.keyed.durable_rows import DurableRows

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class JoinedSides(JoinedInputs):
    """`side_tables`: the names of both tables; see `KeyedRows` for their entries."""

    side_tables: ClassVar[tuple[str, str]]

    def new_side(self, one: JoinInput, stored: KeyedRows) -> JoinSide:
        """Return the rows of an input: those that were restored."""
        return JoinSide(one.columns, None, stored=stored)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._stored = [
            DurableRows(self.backend, table, one.columns, has_times=one.ttl_ms is not None)
            for table, one in zip(self.side_tables, self._of_inputs, strict=True)
        ]

    def open(self) -> None:
        super().open()
        for stored in self._stored:
            stored.load(self.context.now_ms())
        of_inputs = zip(self._of_inputs, self._stored, strict=True)
        self._sides = tuple(self.new_side(one, stored.rows) for one, stored in of_inputs)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for stored in self._stored:
            stored.write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)
