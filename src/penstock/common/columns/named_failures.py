"""Convert records to columns, and say of which record an error is: columns are converted as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED

if TYPE_CHECKING:
    import pyarrow

    from penstock.common.columns.record_columns import RecordColumns


def named_batch(
    columns: RecordColumns, records: Sequence[Any], error_of: Callable[[int, str], Exception]
) -> pyarrow.RecordBatch:
    """Return records as columns. Raise what `error_of` returns for the first record that does not fit.

    `error_of`: called with the position of the record, and a text that says what is wrong with it.
    """
    try:
        return columns.batch_of(records)
    except NOT_OF_A_VALUE:
        raise
    except RAISED:
        for position, record in enumerate(records):
            try:
                columns.batch_of([record])
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                raise error_of(position, f"cannot convert {record!r:.200} to columns: {error}") from error
        raise
