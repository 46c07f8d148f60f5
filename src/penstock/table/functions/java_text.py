"""Values as Java writes them."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np

MILLIS_PER_DAY = 86_400_000


def double_text(value: float) -> str:
    """Return the text of `Double.toString`: `1.0E10`, `0.001`, `NaN`."""
    if 0.001 <= abs(value) < 10_000_000:
        return repr(value)
    return _floating_text(value, repr(value), significant_bits=53)


def float_text(value: float) -> str:
    """Return the text of `Float.toString`: mostly the shortest that reads as the same 32-bit float."""
    return _floating_text(value, str(np.format_float_scientific(np.float32(value), unique=True)), significant_bits=24)


def _floating_text(value: float, shortest: str, *, significant_bits: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    number = _whole_digits(abs(value), significant_bits) or Decimal(shortest)
    _, digits_tuple, exponent = number.as_tuple()
    digits = "".join(map(str, digits_tuple)).rstrip("0")
    point = len(digits_tuple) + int(exponent)  # digits before the decimal point
    if -3 < point <= 7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _whole_digits(value: float, significant_bits: int) -> Decimal | None:
    """Return the digits of a whole number as Java up to 18 writes them, or None for other numbers.

    They are more than needed, without those that its bits cannot tell apart.
    """
    bits = math.frexp(value)[1] - 1
    if bits > 62 or value != math.floor(value):
        return None
    spare = bits - significant_bits - 1
    dropped = int(spare * math.log10(2)) if spare > 1 else 0
    quotient, rest = divmod(int(value), 10**dropped)
    return Decimal((quotient + (dropped > 0 and rest >= 10**dropped // 2)) * 10**dropped)


def decimal_text(value: Decimal) -> str:
    """Return the text of `BigDecimal.toPlainString`."""
    return format(value, "f")


_DOUBLE = re.compile(r"([+-]?)(NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?")


def parse_double(text: str) -> float:
    """Read a number as `Double.valueOf`. Raises ValueError."""
    match = _DOUBLE.fullmatch(text.strip("".join(map(chr, range(33)))))
    if match is None:
        raise ValueError(f'For input string: "{text}"')
    return float(match[1] + match[2])


def months_text(months: int) -> str:
    """Return an interval of months as SQL writes it: `+1-02`."""
    years, rest = divmod(abs(months), 12)
    return f"{'-' if months < 0 else '+'}{years}-{rest:02d}"


def millis_text(millis: int) -> str:
    """Return an interval of days and time as SQL writes it: `+1 02:03:04.005`."""
    days, rest = divmod(abs(millis), MILLIS_PER_DAY)
    sign = "-" if millis < 0 else "+"
    return f"{sign}{days} {clock_text(rest)}.{rest % 1000:03d}"


def clock_text(millis: int) -> str:
    """Return the hours, minutes and seconds of a time of the day in milliseconds."""
    seconds = millis // 1000
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
