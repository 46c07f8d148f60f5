"""Patterns of `java.time.format.DateTimeFormatter`, to write times and to read them.

Fields that a text does not have are those of 1970-01-01 00:00:00, as in Flink's functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from penstock.table.functions import calendar
from penstock.table.functions.datetime_text import DAY_S, days_of, days_within
from penstock.table.functions.errors import FunctionError

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = "yuYMLdDQqEewWaHhKkmsSnNAGxXZVzOpBcFgv"
_FINEST_S = {"H": 3600, "h": 3600, "K": 3600, "k": 3600, "a": 3600, "m": 60, "s": 1}
"""Seconds between two texts of a letter; a day for others."""


class PatternError(FunctionError):
    """The pattern is not one of Java's."""


class Token(NamedTuple):
    """A run of one letter, or literal text."""

    letter: str
    length: int
    text: str = ""


class Moment(NamedTuple):
    """A local time."""

    days: int
    nanos: int
    """Nanoseconds of the day."""


@lru_cache(maxsize=1000)
def tokens_of(pattern: str) -> tuple[Token, ...]:
    """Read a pattern. Raises PatternError with Java's words."""
    tokens: list[Token] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "'":
            end = at + 1
            literal = ""
            while True:
                if end >= len(pattern):
                    raise PatternError(f"Pattern ends with an incomplete string literal: {pattern}")
                if pattern[end] == "'":
                    if pattern[end + 1 : end + 2] != "'":
                        break
                    end += 1
                literal += pattern[end]
                end += 1
            tokens.append(Token("", 0, literal or "'"))
            at = end + 1
        elif character.isascii() and character.isalpha():
            run = len(pattern[at:]) - len(pattern[at:].lstrip(character))
            if character not in _LETTERS:
                raise PatternError(f"Unknown pattern letter: {character}")
            tokens.append(Token(character, run))
            at += run
        elif character in "{}#":
            raise PatternError(f"Pattern includes reserved character: '{character}'")
        elif character in "[]":
            tokens.append(Token(character, 0))
            at += 1
        else:
            tokens.append(Token("", 0, character))
            at += 1
    return tuple(tokens)


def fraction_digits(pattern: str) -> int:
    """Return how many digits of a second the pattern has."""
    return max((token.length for token in tokens_of(pattern) if token.letter == "S"), default=0)


def step_seconds(pattern: str) -> int | None:
    """Return the seconds in which the text of a time stays the same, None for less than a second."""
    finest = DAY_S
    for token in tokens_of(pattern):
        if token.letter in "SnNA" and token.letter:
            return None
        finest = min(finest, _FINEST_S.get(token.letter, DAY_S))
    return finest


def formatted(moment: Moment, pattern: str) -> str:
    """Write a time."""
    return "".join(_written(token, moment) for token in tokens_of(pattern) if token.letter not in ("[", "]"))


def _written(token: Token, moment: Moment) -> str:
    if not token.letter:
        return token.text
    write = _WRITERS.get(token.letter)
    if write is None:
        raise PatternError(f"the pattern letter {token.letter} is not supported")
    return write(moment, token.length)


def _year(moment: Moment, count: int) -> str:
    year = int(calendar.year_and_month(np.int64(moment.days))[0])
    return f"{year % 100:02d}" if count == 2 else str(year).rjust(count, "0")


def _month(moment: Moment, count: int) -> str:
    month = int(calendar.year_and_month(np.int64(moment.days))[1])
    if count <= 2:
        return str(month).rjust(count, "0")
    return _MONTHS[month - 1] if count == 4 else _MONTHS[month - 1][: 3 if count == 3 else 1]


def _weekday(moment: Moment, count: int) -> str:
    name = _DAYS[int(calendar.iso_weekday(moment.days)) - 1]
    return name if count == 4 else name[: 3 if count <= 3 else 1]


def _quarter(moment: Moment, count: int) -> str:
    quarter = (int(calendar.year_and_month(np.int64(moment.days))[1]) + 2) // 3
    return str(quarter).rjust(count, "0") if count <= 2 else f"Q{quarter}"


def _number(value: Callable[[Moment], int]) -> Callable[[Moment, int], str]:
    return lambda moment, count: str(value(moment)).rjust(count, "0")


def _hour(moment: Moment) -> int:
    return moment.nanos // 3_600_000_000_000


_WRITERS: dict[str, Callable[[Moment, int], str]] = {
    "y": _year, "u": _year, "Y": _year, "M": _month, "L": _month, "E": _weekday, "Q": _quarter, "q": _quarter,
    "d": _number(lambda moment: int(calendar.month_and_day(np.int64(moment.days))[1])),
    "D": _number(lambda moment: int(calendar.day_of_year(np.int64(moment.days)))),
    "e": _number(lambda moment: int(calendar.iso_weekday(moment.days)) % 7 + 1),
    "w": _number(lambda moment: int(calendar.iso_year_and_week(np.int64(moment.days))[1])),
    "H": _number(_hour),
    "k": _number(lambda moment: _hour(moment) or 24),
    "K": _number(lambda moment: _hour(moment) % 12),
    "h": _number(lambda moment: _hour(moment) % 12 or 12),
    "a": lambda moment, count: "AM" if _hour(moment) < 12 else "PM",
    "m": _number(lambda moment: moment.nanos // 60_000_000_000 % 60),
    "s": _number(lambda moment: moment.nanos // 1_000_000_000 % 60),
    "S": lambda moment, count: f"{moment.nanos % 1_000_000_000:09d}"[:count].ljust(count, "0"),
    "n": _number(lambda moment: moment.nanos % 1_000_000_000),
    "A": _number(lambda moment: moment.nanos // 1_000_000),
    "N": _number(lambda moment: moment.nanos),
    "G": lambda moment, count: "AD",
}  # fmt: skip


@lru_cache(maxsize=1000)
def _expression(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of texts; the groups are named by letters."""
    parts: list[str] = []
    seen: set[str] = set()
    tokens = tokens_of(pattern)
    for index, token in enumerate(tokens):
        if not token.letter:
            parts.append(re.escape(token.text))
        elif token.letter in "[]":
            parts.append("(?:" if token.letter == "[" else ")?")
        else:
            adjacent = index + 1 < len(tokens) and tokens[index + 1].letter not in ("", "[", "]")
            body = _body(token, adjacent)
            parts.append(f"(?P<{token.letter}>{body})" if token.letter not in seen else body)
            seen.add(token.letter)
    return re.compile("".join(parts), re.IGNORECASE if "a" in seen else 0)


def _body(token: Token, adjacent: bool) -> str:
    letter, count = token.letter, token.length
    if letter == "S":
        return rf"\d{{{count}}}"
    if letter in "ML" and count > 2:
        return "|".join(name if count == 4 else name[:3] for name in _MONTHS)
    if letter == "E":
        return "|".join(name if count == 4 else name[:3] for name in _DAYS)
    if letter == "a":
        return "AM|PM"
    if letter not in "yudDHhKkmsM":
        raise PatternError(f"the pattern letter {letter} is not supported for reading")
    if count > 1 or adjacent:
        return rf"\d{{{count}}}" if letter not in "yu" or adjacent or count == 2 else rf"\d{{{count},9}}"
    return r"\d{1,4}" if letter in "yu" else r"\d{1,3}" if letter == "D" else r"\d{1,2}"


def parsed(text: str, pattern: str) -> Moment | None:
    """Read a time, or return None if the text does not fit the pattern. Raises PatternError."""
    match = _expression(pattern).fullmatch(text)
    if match is None:
        return None
    found = {letter: value for letter, value in match.groupdict().items() if value is not None}
    days = _days(found)
    seconds = _seconds(found)
    if days is None or seconds is None:
        return None
    digits = fraction_digits(pattern)
    fraction = int(found["S"][:digits].ljust(9, "0")) if "S" in found else 0
    return Moment(days, seconds * 1_000_000_000 + fraction)


def parsed_leniently(text: str, pattern: str) -> Moment | None:
    """Read a time as `SimpleDateFormat` does: too large numbers count on, what follows is ignored."""
    match = _lenient_expression(pattern).match(text.lstrip())
    if match is None:
        return None
    found = {letter: value for letter, value in match.groupdict().items() if value is not None}
    months = (_year_of(found) - 1970) * 12 + _month_of(found) - 1
    days = int(calendar.first_day(np.int64(months))) + int(found.get("d", "1")) - 1
    if "D" in found:
        days = int(calendar.first_day(np.int64((_year_of(found) - 1970) * 12))) + int(found["D"]) - 1
    over, seconds = divmod(_unchecked_seconds(found), DAY_S)
    return Moment(days + over, seconds * 1_000_000_000)


@lru_cache(maxsize=1000)
def _lenient_expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"(\(\?P<[a-zA-Z]>)\\d\{[\d,]+\}\)(?!\()", r"\1\\d+)", _expression(pattern).pattern))


def _year_of(found: dict[str, str]) -> int:
    text = found.get("y") or found.get("u") or "1970"
    return int(text) + (2000 if len(text) == 2 else 0)


def _month_of(found: dict[str, str]) -> int:
    text = found.get("M") or found.get("L") or "1"
    return int(text) if text.isdigit() else [name[:3] for name in _MONTHS].index(text[:3]) + 1


def _days(found: dict[str, str]) -> int | None:
    year, month = _year_of(found), _month_of(found)
    if "D" in found:
        first = days_of(year, 1, 1)
        return None if first is None else first + int(found["D"]) - 1
    return days_within(year, month, int(found.get("d", "1")))


def _seconds(found: dict[str, str]) -> int | None:
    if int(found.get("H", "0")) > 23 or int(found.get("m", "0")) > 59 or int(found.get("s", "0")) > 59:
        return None
    return _unchecked_seconds(found)


def _unchecked_seconds(found: dict[str, str]) -> int:
    hour = int(found.get("H") or found.get("k", "0")) % (24 if "k" in found else 1 << 30)
    if "h" in found or "K" in found:
        hour = int(found.get("h") or found["K"]) % 12 + (12 if found.get("a", "AM").upper() == "PM" else 0)
    return (hour * 60 + int(found.get("m", "0"))) * 60 + int(found.get("s", "0"))
