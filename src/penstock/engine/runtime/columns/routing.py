"""Where the rows of a chunk of columns go: subtasks by key, and the division of a chunk among channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.values.exact_floats import exact as exact_value
from penstock.engine.runtime.columns.accumulator import ColumnAccumulator
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.few_rows import FEW_ROWS, FewRows
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.runtime.columns.tuple_groups import groups_of_tuples
from penstock.engine.state.arrays.integer_groups import groups_of_integers
from penstock.engine.state.arrays.row_keys import BatchKeys, Integers, RowKeys
from penstock.engine.state.key_groups import KeyGroups, subtask_of

_FEW = 64
"""So few rows are faster one by one: at 20,000 records a second a chunk has 20."""


class KeyRoutes:
    """Finds the subtask of each row, by the fields that make its key: the subtask that has the key in rows.

    `exact`: whether floats are compared bit by bit, as in tables.
    """

    def __init__(self, fields: Sequence[str], key_groups: KeyGroups, parallelism: int, *, exact: bool = False) -> None:
        self._fields = fields
        self._exact = exact
        self._key_groups = key_groups
        groups = key_groups.max_parallelism
        self._subtasks: Integers = subtask_of(numpy.arange(groups), groups, parallelism)
        """The subtask of each key group."""
        self._few_schema: pyarrow.Schema | None = None
        """The schema of which the places are known: all chunks of an edge have the same object."""
        self._places: list[int] = []
        self._subtask_by_group: list[int] = self._subtasks.tolist()

    def divide(self, columns: Columns, channels: Sequence[ColumnAccumulator]) -> None:
        """Give each row to the channel of its subtask, in order. Raises KeyTypeError if a value can't be a key."""
        if isinstance(columns, FewRows) and len(columns) <= FEW_ROWS:
            self._divide_few(columns, channels)
        else:
            divide(columns, self.subtasks(columns.batch), channels)

    def _divide_few(self, columns: FewRows, channels: Sequence[ColumnAccumulator]) -> None:
        if columns.schema is not self._few_schema:
            self._few_schema = columns.schema
            self._places = list(map(columns.schema.get_field_index, self._fields))
        lists = columns.lists
        parts = [lists[place] for place in self._places]
        if self._exact:
            parts = [list(map(exact_value, part)) for part in parts]
        # Values of lists are keys as they are.
        keys = parts[0] if len(parts) == 1 else zip(*parts, strict=True)
        groups = map(self._key_groups.__getitem__, keys)
        receivers = list(map(self._subtask_by_group.__getitem__, groups))
        targets = set(receivers)
        if len(targets) == 1:
            channels[targets.pop()].extend(columns)
            return
        for target in targets:
            rows = [row for row, receiver in enumerate(receivers) if receiver == target]
            channels[target].extend(columns.selected(rows))

    def subtasks(self, batch: pyarrow.RecordBatch) -> Integers:
        """Return the subtask of each row. Raises KeyTypeError if a value can't be a key."""
        columns = [batch.column(field) for field in self._fields]
        if len(columns) > 1 and batch.num_rows > _FEW:
            groups = groups_of_tuples(columns, self._key_groups.max_parallelism, exact=self._exact)
        else:
            groups = self._groups_of(row_keys(columns, exact=self._exact))
        subtasks: Integers = self._subtasks[groups]
        return subtasks

    def _groups_of(self, keys: RowKeys) -> Integers:
        group_of = self._key_groups.__getitem__
        if isinstance(keys, BatchKeys):
            groups: Integers = numpy.fromiter(map(group_of, keys.keys), numpy.int64)[keys.codes]
            return groups
        if len(keys.values) > _FEW:
            return groups_of_integers(keys.values, self._key_groups.max_parallelism)
        return numpy.fromiter(map(group_of, keys.values.tolist()), numpy.int64)


def divide(columns: Columns, receivers: Integers, channels: Sequence[ColumnAccumulator]) -> None:
    """Give each row to the channel whose index `receivers` has, in order."""
    if len(channels) == 1:
        channels[0].extend(columns)
        return
    counts = numpy.bincount(receivers, minlength=len(channels)).tolist()
    if max(counts) == len(columns) > 0:
        channels[counts.index(len(columns))].extend(columns)
        return
    # Of integers of 16 bits NumPy sorts by radix, in a tenth of the time.
    ordered = columns.selected(receivers.astype(numpy.uint16).argsort(kind="stable"))
    start = 0
    for channel, count in zip(channels, counts, strict=True):
        if count:
            channel.extend(ordered.part(start, start + count))
            start += count


def divide_evenly(columns: Columns, channels: Sequence[ColumnAccumulator], first: int) -> None:
    """Give each channel as many rows, from the channel `first` on, as slices."""
    count, size = len(channels), len(columns)
    shares = min(count, size)
    for share in range(shares):
        part = columns.part(size * share // shares, size * (share + 1) // shares)
        channels[(first + share) % count].extend(part)


def as_integers(values: Any) -> Integers:
    """Return an iterator's integers as an array."""
    return numpy.fromiter(values, numpy.int64)
