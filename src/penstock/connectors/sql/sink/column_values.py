"""Convert values for the columns of a table, and refuse those that a dialect or a driver would cut silently."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from penstock.connectors.sql.database import sqlalchemy
from penstock.connectors.sql.sqlite_numbers import decimal_of, stored_number

Convert = Callable[[Any], Any]
"""Converts a value, or None. Raises ValueError if a part of it would be lost."""


def conversions_of(table: Any, dialect: str, columns: Sequence[str]) -> dict[str, Convert]:
    """Return conversions by column. Values of other columns are passed unchanged, or refused by the database."""
    found = {name: _conversion(table.columns[name].type, dialect) for name in columns}
    return {name: convert for name, convert in found.items() if convert is not None}


def _conversion(kind: Any, dialect: str) -> Convert | None:
    types = sqlalchemy().types
    if isinstance(kind, types.DateTime) and not kind.timezone:
        return _moment
    if isinstance(kind, types.Date):
        return _day
    if isinstance(kind, types.Time) and not kind.timezone:
        return _time
    if dialect != "sqlite":
        return _whole_number if isinstance(kind, types.Integer) else None
    # SQLite's driver does not support decimals, and writes NULL for NaN.
    if isinstance(kind, types.Float):
        return _float_of_sqlite
    if isinstance(kind, types.Numeric):
        return _number_of_sqlite
    return _text_of_sqlite if isinstance(kind, types.String) else None


def keep_numbers(table: Any, dialect: str) -> None:
    """Send SQLite's numerics as the conversions return them: SQLAlchemy would convert all of them to floats."""
    types = sqlalchemy().types
    for column in table.columns if dialect == "sqlite" else ():
        if isinstance(column.type, types.Numeric) and not isinstance(column.type, types.Float):
            column.type = types.NullType()


def _moment(value: Any) -> Any:
    # Without a zone it is in UTC, as in all formats. SQLite would drop the zone, PostgreSQL apply that of its session.
    if getattr(value, "nanosecond", False):
        raise ValueError(f"{value!r} has nanoseconds: round it to microseconds")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _day(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        raise ValueError(f"{value!r} is not a date, but has a time of day")
    return value


def _time(value: Any) -> Any:
    if isinstance(value, datetime.time) and value.tzinfo is not None:
        raise ValueError(f"{value!r} has a zone, expected a time of day without a zone")
    return value


def _whole_number(value: Any) -> Any:
    if isinstance(value, (float, Decimal)) and value != value // 1:
        raise ValueError(f"{value!r} is not a whole number: round it")
    return value


def _float_of_sqlite(value: Any) -> Any:
    _check_number(value)
    if isinstance(value, (Decimal, int)) and Decimal(value).is_finite() and Decimal(repr(float(value))) != value:
        raise ValueError(f"{value!r} has more digits than a float: store it in a column of text")
    return value


def _number_of_sqlite(value: Any) -> Any:
    _check_number(value)
    if value is None or isinstance(value, float):
        return value
    return stored_number(decimal_of(value) if isinstance(value, str) else value)


def _check_number(value: Any) -> None:
    if value != value:
        raise ValueError(f"{value!r} is not a number: SQLite would store NULL")


def _text_of_sqlite(value: Any) -> Any:
    if isinstance(value, float):
        raise ValueError(f"{value!r} is not a text, and SQLite would store 15 digits of it: pass str(value)")
    return value


def without_numpy(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Convert values of numpy to Python's. SQLite's driver would write the bytes of all but floats."""
    kinds = {type(value) for row in rows for value in row.values()}
    if not any(kind.__module__ == "numpy" for kind in kinds):
        return rows
    return [{name: _of_python(name, value) for name, value in row.items()} for row in rows]


def _of_python(name: str, value: Any) -> Any:
    if type(value).__module__ != "numpy" or not hasattr(value, "item"):
        return value
    if type(value).__name__ in ("datetime64", "timedelta64"):
        # Its unit may be finer than Python's.
        raise ValueError(f"column {name}: {value!r} is a value of numpy: convert it to one of Python's")
    return value.item() if not value.shape else value
