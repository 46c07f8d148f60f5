"""Converts the text of a field to a value of its declared type."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.common.basic_types import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.integers import BITS, beyond_bounds, bounds_of
from penstock.common.typeinfo import Types
from penstock.common.user_calls import results_of

_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
"""The texts of floats that are no numbers. Source: Java's Double.toString, which Flink's formats use."""


def converter(kind: Any) -> Callable[[str], Any]:
    """Return the function that parses a value of type `kind`; a function passed as `kind` is returned unchanged.

    Dates and times are ISO 8601; booleans are true, false, 1 or 0, in any case, with spaces around or not. A basic type
    of `Types` stands for the Python type of its values, and refuses what it does not have: an integer beyond its
    bounds, a decimal that is no number. Raises TypeError for anything that is neither a type nor a function.
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
    """Return the function that parses the texts of many records, as `converter` does one of them.

    It raises if one text can't be parsed, and does not say which.
    """
    convert = converter(kind)
    if convert is str:
        return lambda texts: texts
    if isinstance(kind, BasicTypeInfo) and kind._basic_type in BITS:
        return _integers(kind._basic_type)
    if convert is float_of:
        return _floats
    return lambda texts: results_of(convert, len(texts), texts)


def integer_of(text: str) -> int:
    """An integer of any size. Raises ValueError for what is none in other languages than Python: 1_000."""
    _refuse_underscores(text)
    return int(text)


def decimal_of(text: str) -> Decimal:
    """A number with all its digits. Raises ValueError for what is none, NaN and Infinity among them."""
    _refuse_underscores(text)
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(f"{text!r:.80} is no number")
    return value


def float_of(text: str) -> float:
    """A float. Raises ValueError for what is none; NaN, Infinity and -Infinity are some."""
    text = text.strip()
    if text in NOT_FINITE:
        return NOT_FINITE[text]
    if text[-1:].isalpha():
        # Python has other names for what is no number, which no other program has.
        raise ValueError(f"{text!r:.80} is no number")
    _refuse_underscores(text)
    return float(text)


def bytes_of(text: str) -> bytes:
    """Bytes in base64, which may have line breaks, as in mails. Raises ValueError for other characters in it."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.80} is no text in base64")
    return base64.b64decode("".join(text.splitlines()), validate=True)


def _refuse_underscores(text: str) -> None:
    if "_" in text:
        raise ValueError(f"{text!r:.80} is no number")


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
    """Without a call of Python's for each."""
    least, most = bounds_of(kind)

    def convert(texts: Sequence[str]) -> Sequence[int]:
        values = results_of(int, len(texts), texts)
        if values and (min(values) < least or max(values) > most):
            raise beyond_bounds(min(values) if min(values) < least else max(values), kind)
        _refuse_underscores("".join(texts))
        return values

    return convert


def _floats(texts: Sequence[str]) -> Sequence[float]:
    values = results_of(float, len(texts), texts)
    if not all(map(math.isfinite, values)) or "_" in "".join(texts):
        return results_of(float_of, len(texts), texts)
    return values


_CONVERTERS: dict[type, Callable[[str], Any]] = {
    bool: _boolean,
    date: date.fromisoformat,
    datetime: datetime.fromisoformat,
    time: time.fromisoformat,
}

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
