"""What all aggregate functions have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray


class RunRows(NamedTuple):
    """The rows of a chunk in the order of runs: those of a key, in their order, stand together.

    `values`: the arguments, in that order. `signs`: 1 for a row that is added, -1 for one that is retracted, 0 for one
    that does not count: FILTER is not true, or the argument is NULL.
    """

    runs: Runs
    values: Sequence[pyarrow.Array]
    signs: Integers


class Aggregate(ABC):
    """An aggregate of all keys. `arrays`: its state. `result_type`: Arrow's type of results.

    `partial_types`: the types of the columns that stand for what it has of a key, where that is sent or merged.
    """

    def __init__(
        self, result_type: pyarrow.DataType, arrays: Sequence[StateArray], partial_types: Sequence[pyarrow.DataType]
    ) -> None:
        self.result_type = result_type
        self.arrays = tuple(arrays)
        self.partial_types = tuple(partial_types)

    @abstractmethod
    def run(self, rows: RunRows) -> pyarrow.Array:
        """Add rows. Return the result of its key after each of them."""

    def add(self, rows: RunRows) -> None:
        """Add rows, where only what they come to is needed."""
        self.run(rows)

    @abstractmethod
    def results(self, slots: Integers) -> pyarrow.Array:
        """Return the results of these slots."""

    @abstractmethod
    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        """Return what it has at these slots, as columns."""

    @abstractmethod
    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        """Add partials: in the order of runs, several of a key perhaps."""

    def clear(self, slots: Integers) -> None:
        """Let these slots begin again."""
        for array in self.arrays:
            array.clear(slots)

    def make_room(self, slots: int) -> None:
        """Make room for so many slots, where no table does."""
        if slots > FIRST_ROOM:
            for array in self.arrays:
                array.grow(slots)


def numbers_of(column: pyarrow.Array, kind: type) -> numpy.ndarray:
    """Return a column of numbers as an array, with 0 for NULL."""
    if column.null_count:
        column = column.fill_null(0)
    numbers: numpy.ndarray = column.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return numbers


def with_nulls(values: numpy.ndarray, exist: numpy.ndarray, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return numbers as a column, NULL where there is none. Integers wrap, as in Java."""
    wanted = kind.to_pandas_dtype()
    if values.dtype != wanted:
        values = values.astype(wanted)
    return pyarrow.array(values, kind, mask=None if exist.all() else ~exist)
