"""Converts the text of a field to a value of its declared type."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.common.basic_types import TypeInformation
from penstock.common.typeinfo import Types

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def converter(kind: Any) -> Callable[[str], Any]:
    """Return the function that parses a value of type `kind`; a function passed as `kind` is returned unchanged.

    Dates and times are ISO 8601; booleans are true, false, 1 or 0, ignoring case. A basic type of `Types` stands for
    the Python type of its values. Raises TypeError for anything that is neither a type nor a function.
    """
    if isinstance(kind, TypeInformation):
        kind = _PYTHON_TYPES.get(kind, kind)
    known = _CONVERTERS.get(kind) if isinstance(kind, type) else None
    if known is not None:
        return known
    if not callable(kind):
        raise TypeError(
            f"a column's type must be a type like int, float or Types.LONG(), or a function of the text, got {kind!r}"
        )
    return kind  # type: ignore[no-any-return]


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise ValueError("expected true, false, 1 or 0") from None


_CONVERTERS: dict[type, Callable[[str], Any]] = {
    bool: _boolean,
    date: date.fromisoformat,
    datetime: datetime.fromisoformat,
    time: time.fromisoformat,
}

_PYTHON_TYPES: dict[TypeInformation, Callable[[str], Any] | type] = {
    Types.STRING(): str,
    Types.BOOLEAN(): bool,
    Types.BYTE(): int,
    Types.SHORT(): int,
    Types.INT(): int,
    Types.LONG(): int,
    Types.BIG_INT(): int,
    Types.FLOAT(): float,
    Types.DOUBLE(): float,
    Types.BIG_DEC(): Decimal,
    Types.SQL_DATE(): date,
    Types.SQL_TIME(): time,
    Types.SQL_TIMESTAMP(): datetime,
}
