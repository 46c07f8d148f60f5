"""Numbers the records of each subtask, and tells their count at the end: the first of two steps of `zip_with_index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.api.output_tag import OutputTag
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

COUNTED = "(numbering) counts"
"""The state: (origin, count). An origin is the number of a sequence; a subtask adds to one, and may inherit others."""


class NumberingOperator(Operator):
    """Emits (origin, index, record). `counts` gets (origin, number of its records), at the end."""

    keeps_values = True

    def __init__(self, name: str, counts: OutputTag[tuple[int, int]]) -> None:
        super().__init__(name)
        self._counts = counts

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._inherited: list[tuple[int, int]] = []
        self._origin, self._count = context.info.subtask, 0

    def process(self, chunk: Rows) -> bool:
        origin, begin = self._origin, self._count
        self._count += len(chunk)
        numbered = [(origin, index, value) for index, value in enumerate(chunk.values, begin)]
        return self.output.emit(Rows(numbered, chunk.timestamps))

    def finish(self) -> bool:
        return self.output.emit_side(self._counts, Rows(self._own()))

    def _own(self) -> list[tuple[int, int]]:
        return [*self._inherited, (self._origin, self._count)]

    def lists(self) -> list[NamedList]:
        # A union, because a new subtask needs an origin that no other has.
        return [*super().lists(), NamedList(COUNTED, Redistribution.UNION, self._own())]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != COUNTED])
        restored = sorted({item for one in lists if one.name == COUNTED for item in one.items})
        if restored:
            subtask = self.context.info.subtask
            own = restored[subtask :: self.context.info.parallelism]
            unused = (restored[-1][0] + 1 + subtask, 0)
            (self._origin, self._count), *self._inherited = own or [unused]
