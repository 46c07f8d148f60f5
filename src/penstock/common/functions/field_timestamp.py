"""Event time from a field of the records, such as `with_timestamp_assigner("departure")`."""

from __future__ import annotations

import datetime
from typing import Any

from penstock.common.functions.field_key import FieldKey

_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class FieldTimestamp:
    """A timestamp assigner that returns a field of a record: an int (ms), or a datetime, without a zone as UTC.

    Unlike a callable, it tells which field has the time, so it works on columns, too.
    """

    def __init__(self, field: str) -> None:
        self.field = field
        self._get = FieldKey((field,))

    def __call__(self, record: Any, record_timestamp: int = 0) -> Any:
        """Return the timestamp of a record (ms). Another value is returned as it is, for the error."""
        value = self._get(record)
        if isinstance(value, datetime.datetime):
            return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MILLISECOND
        return value

    def __repr__(self) -> str:
        return f"FieldTimestamp({self.field!r})"
