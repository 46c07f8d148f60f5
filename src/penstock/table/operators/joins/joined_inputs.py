"""The two inputs that operators of joins have: their columns, their keys, and the condition over both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.two_inputs import OperatorInput, inputs_of
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.chunk import Columns
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


_CANDIDATES_MAX = 1 << 17
"""Pairs of equal keys that are found at once, which takes some milliseconds. A single row may have more."""
_BYTES_MAX = 1 << 26
"""So much memory a piece's pairs take, about."""
_FEW = 4096
"""The size of so few pairs is not looked at."""


def pieces_of(candidates: Integers, pair_bytes: int = 0) -> Iterator[slice]:
    """Yield pieces of a chunk, all rows in order, of a bounded number of candidates. `candidates`: those of each row.

    Many rows of a key with many partners would need more memory than there is if they were paired at once.
    """
    most = max(1, min(_CANDIDATES_MAX, _BYTES_MAX // max(1, pair_bytes)))
    sums = numpy.cumsum(candidates)
    start, done = 0, 0
    while start < len(sums):
        stop = max(start + 1, int(numpy.searchsorted(sums, done + most, side="right")))
        yield slice(start, stop)
        start, done = stop, int(sums[stop - 1])


class JoinInput(NamedTuple):
    """An input: its columns, those of the key, those of a unique key if there is one.

    `null_matches`: for each column of the key whether NULL equals NULL. `ttl_ms`: how long rows are kept after they
    were written; None: for ever.
    """

    columns: TableColumns
    keys: tuple[str, ...]
    null_matches: tuple[bool, ...]
    unique: tuple[str, ...] | None
    ttl_ms: int | None = None

    def can_match(self, batch: pyarrow.RecordBatch) -> Mask:
        """Return which rows can have equal keys: NULL equals nothing, where it does not match NULL."""
        found: Mask = numpy.ones(batch.num_rows, numpy.bool_)
        for name, matches in zip(self.keys, self.null_matches, strict=True):
            column = batch.column(name)
            if column.null_count and not matches:
                found &= column.is_valid().to_numpy(zero_copy_only=False)
        return found


class JoinedInputs(GatheringOperator):
    """Mixin of joins, before the class that says when rows are joined. Subclasses call `join_inputs`."""

    def join_inputs(
        self, inputs: tuple[JoinInput, JoinInput], condition: RowExpressions | None, given: TableColumns
    ) -> None:
        """Set the inputs, the condition over the columns of both, and the columns of the result."""
        self._second_selector = selector_of(inputs[1].keys)
        self._of_inputs = inputs
        self._condition = condition
        self.columns_given = self._given = given

    def key_selectors(self) -> tuple[Any, ...]:
        return self.key_selector, self._second_selector

    def columns_received_by(self, index: int) -> TableColumns:
        return self._of_inputs[index].columns

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._inputs = inputs_of(self, self.process, self.process_second)

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def open(self) -> None:
        super().open()
        open_all(self.context, self._condition)

    def close(self) -> None:
        close_all(self._condition)
        super().close()

    def in_order(self, index: int, own: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """Return columns of an input and of the other one in the order of the inputs."""
        return [*own, *others] if index == 0 else [*others, *own]

    def holds(self, columns: Sequence[Any], pairs: int) -> Mask:
        """Return which pairs satisfy the condition. `columns`: those of both inputs, in their order."""
        if self._condition is None:
            return numpy.ones(pairs, numpy.bool_)
        mask = self._condition.mask(columns, pairs, now_ms=self.context.now_ms(), watermark_ms=None)
        found: Mask = numpy.ones(pairs, numpy.bool_) if mask is None else mask.to_numpy(zero_copy_only=False)
        return found

    def process(self, chunk: Columns) -> bool:
        return self.process_input(chunk, 0)

    def pieces(self, batch: pyarrow.RecordBatch, other: JoinSide, slots: Integers) -> Iterator[slice]:
        """Yield pieces of a chunk's rows whose keys have these slots in the other side: see `pieces_of`."""
        candidates, pair_bytes = other.candidates(slots), 0
        if int(candidates.sum()) > _FEW:
            pair_bytes = other.row_bytes + int(batch.nbytes) // batch.num_rows
        return pieces_of(candidates, pair_bytes)

    def process_second(self, chunk: Columns) -> bool:
        """Process a chunk of the second input."""
        return self.process_input(chunk, 1)

    def process_input(self, chunk: Columns, index: int) -> bool:
        """Process a chunk of an input. Returns the same as `process`."""
        raise NotImplementedError
