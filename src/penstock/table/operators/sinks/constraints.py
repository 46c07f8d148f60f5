"""Constraints of a table's columns, before rows are written: NOT NULL, and lengths of texts and bytes.

Source: Flink's ConstraintEnforcer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy
import pyarrow
from pyarrow import compute

from penstock.common.columns.to_values import python_values
from penstock.common.errors import ProgramError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.arrays.row_keys import Mask
from penstock.table.logical_types import LogicalType
from penstock.table.operators.sinks.nested_constraints import (
    ERROR,
    FIXED,
    IGNORE,
    TRIM_PAD,
    NestedConstraint,
    ViolationError,
    cut,
    is_limited,
    not_null,
    of_length,
)
from penstock.table.operators.table_columns import TableColumns


class Constraint(NamedTuple):
    """A column and its type. `nested`: what is checked in rows, arrays and maps, if the type is one of these."""

    column: str
    type: LogicalType
    nested: NestedConstraint | None = None


class ConstraintOperator(Operator):
    """Fails for rows that violate a constraint, which it names, or drops them, or makes their values fit.

    `drops`: whether rows with NULL where it is not allowed are dropped. `lengths`: IGNORE, ERROR or TRIM_PAD.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self, columns: TableColumns, constraints: Sequence[Constraint], *, drops: bool, lengths: str, table: str
    ) -> None:
        super().__init__("ConstraintEnforcer")
        self.columns_received = self.columns_given = columns
        self._constraints = tuple(constraints)
        self._drops = drops
        self._lengths = lengths
        self._table = table

    def process(self, chunk: Columns) -> bool:
        kept = numpy.ones(len(chunk), numpy.bool_)
        columns = {name: chunk.batch.column(name) for name in chunk.batch.schema.names}
        for name, kind, nested in self._constraints:
            column = columns[name]
            if not kind.nullable and column.null_count:
                kept &= self._not_null(chunk, column, name)
            if self._lengths != IGNORE and is_limited(kind):
                columns[name] = self._of_length(chunk, column, name, kind)
            if nested is not None:
                columns[name], valid = self._nested(chunk, column, nested)
                kept &= valid
        batch = pyarrow.RecordBatch.from_arrays(list(columns.values()), schema=chunk.batch.schema)
        chunk = chunk.with_batch(batch)
        if kept.all():
            return self.output.emit(chunk)
        return not kept.any() or self.output.emit(chunk.filtered(kept))

    def _not_null(self, chunk: Columns, column: Any, name: str) -> Mask:
        if not self._drops:
            raise self._violated(chunk, int(column.is_null().index(True).as_py()), not_null(name))
        valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
        return valid

    def _of_length(self, chunk: Columns, column: Any, name: str, kind: LogicalType) -> Any:
        """Return a column of texts or bytes whose lengths are allowed."""
        is_text, length, is_fixed = pyarrow.types.is_string(column.type), kind.length, kind.root in FIXED
        lengths = compute.utf8_length(column) if is_text else compute.binary_length(column)
        wrong = compute.not_equal(lengths, length) if is_fixed else compute.greater(lengths, length)
        if not compute.any(wrong, min_count=0).as_py():
            return column
        if self._lengths == ERROR:
            row = int(wrong.fill_null(False).index(True).as_py())
            raise self._violated(chunk, row, of_length(name, kind, int(lengths[row].as_py())))
        if is_text:
            fitted = compute.utf8_slice_codeunits(column, 0, length)
            return compute.utf8_rpad(fitted, length) if is_fixed else fitted
        values = [None if one is None else cut(one, kind) for one in column.to_pylist()]
        return pyarrow.array(values, column.type)

    def _nested(self, chunk: Columns, column: Any, nested: NestedConstraint) -> tuple[Any, Mask]:
        values = python_values(column)
        valid = numpy.ones(len(values), numpy.bool_)
        fitted: list[Any] = []
        for row, value in enumerate(values):
            try:
                fitted.append(nested.fitted(value))
            except ViolationError as violation:
                if not (violation.is_null and self._drops):
                    raise self._violated(chunk, row, str(violation)) from None
                valid[row] = False
                fitted.append(value)
        if self._lengths != TRIM_PAD:
            return column, valid
        return pyarrow.array(fitted, column.type), valid

    def _violated(self, chunk: Columns, row: int, what: str) -> ProgramError:
        shown = chunk.batch.slice(row, 1).to_pylist()[0]
        return ProgramError(f"{what} Table {self._table}, row {shown}")
