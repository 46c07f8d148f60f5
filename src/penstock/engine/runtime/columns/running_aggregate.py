"""Running aggregates on columns: all records of a chunk at once, with the state and the results of those on rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.aggregate_results import ResultRows
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError, array_type
from penstock.engine.runtime.columns.aggregated_fields import (
    batch_of,
    columns_of_fields,
    fields_of_aggregates,
    values_by_row,
)
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import keys_in
from penstock.engine.runtime.columns.keys import RowKeys
from penstock.engine.runtime.operators.running_aggregate import RunningAggregateOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext

_KEYS_MAX = 1 << 17
"""The most keys in arrays where the table is larger than memory."""


class ColumnRunningAggregateOperator(RunningAggregateOperator):
    """`columns`: those of the records; `given`: those it emits, of which the first are the fields of the key."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        function: FieldAggregates,
        results: ResultRows,
        *,
        key_fields: tuple[str, ...],
        columns: RecordColumns,
        given: RecordColumns,
    ) -> None:
        super().__init__(name, key_selector, function, results)
        self._key_fields = key_fields
        self.columns_received = columns
        self._given = self.columns_given = given

    def columns_read(self) -> tuple[str, ...]:
        assert self.columns_received is not None
        return columns_of_fields(self.columns_received, self._key_fields, self.function.aggregates)

    def on_rows(self) -> Operator:
        return RunningAggregateOperator(self.name, self.key_selector, self.function, self._result_rows)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        assert self.columns_received is not None
        schema = self.columns_received.schema
        self._types = [
            None if one.field is None else array_type(schema.field(one.field).type) for one in self.function.aggregates
        ]

    def open(self) -> None:
        super().open()
        self._arrays = self._new_arrays()

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        keys = keys_in(self, chunk, self._key_fields)
        fields = fields_of_aggregates(self.function.aggregates, chunk.batch)
        try:
            results = self._arrays.add_running(keys, fields)
        except TooLargeError:
            self._write_back()
            results_of_rows = self._process_by_rows(keys, fields)
            # Only now: they read the table if it has anything.
            self._arrays = self._new_arrays()
            return self.output.emit(Columns(self._given.batch_of(results_of_rows), chunk.timestamps))
        if self.table.is_larger_than_memory and len(self._arrays) > _KEYS_MAX:
            self._write_back()
            self._arrays = self._new_arrays()
        of_key = [chunk.batch.column(field) for field in self._key_fields]
        return self.output.emit(Columns(batch_of([*of_key, *results], self._given.schema), chunk.timestamps))

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _new_arrays(self) -> KeyedArrays:
        return KeyedArrays(self.function.aggregates, self._types, self.table.get if self.table else None)

    def _write_back(self) -> None:
        """Write what has changed in the arrays to the table."""
        self.table.current.update(self._arrays.take_changes())

    def _process_by_rows(self, keys: RowKeys, fields: list[Any]) -> list[Any]:
        """Add records by Python, whose integers have no end. Return the results."""
        of_rows = keys.to_list()
        results = []
        for key, values in zip(of_rows, values_by_row(fields, len(of_rows)), strict=True):
            accumulator = self.function.add_values(values, self.accumulator_of(key))
            try:
                results.append(self.result_of(key, accumulator))
            except RAISED as error:
                raise self.context.user_error(error, "aggregate", key=key) from error
            self.table.put(key, accumulator)
        return results
