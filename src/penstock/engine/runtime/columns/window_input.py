"""The event times and keys of a chunk, as windows on columns read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.api.windows.assigner import no_timestamp
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns, Integers
from penstock.engine.runtime.columns.keys import RowKeys, row_keys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


def event_times(operator: Operator, chunk: Columns) -> Integers:
    """Return the timestamps (ms) of a chunk. Raises ProgramError for a row without a timestamp."""
    times = chunk.timestamps
    if times is None or int(times.min()) <= MIN_TIMESTAMP:
        raise ProgramError(f"operator '{operator.name}': {no_timestamp()}")
    return times


def keys_in(operator: Operator, chunk: Columns, key_fields: Sequence[str]) -> RowKeys:
    """Return the keys of the rows. Raises UserFunctionError for values that Python has no objects for."""
    try:
        return row_keys([chunk.batch.column(field) for field in key_fields])
    except RAISED as error:
        raise operator.context.user_error(error, "key selector") from error
