"""Read values of SQLite as they are stored. SQLAlchemy's types round numerics, and read any value as a boolean.

SQLite has a type for each value, not for each column: a column declared NUMERIC may contain integers, floats, texts and
bytes. Source: SQLite docs, "Datatypes In SQLite".
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.connectors.formats.conversion import date_of, datetime_of, time_of
from penstock.connectors.sql.database import sqlalchemy
from penstock.connectors.sql.sqlite_numbers import decimal_of, stored_number

Read = Callable[[Any], Any]
"""Converts a value of the driver other than None. Raises ValueError if it does not fit its column's type."""

_FINE = re.compile(r"[.,]\d{6}\d*?[1-9]")
"""A fraction of a second with digits beyond microseconds."""


def reader_of(kind: Any) -> Read | None:
    """Return the reader of a column of this type, or None if the driver's values need no conversion."""
    types = sqlalchemy().types
    # A Float is a Numeric for some versions of SQLAlchemy.
    by_kind = [
        (types.Float, None), (types.Boolean, _boolean), (types.Numeric, _decimal), (types.DateTime, _moment),
        (types.Date, _day), (types.Time, _time), (types.JSON, _json),
    ]  # fmt: skip
    return next((read for one, read in by_kind if isinstance(kind, one)), None)


def bound(value: Any) -> Any:
    """Return a position of a partition column as SQLite's driver accepts it."""
    if isinstance(value, Decimal):
        return stored_number(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


def day_of(text: Any) -> datetime.date:
    """Return a day of a column that orders rows as texts. Raise ValueError for other forms than ISO 8601."""
    day = _day(text)
    if day.isoformat() != text:
        raise ValueError(f"a date that orders rows must have the form {day.isoformat()}")
    return day


def _decimal(value: Any) -> Decimal:
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, str):
        return decimal_of(value)
    return Decimal(_instance(value, int, "a number"))


def _boolean(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError("it is not a boolean: expected 0 or 1")
    return bool(value)


def _moment(value: Any) -> datetime.datetime:
    return datetime_of(_microseconds(value))


def _time(value: Any) -> datetime.time:
    return time_of(_microseconds(value))


def _day(value: Any) -> datetime.date:
    return date_of(_instance(value, str, "a date as text"))


def _json(value: Any) -> Any:
    text = value if isinstance(value, str) else str(_instance(value, (int, float), "JSON"))
    return json.loads(text, parse_constant=_no_json)


def _no_json(literal: str) -> Any:
    raise ValueError(f"{literal} is not JSON")


def _microseconds(value: Any) -> str:
    text: str = _instance(value, str, "a time as text")
    if _FINE.search(text):
        raise ValueError("it has nanoseconds, which Python's times cannot represent")
    return text


def _instance(value: Any, kind: type[Any] | tuple[type[Any], ...], expected: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"it is not {expected}")
    return value
