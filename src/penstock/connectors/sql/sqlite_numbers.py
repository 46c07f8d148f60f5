"""Decimals as SQLite stores numbers: integers of 64 bits, and floats."""

from __future__ import annotations

import re
from decimal import Decimal

_INT64 = 1 << 63
_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def stored_number(value: Decimal | int) -> int | float:
    """Return the integer or float of SQLite that equals the number. Raise ValueError if there is none."""
    number = Decimal(value)
    if number.is_finite() and number == number.to_integral_value() and -_INT64 <= number < _INT64:
        return int(number)
    nearest = float(number)
    if number.is_finite() and Decimal(repr(nearest)) != number:
        raise ValueError(f"{value!r} has more digits than a number of SQLite: store it in a column of text")
    return nearest


def decimal_of(text: str) -> Decimal:
    """Return the number that a text represents in SQL. Raise ValueError for another text."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("it is not a number")
    return Decimal(text.strip())
