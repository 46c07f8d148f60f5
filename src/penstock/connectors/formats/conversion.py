"""Convert the text of a field to a value of its declared type."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from penstock.common.functions.user_calls import results_of
from penstock.common.typeinfo import Types
from penstock.common.types.basic_types import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.types.integers import BITS, beyond_bounds, bounds_of

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
"""The texts of floats that are not finite. Source: Java's Double.toString, which Flink's formats use."""


def converter(kind: Any) -> Callable[[str], Any]:
    """Return the function that parses a value of type `kind`; a function passed as `kind` is returned unchanged.

    Numbers have ASCII digits without underscores, optionally surrounded by spaces. Dates and times are ISO 8601, with a
    T or a space between date and time; booleans are true, false, 1 or 0, in any case, optionally surrounded by spaces.
    A basic type of `Types` parses the Python type of its values, and refuses values outside the type: an integer beyond
    its bounds, a decimal that is not a number. Raise TypeError for anything but a type or a function.
    """
    if isinstance(kind, TypeInformation):
        kind = _of_declared(kind)
    known = _CONVERTERS.get(kind) if isinstance(kind, type) else None
    if known is not None:
        return known
    if not callable(kind):
        raise TypeError(
            f"a column's type must be a type like int, float or Types.LONG(), or a function of the text, got {kind!r}"
        )
    return kind  # type: ignore[no-any-return]


def column_converter(kind: Any) -> Callable[[Sequence[str]], Sequence[Any]]:
    """Return the function that parses the texts of many records, like `converter` for each.

    It raises if a text cannot be parsed, without stating which.
    """
    convert = converter(kind)
    if convert is str:
        return lambda texts: texts
    if isinstance(kind, BasicTypeInfo) and kind._basic_type in BITS:
        return _integers(kind._basic_type)
    if convert is integer_of:
        return _any_integers
    if convert is float_of:
        return _floats
    return lambda texts: results_of(convert, len(texts), texts)


def integer_of(text: str) -> int:
    """Return an integer of any size. Raise ValueError for integers that only Python accepts, such as 1_000."""
    _refuse_other_digits(text)
    return int(text)


def decimal_of(text: str) -> Decimal:
    """Return a number with all its digits. Raise ValueError for other values, NaN and Infinity among them."""
    _refuse_other_digits(text)
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r:.80} is not a number") from None
    if not value.is_finite():
        raise ValueError(f"{text!r:.80} is not a number")
    return value


def is_python_only_number(text: str) -> bool:
    """Return whether only Python accepts a text as a number: with underscores, or digits of other scripts."""
    if "_" not in text and text.isascii():
        return False
    try:
        Decimal(text)
    except InvalidOperation:
        return False
    return True


def float_of(text: str) -> float:
    """Return a float, which may be NaN, Infinity or -Infinity. Raise ValueError for other values."""
    _refuse_other_digits(text)
    text = text.strip()
    if text in NOT_FINITE:
        return NOT_FINITE[text]
    if text[-1:].isalpha():
        # Python also accepts names of these values that no other program uses.
        raise ValueError(f"{text!r:.80} is not a number: expected digits, or one of {', '.join(NOT_FINITE)}")
    return float(text)


def date_of(text: str) -> date:
    """Return a date in ISO 8601. Raise ValueError for anything else."""
    return date.fromisoformat(text)


def datetime_of(text: str) -> datetime:
    """Return a date, or a date and a time, in ISO 8601. Raise ValueError for anything else.

    Python accepts any character between the two: 2024-01-01+02, a date with a zone, would be two o'clock.
    """
    is_extended = text[4:5] == "-" == text[7:8]
    if not (text[10:11] in _BEFORE_TIME if is_extended else _OTHER_DATE.match(text)):
        raise ValueError(f"{text!r:.80} is not a date and time in ISO 8601")
    return datetime.fromisoformat(text)


def time_of(text: str) -> time:
    """Return a time of day in ISO 8601. Raise ValueError for anything else."""
    return time.fromisoformat(text)


def bytes_of(text: str) -> bytes:
    """Return the bytes of a base64 text, which may have line breaks, as in mails.

    Raise ValueError for other characters.
    """
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.80} is not base64 text")
    return base64.b64decode("".join(text.splitlines()), validate=True)


def _refuse_other_digits(text: str) -> None:
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r:.80} is not a number")


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise ValueError("expected true, false, 1 or 0") from None


def _of_declared(type_info: TypeInformation) -> Any:
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in BITS:
        return _bounded(type_info._basic_type)
    return _DECLARED.get(type_info, type_info)


def _bounded(kind: BasicType) -> Callable[[str], int]:
    least, most = bounds_of(kind)

    def convert(text: str) -> int:
        value = integer_of(text)
        if least <= value <= most:
            return value
        raise beyond_bounds(value, kind)

    return convert


def _integers(kind: BasicType) -> Callable[[Sequence[str]], Sequence[int]]:
    """Return a parser without a Python call for each value."""
    least, most = bounds_of(kind)

    def convert(texts: Sequence[str]) -> Sequence[int]:
        values = results_of(int, len(texts), texts)
        if values and (min(values) < least or max(values) > most):
            raise beyond_bounds(min(values) if min(values) < least else max(values), kind)
        _refuse_other_digits("".join(texts))
        return values

    return convert


def _any_integers(texts: Sequence[str]) -> Sequence[int]:
    values = results_of(int, len(texts), texts)
    _refuse_other_digits("".join(texts))
    return values


def _floats(texts: Sequence[str]) -> Sequence[float]:
    values = results_of(float, len(texts), texts)
    together = "".join(texts)
    if not all(map(math.isfinite, values)) or "_" in together or not together.isascii():
        return results_of(float_of, len(texts), texts)
    return values


_CONVERTERS: dict[type, Callable[[str], Any]] = {
    bool: _boolean,
    int: integer_of,
    float: float_of,
    Decimal: decimal_of,
    date: date_of,
    datetime: datetime_of,
    time: time_of,
}
_BEFORE_TIME = ("", "T", "t", " ")
_OTHER_DATE = re.compile(r"(\d{8}|\d{4}-?W\d\d(-?\d)?)([Tt ]|$)", re.ASCII)
"""Dates without hyphens, and dates by week."""

_DECLARED: dict[TypeInformation, Callable[[str], Any] | type] = {
    Types.STRING(): str,
    Types.BOOLEAN(): bool,
    Types.BIG_INT(): integer_of,
    Types.FLOAT(): float_of,
    Types.DOUBLE(): float_of,
    Types.BIG_DEC(): decimal_of,
    Types.SQL_DATE(): date,
    Types.SQL_TIME(): time,
    Types.SQL_TIMESTAMP(): datetime,
}
