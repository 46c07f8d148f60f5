"""`String.format` of Java for the conversions that SQL values need."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from penstock.table.functions.java_text import double_text

_SPECIFIER = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")


class _FormatError(ValueError):
    """The pattern or its arguments are refused by Java."""


def formatted(pattern: str | None, *values: Any) -> str | None:
    """Return the text, or None if the pattern is None, is invalid, or does not fit the values."""
    if pattern is None:
        return None
    position = 0

    def replaced(match: re.Match[str]) -> str:
        nonlocal position
        index, flags, width, digits, conversion = match.groups()
        if conversion == "%":
            text = "%"
        elif conversion == "n":
            return "\n"
        else:
            if index is None:
                position += 1
            at = (int(index) if index else position) - 1
            if at >= len(values):
                raise _FormatError("missing argument")
            text = _converted(values[at], flags, digits, conversion)
        return _padded(text, flags, int(width or 0), conversion)

    try:
        result = _SPECIFIER.sub(replaced, pattern)
    except _FormatError:
        return None
    return None if "%" in _SPECIFIER.sub("", pattern) else result


def _padded(text: str, flags: str, width: int, conversion: str) -> str:
    if "-" in flags:
        return text.ljust(width)
    if "0" in flags and conversion in "dfxXoe":
        sign = text[:1] if text[:1] in ("-", "+") else ""
        return sign + text[len(sign) :].rjust(width - len(sign), "0")
    return text.rjust(width)


def _converted(value: Any, flags: str, digits: str | None, conversion: str) -> str:
    lower = conversion.lower()
    if value is None:
        text = "false" if lower == "b" else "null"
    elif lower == "b":
        text = str(value).lower() if isinstance(value, bool) else "true"
    elif lower == "s":
        text = _plain(value)
    elif lower in ("d", "x", "o", "c"):
        text = _integer(value, flags, lower)
    elif lower in ("f", "e"):
        text = _fraction(value, flags, int(digits or 6), lower)
    else:
        raise _FormatError(f"unknown conversion {conversion}")
    if digits is not None and lower in ("s", "b"):
        text = text[: int(digits)]
    return text.upper() if conversion.isupper() else text


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return double_text(value) if isinstance(value, float) else str(value)


def _integer(value: Any, flags: str, conversion: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _FormatError(f"%{conversion} of {value!r}")
    if conversion == "c":
        return chr(value)
    if conversion == "d":
        return _signed(f"{value:,}" if "," in flags else str(value), flags)
    return format(value if value >= 0 else value + (1 << 32), conversion)


def _fraction(value: Any, flags: str, digits: int, conversion: str) -> str:
    if not isinstance(value, (float, Decimal)):
        raise _FormatError(f"%{conversion} of {value!r}")
    number = Decimal(repr(value)) if isinstance(value, float) else value
    if not number.is_finite():
        return str(value)
    if conversion == "e":
        return _signed(f"{number:.{digits}e}", flags)
    rounded = number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return _signed(f"{rounded:,f}" if "," in flags else f"{rounded:f}", flags)


def _signed(text: str, flags: str) -> str:
    if text.startswith("-"):
        return f"({text[1:]})" if "(" in flags else text
    return ("+" if "+" in flags else " " if " " in flags else "") + text
