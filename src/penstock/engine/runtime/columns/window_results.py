"""Results of windows that have fired, made of arrays: no result becomes a Python object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.aggregate_results import too_large_sum
from penstock.common.functions.field_aggregates import WINDOW_END, WINDOW_START, FieldAggregates
from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.aggregated_fields import batch_of
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext


class WindowResults:
    """Makes the results of windows of `size_ms`, and holds them until they are emitted.

    `columns`: those of results, of which the first `keys` are the fields of the key.
    """

    def __init__(
        self, function: FieldAggregates, columns: RecordColumns, *, keys: int, size_ms: int, context: OperatorContext
    ) -> None:
        self._function = function
        self._schema = columns.schema
        self._keys = keys
        self._size = size_ms
        self._context = context
        self._held: list[Columns] = []
        self._rows = 0

    def __len__(self) -> int:
        """Return how many results are held."""
        return self._rows

    def hold(self, results: Columns) -> None:
        """Hold results until the next `take`."""
        self._held.append(results)
        self._rows += len(results)

    @property
    def is_full(self) -> bool:
        """Whether results have to be emitted before there are more."""
        return self._rows >= COLUMN_RECORDS_MAX

    def take(self) -> Columns:
        """Return all results that are held, and hold them no longer."""
        held, self._held, self._rows = self._held, [], 0
        return joined(held)

    def of_arrays(self, window: int, arrays: KeyedArrays, timestamp: int) -> pyarrow.RecordBatch:
        """Return the results of all keys of a window. Raises UserFunctionError."""
        try:
            found = arrays.results()
        except MethodError as error:
            raise self._context.user_error(error, "aggregate", timestamp=timestamp) from error
        except TooLargeError as error:
            (key,) = arrays.table.keys.keys(slice(error.row, error.row + 1))
            self.raise_too_large(error, key, timestamp)
        kinds = [self._schema.field(index).type for index in range(self._keys)]
        return self.batch(window, arrays.key_columns(kinds), found)

    def batch(self, window: int, key_columns: list[pyarrow.Array], found: list[pyarrow.Array]) -> pyarrow.RecordBatch:
        """Return results of a window: the fields of keys, the columns of aggregates, and the bounds of the window."""
        columns, of_aggregates = key_columns, iter(found)
        bounds = {WINDOW_START: window, WINDOW_END: window + self._size}
        for one in self._function.declared:
            bound = numpy.full(len(key_columns[0]), bounds[one.kind], numpy.int64) if one.of_window else None
            columns.append(next(of_aggregates) if bound is None else pyarrow.array(bound))
        return batch_of(columns, self._schema)

    def raise_too_large(self, error: TooLargeError, key: Any, timestamp: int) -> NoReturn:
        """Raise UserFunctionError for a sum that its type cannot hold."""
        sum_error = too_large_sum(self._function.aggregates[error.index].name, error.total)
        raise self._context.user_error(sum_error, "aggregate", key=key, timestamp=timestamp) from sum_error
