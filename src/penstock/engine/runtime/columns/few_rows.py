"""Chunks of few rows as lists of values: a call of Arrow or NumPy costs microseconds, however few values it gets.

At 20,000 records a second and a buffer timeout of a millisecond a buffer has some five rows. To take them out of a
batch, and to make one of them again, costs more than what is computed of them. So such chunks cross an exchange as
lists, and operators that know lists read no batch at all. All others read `batch`, which is made when it is first read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.common.columns.to_values import is_plain
from penstock.engine.runtime.columns.chunk import Columns, Kinds, joined
from penstock.engine.state.arrays.row_keys import Integers, Mask

FEW_ROWS = 32
"""Chunks of so many rows are divided, sent and aggregated as lists."""

Lists = list[list[Any]]
"""The values of each column: int, float, bool, str, and None."""


class FewRows(Columns):
    """Columns as lists. `schema`: of types that are all `is_plain`."""

    __slots__ = ("_batch", "_schema", "lists")
    light_bytes: ClassVar[int] = 150
    """A message of Arrow has so many bytes around its values. Limits in bytes are of both: by those of lists alone, a
    slow task would get several times as many rows in small buffers as in large ones."""

    def __init__(
        self, schema: pyarrow.Schema, lists: Lists, timestamps: Integers | None = None, kinds: Kinds | None = None
    ) -> None:
        self._batch: pyarrow.RecordBatch | None = None
        self.lists = lists
        self._schema = schema
        self.timestamps = timestamps
        self.kinds = kinds

    @property
    def batch(self) -> pyarrow.RecordBatch:
        """The columns of Arrow."""
        if self._batch is None:
            arrays = list(map(_array, self.lists, self.schema.types))
            self._batch = pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)
        return self._batch

    @property
    def schema(self) -> pyarrow.Schema:
        return self._schema

    def __len__(self) -> int:
        return len(self.lists[0])

    def list_of(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return self.lists[self.schema.get_field_index(name)]

    def times_of(self, name: str) -> Integers:
        """Return the values of a column of integers, as event times (ms)."""
        return numpy.array(self.list_of(name), numpy.int64)

    def only(self, schema: pyarrow.Schema) -> FewRows:
        return FewRows(schema, list(map(self.list_of, schema.names)), self.timestamps, self.kinds)

    def untimed(self) -> FewRows:
        return FewRows(self._schema, self.lists, None, self.kinds)

    def part(self, start: int, stop: int | None = None) -> FewRows:
        index = slice(start, stop)
        return self._with_lists(index, [values[index] for values in self.lists])

    def selected(self, indexes: Integers | Sequence[int]) -> FewRows:
        rows = indexes.tolist() if isinstance(indexes, numpy.ndarray) else indexes
        lists = [list(map(values.__getitem__, rows)) for values in self.lists]
        if self.timestamps is None and self.kinds is None:
            return FewRows(self._schema, lists)
        return self._with_lists(rows, lists)

    def filtered(self, mask: Mask) -> FewRows:
        return self.selected(mask.nonzero()[0])

    def _with_lists(self, index: Any, lists: Lists) -> FewRows:
        times, kinds = self.timestamps, self.kinds
        return FewRows(
            self.schema, lists, None if times is None else times[index], None if kinds is None else kinds[index]
        )


def reader_of_few(schema: pyarrow.Schema) -> Callable[[Columns], FewRows | None] | None:
    """Return a function from a chunk of few rows to lists of these columns; None if lists cannot have their values.

    It returns None for texts that are not UTF-8. The chunk has these columns in this order, perhaps among others.
    """
    if not all(map(is_plain, schema.types)):
        return None
    names = schema.names
    # By position: pyarrow finds a name in four times as much time.
    places = range(len(names))

    def few(chunk: Columns) -> FewRows | None:
        if isinstance(chunk, FewRows):
            lists = chunk.lists if len(chunk.lists) == len(names) else list(map(chunk.list_of, names))
        else:
            batch = chunk.batch
            columns = map(batch.column, places if batch.num_columns == len(names) else names)
            try:
                # Of few values faster than by NumPy.
                lists = [column.to_pylist() for column in columns]
            except UnicodeDecodeError:
                return None
        return FewRows(schema, lists, chunk.timestamps, chunk.kinds)

    return few


def joined_parts(parts: Sequence[Columns]) -> Columns:
    """Return chunks of one schema as one. All have timestamps, or none has."""
    if len(parts) == 1:
        return parts[0]
    few = [part.lists for part in parts if isinstance(part, FewRows) and part.kinds is None]
    if len(few) < len(parts):
        return joined(parts)
    times = [part.timestamps for part in parts if part.timestamps is not None]
    lists = [list(chain.from_iterable(column)) for column in zip(*few, strict=True)]
    return FewRows(parts[0].schema, lists, numpy.concatenate(times) if times else None)


def _array(values: list[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    if pyarrow.types.is_int64(kind) and None not in values:
        # In half of the time.
        return pyarrow.array(numpy.array(values, numpy.int64))
    return pyarrow.array(values, kind)
