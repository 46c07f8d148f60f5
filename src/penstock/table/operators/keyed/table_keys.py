"""The keys of rows of tables, which are compared bit by bit. Without columns of a key, all rows have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.functions.field_key import FieldKey
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keys import row_keys, tuple_keys
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.arrays.row_keys import IntegerKeys, Integers, RowKeys, TupleKeys


def selector_of(keys: Sequence[str]) -> Callable[[Any], Any]:
    """Return the key selector of these columns."""
    return FieldKey(tuple(keys), exact=True) if keys else _NoKey()


def keys_of_chunk(operator: Operator, chunk: Columns, keys: Sequence[str]) -> RowKeys:
    """Return the key of each row. Raises UserFunctionError for values that Python has no objects for."""
    try:
        return keys_of_batch(chunk.batch, keys)
    except RAISED as error:
        raise operator.context.user_error(error, "key selector") from error


def tuples_of_chunk(operator: Operator, chunk: Columns, keys: Sequence[str]) -> RowKeys | TupleKeys:
    """Return the same as `keys_of_chunk`; keys of several columns part by part."""
    if not keys[1:]:
        return keys_of_chunk(operator, chunk, keys)
    try:
        return tuple_keys([chunk.batch.column(name) for name in keys])
    except RAISED as error:
        raise operator.context.user_error(error, "key selector") from error


def keys_of_batch(batch: pyarrow.RecordBatch, keys: Sequence[str]) -> RowKeys:
    """Return the key of each row."""
    return row_keys([batch.column(name) for name in keys], exact=True) if keys else _one_key(batch.num_rows)


def columns_of_keys(keys: Integers | list[Any], kinds: Sequence[pyarrow.DataType]) -> list[pyarrow.Array]:
    """Return the fields of keys as columns of these types."""
    if not kinds:
        return []
    if len(kinds) > 1:
        if not len(keys):
            return [pyarrow.array([], kind) for kind in kinds]
        return [pyarrow.array(of, kind) for of, kind in zip(zip(*keys, strict=True), kinds, strict=True)]
    if isinstance(keys, list):
        return [pyarrow.array(keys, kinds[0])]
    return [pyarrow.array(keys).cast(kinds[0])]


class _NoKey:
    """The key of rows that all belong together."""

    def __call__(self, record: Any) -> int:
        return 0


def _one_key(rows: int) -> RowKeys:
    return IntegerKeys(numpy.zeros(rows, numpy.int64))
