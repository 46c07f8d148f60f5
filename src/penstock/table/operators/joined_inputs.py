"""The two inputs that operators of joins have: their columns, their keys, and the condition over both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.two_inputs import OperatorInput, inputs_of
from penstock.engine.state.arrays.row_keys import Mask
from penstock.table.operators.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.table_keys import selector_of

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.chunk import Columns
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


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


class JoinedInputs(KeyedOperator):
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
        if self._condition is not None:
            self._condition.open(self.context)

    def process(self, chunk: Columns) -> bool:
        return self.process_input(chunk, 0)

    def process_second(self, chunk: Columns) -> bool:
        """Process a chunk of the second input."""
        return self.process_input(chunk, 1)

    def process_input(self, chunk: Columns, index: int) -> bool:
        """Process a chunk of an input. Returns the same as `process`."""
        raise NotImplementedError
