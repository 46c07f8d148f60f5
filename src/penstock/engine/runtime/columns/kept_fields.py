"""The fields of records that a state of columns keeps, and their conversion from and to records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.exact_records import exact_fields
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import CheckpointError
from penstock.common.types import Row
from penstock.common.types.record_fields import fields_of


class KeptFields:
    """`names`: those of the `columns` of a stream that are kept."""

    def __init__(self, columns: RecordColumns, names: Sequence[str]) -> None:
        self._columns = columns
        self._kept = columns.only(names)
        self.names = tuple(names)

    def of_batch(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return what is kept of rows."""
        return batch.select(self.names)

    def reader(self) -> Callable[[pyarrow.RecordBatch], list[Any]]:
        """Return a function from what is kept to records with these fields: Rows, or dicts for a pyarrow.Schema."""
        return self._kept.reader()

    def of_records(self, records: Sequence[Any]) -> pyarrow.RecordBatch:
        """Return what is kept of restored records, which may have more fields.

        Raises CheckpointError if they lack a field, or have values of another type.
        """
        try:
            return self._kept.exact_batch(self._values(records))
        except (TypeError, ValueError) as error:
            raise CheckpointError(
                f"the state has records that do not fit the fields {', '.join(self.names)} of the stream: {error}. "
                "Select the fields that were selected when the state was written, with their types"
            ) from error

    def _values(self, records: Sequence[Any]) -> list[Sequence[Any]]:
        if not any(map(_is_positional, records)):
            return exact_fields(records, self.names, self._kept.record_type)
        places = [self._columns.names.index(name) for name in self.names]
        rows = [fields_of(record, self._columns.names) for record in records]
        return [[row[place] for row in rows] for place in places]


def _is_positional(record: Any) -> bool:
    """Return whether fields are known by their positions only, among all fields of the stream."""
    if isinstance(record, Row):
        return record._fields is None
    return isinstance(record, (tuple, list)) and not hasattr(record, "_fields")
