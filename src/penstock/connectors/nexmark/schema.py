"""The columns of the events, as Nexmark's table has them."""

from __future__ import annotations

from typing import Any

import pyarrow

from penstock.common.typeinfo import RowTypeInfo, Types

EVENT_TYPE, EVENT_TIME = "event_type", "dateTime"
_LONG, _STRING, _TIME = Types.LONG(), Types.STRING(), Types.SQL_TIMESTAMP()
PERSON_TYPE = Types.ROW_NAMED(
    ["id", "name", "emailAddress", "creditCard", "city", "state", "dateTime", "extra"],
    [_LONG, _STRING, _STRING, _STRING, _STRING, _STRING, _TIME, _STRING],
)
AUCTION_TYPE = Types.ROW_NAMED(
    [
        *("id", "itemName", "description", "initialBid", "reserve"),
        *("dateTime", "expires", "seller", "category", "extra"),
    ],
    [_LONG, _STRING, _STRING, _LONG, _LONG, _TIME, _TIME, _LONG, _LONG, _STRING],
)
BID_TYPE = Types.ROW_NAMED(
    ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"],
    [_LONG, _LONG, _LONG, _STRING, _STRING, _TIME, _STRING],
)
EVENT_ROW: RowTypeInfo = Types.ROW_NAMED(
    [EVENT_TYPE, "person", "auction", "bid", EVENT_TIME], [Types.INT(), PERSON_TYPE, AUCTION_TYPE, BID_TYPE, _TIME]
)
"""The type of an event: two of its three rows are None."""


def event_schema() -> pyarrow.Schema:
    """Return the columns of an event. Times have microseconds, as those of all declared types."""
    kind: Any = EVENT_ROW.to_arrow()
    return pyarrow.schema(list(kind))


def unknown_column(schema: pyarrow.Schema) -> str | None:
    """Return the first column that events do not have with this type, or None. Times may have any unit but seconds.

    A struct may have some of the fields, in any order.
    """
    known = {field.name: field.type for field in event_schema()}
    return next((field.name for field in schema if not _is_of(field.type, known.get(field.name))), None)


def _is_of(wanted: pyarrow.DataType, known: pyarrow.DataType | None) -> bool:
    if known is None:
        return False
    if pyarrow.types.is_struct(known) and pyarrow.types.is_struct(wanted):
        fields = {field.name: field.type for field in known}
        names = [field.name for field in wanted]
        is_set = 0 < len(names) == len(set(names))
        return is_set and all(_is_of(field.type, fields.get(field.name)) for field in wanted)
    if pyarrow.types.is_timestamp(known) and pyarrow.types.is_timestamp(wanted):
        return wanted.tz is None and wanted.unit != "s"
    return bool(wanted == known)
