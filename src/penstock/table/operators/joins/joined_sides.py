"""The base of joins that keep the rows of each input in a `JoinSide`, which is written to a table before a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.joined_inputs import JoinedInputs, JoinInput

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class JoinedSides(JoinedInputs):
    """`side_tables`: the names of both tables, key -> [(number of matches, row), ...]."""

    side_tables: ClassVar[tuple[str, str]]

    def new_side(self, one: JoinInput) -> JoinSide:
        """Return the rows of an input, none."""
        return JoinSide(one.columns, None)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._tables = tuple(map(self.backend.layered, self.side_tables))

    def open(self) -> None:
        super().open()
        self._sides = tuple(map(self.new_side, self._of_inputs))
        for side, table in zip(self._sides, self._tables, strict=True):
            side.load(table)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for side, table in zip(self._sides, self._tables, strict=True):
            side.write_back(table)
        return super().prepare_snapshot(checkpoint_id, savepoint)
