"""The forms in which functions of whole batches receive and return columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pyarrow

from penstock.engine.runtime.columns.chunk import Mask


class BatchFormat(ABC):
    """Converts a batch of Arrow to what a function receives, and what it returns to a batch."""

    @abstractmethod
    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        """Return the argument of the function."""

    @abstractmethod
    def to_arrow(self, result: Any, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        """Return the result as a batch of this schema. Raises TypeError or ValueError if it does not fit."""


class _Arrow(BatchFormat):
    """A pyarrow.RecordBatch; returned, or a pyarrow.Table."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        return batch

    def to_arrow(self, result: Any, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        if not isinstance(result, (pyarrow.RecordBatch, pyarrow.Table)):
            raise _unexpected("a pyarrow.RecordBatch or Table", result)
        return _of_columns({name: result.column(name) for name in _checked(result.schema.names, schema)}, schema)


class _Pandas(BatchFormat):
    """A pandas.DataFrame. A column of integers with nulls has floats, as in pandas."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        return batch.to_pandas()

    def to_arrow(self, result: Any, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        import pandas

        if not isinstance(result, pandas.DataFrame):
            raise _unexpected("a pandas.DataFrame", result)
        _checked([str(name) for name in result.columns], schema)
        return pyarrow.RecordBatch.from_pandas(result, schema=schema, preserve_index=False)


class _Numpy(BatchFormat):
    """A dict from the name of each column to a NumPy array, which can't be changed in place."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        return {name: batch.column(name).to_numpy(zero_copy_only=False) for name in batch.schema.names}

    def to_arrow(self, result: Any, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        if not isinstance(result, Mapping):
            raise _unexpected("a dict of NumPy arrays", result)
        return _of_columns({name: result[name] for name in _checked(list(result), schema)}, schema)


class _Polars(BatchFormat):
    """A polars.DataFrame."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        import polars

        return polars.from_arrow(batch)

    def to_arrow(self, result: Any, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
        import polars

        if not isinstance(result, polars.DataFrame):
            raise _unexpected("a polars.DataFrame", result)
        return _ARROW.to_arrow(result.to_arrow(), schema)


def as_mask(result: Any, rows: int) -> Mask:
    """Return a boolean for each row, of a function that filters: null is false.

    Accepts an Array of Arrow, an array of NumPy, and a Series of pandas or Polars. Raises TypeError for anything else.
    """
    to_arrow = getattr(result, "to_arrow", None)
    column = to_arrow() if to_arrow is not None else result
    if isinstance(column, pyarrow.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pyarrow.Array):
        if not hasattr(column, "__array__"):
            raise _unexpected("an array of booleans", result)
        column = pyarrow.array(column)
    if not pyarrow.types.is_boolean(column.type):
        raise TypeError(f"expected an array of booleans from the function, got one of {column.type}")
    if len(column) != rows:
        raise ValueError(f"the function returned {len(column):,} booleans for {rows:,} rows")
    mask: Mask = column.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _unexpected(expected: str, result: Any) -> TypeError:
    return TypeError(f"expected {expected} from the function, got {type(result).__name__}: {result!r:.200}")


def _checked(names: list[str], schema: pyarrow.Schema) -> list[str]:
    """Return the names of the schema. Raises ValueError if the returned columns are not those of the schema."""
    if sorted(names) != sorted(schema.names):
        raise ValueError(
            f"the function returned the columns {', '.join(names)}, but the type of its output has "
            f"{', '.join(schema.names)}: declare what it returns by output_type"
        )
    return list(schema.names)


def _of_columns(columns: Mapping[str, Any], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    arrays = []
    for field in schema:
        column = columns[field.name]
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.combine_chunks()
        if not isinstance(column, pyarrow.Array):
            column = pyarrow.array(column)
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except pyarrow.ArrowException as error:
            raise TypeError(f"column {field.name!r}: {column.type} can't become {field.type}: {error}") from error
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


_ARROW = _Arrow()
BATCH_FORMATS: dict[str, BatchFormat] = {
    "arrow": _ARROW, "pandas": _Pandas(), "numpy": _Numpy(), "polars": _Polars(),
}  # fmt: skip
