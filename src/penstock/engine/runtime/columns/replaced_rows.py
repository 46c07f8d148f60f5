"""The changelog of rows that replace each other by key, for a whole chunk: UPDATE_BEFORE, UPDATE_AFTER, INSERT."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pyarrow
from pyarrow import compute

from penstock.common.types import RowKind
from penstock.common.values.exact_floats import exact
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_values import Slots
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask

_INSERT, _BEFORE, _AFTER = (kind.value for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER))


def changelog(
    chunk: Columns,
    of_rows: Slots,
    runs: Runs,
    old_rows: Callable[[Integers], pyarrow.RecordBatch],
    *,
    update_before: bool,
    skip_equal: bool,
) -> Columns:
    """Return what rows change, each of which replaces the row of its key.

    `old_rows`: returns the rows of slots before the chunk. `update_before`: whether rows that are replaced are emitted.
    `skip_equal`: whether a row that equals the one that it replaces changes nothing.
    """
    count = len(chunk)
    firsts = runs.order[runs.starts]
    replace = of_rows.have_values[firsts]
    if not (update_before or skip_equal):
        # The rows that are replaced are not needed, and to take them costs most.
        of_chunk = numpy.full(count, _AFTER, numpy.uint8)
        of_chunk[firsts[~replace]] = _INSERT
        return Columns(chunk.batch, chunk.timestamps, of_chunk if of_chunk.any() else None)
    old = old_rows(runs.slots[replace])
    both = pyarrow.concat_batches([chunk.batch, old]) if len(old) else chunk.batch
    previous = numpy.empty(count, numpy.int64)
    previous[runs.order[1:]] = runs.order[:-1]
    previous[firsts] = -1
    previous[firsts[replace]] = count + numpy.arange(len(old))
    has_previous = previous >= 0
    changes = numpy.ones(count, numpy.bool_)
    if skip_equal and has_previous.any():
        now = chunk.batch.filter(pyarrow.array(has_previous))
        changes[has_previous] = ~equal_rows(now, both.take(pyarrow.array(previous[has_previous])))
    rows = numpy.stack([previous, numpy.arange(count)], axis=1)
    kinds = numpy.empty((count, 2), numpy.uint8)
    kinds[:, 0], kinds[:, 1] = _BEFORE, numpy.where(has_previous, _AFTER, _INSERT)
    wanted = numpy.stack([has_previous & changes & update_before, changes], axis=1)
    times = None if chunk.timestamps is None else numpy.repeat(chunk.timestamps, wanted.sum(axis=1))
    found = kinds[wanted]
    batch = both.take(pyarrow.array(rows[wanted]))
    return Columns(batch, times, found if found.any() else None)


def equal_rows(one: pyarrow.RecordBatch, other: pyarrow.RecordBatch) -> Mask:
    """Return for each row whether two batches have the same values there. NaN differs from NaN, as in Flink.

    0.0 differs from -0.0, as it does for operators that look for a row that is taken back.
    """
    equal = numpy.ones(one.num_rows, numpy.bool_)
    for first, second in zip(one.columns, other.columns, strict=True):
        if pyarrow.types.is_nested(first.type) or pyarrow.types.is_dictionary(first.type):
            same = [a == b and exact(a) == exact(b) for a, b in zip(first.to_pylist(), second.to_pylist(), strict=True)]
            equal &= numpy.array(same, numpy.bool_)
            continue
        both_null = compute.and_(first.is_null(), second.is_null())
        found = compute.or_(compute.equal(first, second).fill_null(False), both_null).to_numpy(zero_copy_only=False)
        if pyarrow.types.is_floating(first.type):
            found &= numpy.signbit(_floats(first)) == numpy.signbit(_floats(second))
        equal &= found
    return equal


def _floats(column: pyarrow.Array) -> numpy.ndarray:
    floats: numpy.ndarray = column.fill_null(0).to_numpy(zero_copy_only=False)
    return floats
