"""The forms in which functions of whole batches receive and return columns.

A batch that a function receives has the same values in each form, and columns of the same classes with or without
nulls. What it returns passes `fitted`, and is copied unless it is a column of the batch: the function may write to its
memory again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.fitted import fitted
from penstock.engine.runtime.columns.arrays import arrow_array, numpy_array, pandas_array
from penstock.engine.state.arrays.row_keys import Mask


class BatchFormat(ABC):
    """Converts a batch of Arrow to what a function receives, and what it returns to a batch."""

    @abstractmethod
    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        """Return the argument of the function."""

    @abstractmethod
    def to_arrow(self, result: Any, schema: pyarrow.Schema, given: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the result for the batch `given` as one of this schema.

        Raises TypeError or ValueError if it does not fit.
        """

    def check_order(self, result: Any, rows: int) -> None:
        """Raise ValueError if the result shows that its rows are not those of the batch, in order."""


class _Arrow(BatchFormat):
    """A pyarrow.RecordBatch; returned, or a pyarrow.Table."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        return batch

    def to_arrow(self, result: Any, schema: pyarrow.Schema, given: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        if not isinstance(result, (pyarrow.RecordBatch, pyarrow.Table)):
            raise _unexpected("a pyarrow.RecordBatch or Table", result)
        names = _checked(result.schema.names, schema)
        return _of_columns([arrow_array(result.column(name), schema.field(name)) for name in names], schema, given)


class _Pandas(BatchFormat):
    """A pandas.DataFrame: of nullable integers and booleans, and of columns of Arrow."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        return batch.to_pandas(types_mapper=_pandas_type)

    def to_arrow(self, result: Any, schema: pyarrow.Schema, given: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pandas

        if not isinstance(result, pandas.DataFrame):
            raise _unexpected("a pandas.DataFrame", result)
        names = _checked(list(result.columns), schema)
        return _of_columns([pandas_array(result[name], schema.field(name)) for name in names], schema, given)

    def check_order(self, result: Any, rows: int) -> None:
        _check_index(result, rows, "frame")


class _Numpy(BatchFormat):
    """A dict from the name of each column to a NumPy array: a masked one, if numbers or booleans have nulls."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        return {name: numpy_array(batch.column(name)) for name in batch.schema.names}

    def to_arrow(self, result: Any, schema: pyarrow.Schema, given: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        if not isinstance(result, Mapping):
            raise _unexpected("a dict of NumPy arrays", result)
        names = _checked(list(result), schema)
        return _of_columns([arrow_array(result[name], schema.field(name)) for name in names], schema, given)


class _Polars(BatchFormat):
    """A polars.DataFrame."""

    def of_arrow(self, batch: pyarrow.RecordBatch) -> Any:
        import polars

        return polars.from_arrow(batch)

    def to_arrow(self, result: Any, schema: pyarrow.Schema, given: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import polars

        if not isinstance(result, polars.DataFrame):
            raise _unexpected("a polars.DataFrame", result)
        return BATCH_FORMATS["arrow"].to_arrow(result.to_arrow(), schema, given)


_MASK = pyarrow.field("mask", pyarrow.bool_())


def as_mask(result: Any, rows: int) -> Mask:
    """Return a boolean for each row, of a function that filters: null is false.

    Accepts an Array of Arrow, an array of NumPy, and a Series of pandas or Polars. Raises TypeError for anything else.
    """
    if hasattr(result, "iloc"):
        _check_index(result, rows, "Series")
        column = pandas_array(result, _MASK)
    else:
        to_arrow = getattr(result, "to_arrow", None)
        column = arrow_array(result if to_arrow is None else to_arrow(), _MASK)
    if not (arrow.is_boolean(column.type) or arrow.is_null(column.type)):
        raise TypeError(f"expected an array of booleans from the function, got one of {column.type}")
    if len(column) != rows:
        raise ValueError(f"the function returned {len(column):,} booleans for {rows:,} rows")
    mask: Mask = fitted(column, _MASK).fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _pandas_type(kind: pyarrow.DataType) -> Any:
    """Return the dtype of a column of pandas, with or without nulls.

    Columns of Arrow hold all values of Arrow, and keep null and NaN apart, but have no `%`, which integers need.
    """
    import pandas

    if arrow.is_integer(kind):
        return pandas.api.types.pandas_dtype(str(kind).replace("uint", "UInt").replace("int", "Int"))
    return pandas.BooleanDtype() if arrow.is_boolean(kind) else pandas.ArrowDtype(kind)


def _check_index(result: Any, rows: int, what: str) -> None:
    """Raise ValueError if pandas has other rows, or another order, than the frame that the function has received."""
    if len(result) == rows and not numpy.array_equal(result.index, numpy.arange(rows)):
        raise ValueError(
            f"the index of the returned {what} is not 0 to {rows - 1:,}, as that of the frame that the function has "
            "received: return its rows in their order, for example by sort_index()"
        )


def _unexpected(expected: str, result: Any) -> TypeError:
    return TypeError(f"expected {expected} from the function, got {type(result).__name__}: {result!r:.200}")


def _checked(names: list[Any], schema: pyarrow.Schema) -> list[str]:
    """Return the names of the schema. Raises ValueError if the returned columns are not those of the schema."""
    if len(names) != len(schema.names) or set(names) != set(schema.names):
        raise ValueError(
            f"the function returned the columns {', '.join(map(str, names))}, but the type of its output has "
            f"{', '.join(schema.names)}: declare what it returns by output_type"
        )
    return list(schema.names)


def _of_columns(
    columns: list[pyarrow.Array], schema: pyarrow.Schema, given: pyarrow.RecordBatch
) -> pyarrow.RecordBatch:
    if len(set(map(len, columns))) > 1:
        lengths = ", ".join(f"{name} {len(column):,}" for name, column in zip(schema.names, columns, strict=True))
        raise ValueError(f"the function returned columns of different lengths: {lengths}")
    known = _addresses(given.columns)
    arrays = []
    for column, field in zip(columns, schema, strict=True):
        fitting = fitted(column, field)
        arrays.append(fitting if _addresses([fitting]) <= known else pyarrow.concat_arrays([fitting]))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _addresses(columns: Iterable[pyarrow.Array]) -> set[int]:
    """Return the addresses of the memory of columns."""
    return {buffer.address for column in columns for buffer in column.buffers() if buffer is not None and buffer.size}


BATCH_FORMATS: dict[str, BatchFormat] = {
    "arrow": _Arrow(), "pandas": _Pandas(), "numpy": _Numpy(), "polars": _Polars(),
}  # fmt: skip
