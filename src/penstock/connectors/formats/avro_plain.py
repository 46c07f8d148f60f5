"""Schemas of Avro whose values become columns, and are made of them, without a loop over values.

These are records, on all levels, of single values and of unions of null and one other type.
"""

from __future__ import annotations

import datetime
from typing import Any

from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.formats.avro_bytes import UnusualError
from penstock.connectors.formats.avro_defaults import named_types

FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""Sizes of types whose values are all of one length."""
_SINGLE = (*FIXED_BYTES, "int", "long", "string", "bytes", "enum", "fixed")

_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)
MICROSECONDS = ((datetime.datetime.min - _EPOCH) // _MICROSECOND, (datetime.datetime.max - _EPOCH) // _MICROSECOND)
DAYS = (datetime.date.min - _EPOCH.date()).days, (datetime.date.max - _EPOCH.date()).days
"""Bounds of Python's times and dates, as numbers since the epoch."""


class PlainTypes:
    """The types of a record. `record`: as fastavro parses it. Raise ValueError for one that is not plain."""

    def __init__(self, record: Any) -> None:
        self.record = record
        self._named = named_types(record)
        if not isinstance(record, dict) or record["type"] != "record":
            raise ValueError(f"expected a record, got {record!r:.200}")
        self._check(record, ())

    def definition(self, schema: Any) -> tuple[Any, str]:
        """Return the definition of a type that is not a union, and its name without an attribute."""
        found = self._named.get(schema, schema) if isinstance(schema, str) else schema
        return found, found["type"] if isinstance(found, dict) else found

    @staticmethod
    def value_branch(union: list[Any]) -> Any:
        """Return the branch that is not null."""
        return union[0] if union[1] == "null" else union[1]

    def _check(self, schema: Any, around: tuple[str, ...]) -> None:
        """`around`: the records in which it is. One that contains itself is not plain."""
        if isinstance(schema, list):
            if len(schema) != 2 or schema.count("null") != 1:
                raise ValueError(f"expected a union of null and one other type, got {schema!r:.200}")
            self._check(self.value_branch(schema), around)
            return
        definition, base = self.definition(schema)
        if base == "record" and definition["name"] not in around:
            for field in definition["fields"]:
                self._check(field["type"], (*around, definition["name"]))
        elif base not in _SINGLE:
            raise ValueError(f"expected a single value or a record, got {schema!r:.200}")


def keeps_values(columns: RecordColumns) -> bool:
    """Return whether the columns' type converts no value, but dates and times without a zone, whose values stay."""
    return columns.row_type is None or all(
        convert is None or (arrow.is_temporal(field.type) and getattr(field.type, "tz", None) is None)
        for convert, field in zip(columns.converters, columns.schema, strict=True)
    )


def check_bounds(values: Any, bounds: tuple[int, int]) -> None:
    """Raise UnusualError if one of the numbers is out of bounds."""
    if len(values) and not bounds[0] <= values.min() <= values.max() <= bounds[1]:
        raise UnusualError
