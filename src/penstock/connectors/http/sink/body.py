"""What a request carries of records."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from penstock.connectors.formats.json_values import JsonSerializationSchema

_JSON = JsonSerializationSchema()


class HttpBody(enum.Enum):
    """The form of a request's body."""

    JSON_ARRAY = "array"
    """All records of a batch, in an array."""
    JSON_LINES = "lines"
    """All records of a batch, one on each line."""
    JSON_RECORD = "record"
    """One record, by itself: each is a request."""

    @property
    def content_type(self) -> str:
        """The header of that name."""
        return "application/x-ndjson" if self is HttpBody.JSON_LINES else "application/json"

    def encode(self, records: Sequence[Any]) -> bytes:
        """A batch. Raises TypeError for a value that JSON does not have."""
        if self is HttpBody.JSON_ARRAY:
            return _JSON.serialize(list(records))
        return b"\n".join(map(_JSON.serialize, records)) + b"\n" * (self is HttpBody.JSON_LINES)
