"""The event times and keys of a chunk, as operators on columns read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow

from penstock.api.windows.assigner import no_timestamp
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.field_key import is_exact
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.runtime.operators.deduplicate import not_an_insert
from penstock.engine.state.arrays.row_keys import Integers, RowKeys

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.operators.operator import Operator

_PLAIN = (pyarrow.types.is_integer, pyarrow.types.is_string, pyarrow.types.is_boolean, pyarrow.types.is_binary)
"""Types of keys that Arrow makes of Python's values as they were."""


def event_times(operator: Operator, chunk: Columns) -> Integers:
    """Return the timestamps (ms) of a chunk. Raises ProgramError for a row without a timestamp."""
    times = chunk.timestamps
    if times is None or int(times.min()) <= MIN_TIMESTAMP:
        raise ProgramError(f"operator '{operator.name}': {no_timestamp()}")
    return times


def keys_in(operator: Operator, chunk: Columns, key_fields: Sequence[str]) -> RowKeys:
    """Return the keys of the rows. Raises UserFunctionError for values that Python has no objects for."""
    try:
        columns = [chunk.batch.column(field) for field in key_fields]
        return row_keys(columns, exact=is_exact(getattr(operator, "key_selector", None)))
    except RAISED as error:
        raise operator.context.user_error(error, "key selector") from error


def check_inserts(operator: Operator, chunk: Columns, method: str) -> None:
    """Raise UserFunctionError, in `method`, for a row that is not an INSERT."""
    if chunk.kinds is not None and chunk.kinds.any():
        error = not_an_insert(RowKind(int(chunk.kinds[chunk.kinds > 0][0])))
        raise operator.context.user_error(error, method) from error


def keys_stay(columns: RecordColumns, results: RecordColumns, key_fields: Sequence[str]) -> bool:
    """Return whether the columns of the key, which are the first of the results, are the same there."""
    kinds = [results.schema.field(index).type for index in range(len(key_fields))]
    return all(
        kind == columns.schema.field(field).type and any(is_kind(kind) for is_kind in _PLAIN)
        for kind, field in zip(kinds, key_fields, strict=True)
    )
