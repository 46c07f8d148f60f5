"""Configuration values as text, and their parsing: `5 s`, `64 mb`, `true`, `fixed-delay`, `a;b`.

A configuration holds text only, so it is the same in a file, in a program and on a worker. Source: Flink docs,
"Configuration"; the units are Flink's.
"""

from __future__ import annotations

import base64
import datetime
import enum
import json
import re
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, Generic, TypeVar

from penstock.common.time import Duration, Time, to_milliseconds

T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=enum.Enum)

_LIMIT = 2**63 - 1
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+)\s*([^\s\d]*)\s*")

_MILLIS_PER_UNIT = {
    unit: Fraction(millis)
    for millis, units in (
        (86_400_000, "d day days"),
        (3_600_000, "h hour hours"),
        (60_000, "m min minute minutes"),
        (1000, "s sec secs second seconds"),
        (1, "ms milli millis millisecond milliseconds"),
        (Fraction(1, 1000), "µs us micro micros microsecond microseconds"),
        (Fraction(1, 1_000_000), "ns nano nanos nanosecond nanoseconds"),
    )
    for unit in units.split()
}
_BYTES_PER_UNIT: dict[str, int] = {
    unit: 1024**power
    for power, units in enumerate(
        ("b bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes"),
    )
    for unit in units.split()
}


def parse_duration(text: str) -> int:
    """Parse a duration such as `5 s`, `10 min`, `1 d` to whole milliseconds; a number without a unit is milliseconds.

    Raises ValueError for invalid text.
    """
    number, unit = _number_and_unit(text, "a duration such as '200 ms', '5 s', '10 min' or '1 d'")
    per_unit = _MILLIS_PER_UNIT.get(unit or "ms")
    if per_unit is None:
        raise ValueError(f"{text!r} has no known unit of time; known units: d, h, min, s, ms, us and ns")
    return _checked_64_bits(text, int(number * per_unit))


def parse_memory_size(text: str) -> int:
    """Parse a size such as `64 mb` to bytes, in units of 1024; a number without a unit is bytes.

    Raises ValueError for invalid text.
    """
    number, unit = _number_and_unit(text, "a size such as '512 kb', '64 mb' or '1 gb'")
    per_unit = _BYTES_PER_UNIT.get(unit or "b")
    if per_unit is None:
        raise ValueError(f"{text!r} has no known unit of size; known units: b, kb, mb, gb and tb")
    return _checked_64_bits(text, number * per_unit)


def _checked_64_bits(text: str, number: int) -> int:
    if number > _LIMIT:
        raise ValueError(f"{text!r} does not fit into 64 bits")
    return number


def _number_and_unit(text: str, expected: str) -> tuple[int, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {expected}")
    return int(match[1]), match[2].lower()


def parse_list(text: str) -> list[str]:
    """Parse a list written as `a;b` or in YAML: `[a, b]`, or one line `- a` per element."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        parts = text[1:-1].split(",")
    elif text.startswith("- "):
        parts = [line.strip().removeprefix("-") for line in text.splitlines()]
    else:
        parts = text.split(";")
    return [part.strip().strip("'\"") for part in parts if part.strip()]


def to_text(value: Any) -> str:
    """Format a value as configuration text. Raises TypeError for unsupported types."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (Duration, Time, datetime.timedelta)):
        return f"{to_milliseconds(value)} ms"
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (list, tuple)):
        return ";".join(map(to_text, value))
    if isinstance(value, dict):
        return json.dumps({str(key): to_text(item) for key, item in value.items()})
    raise TypeError(
        f"a setting must be text, a number, a boolean, a duration, a list or a dict, got {value!r} "
        f"of type {type(value).__name__}"
    )


class ValueType(ABC, Generic[T_co]):
    """The type of an option's value, and its conversion from and to text."""

    name: str

    @abstractmethod
    def parse(self, text: str) -> T_co:
        """Parse `text`. Raises ValueError if it is invalid."""

    def format(self, value: Any) -> str:
        """Format `value` as text. Raises ValueError or TypeError if it has another type."""
        text = to_text(value)
        self.parse(text)
        return text


class TextType(ValueType[str]):
    """Accepts any text."""

    name = "text"

    def parse(self, text: str) -> str:
        """Return the text itself."""
        return text


class BooleanType(ValueType[bool]):
    """`true` or `false`."""

    name = "true or false"

    def parse(self, text: str) -> bool:
        """Parse, ignoring case."""
        lowered = text.strip().lower()
        if lowered not in ("true", "false"):
            raise ValueError(f"{text!r} is neither true nor false")
        return lowered == "true"


class IntegerType(ValueType[int]):
    """A signed integer of at most `bits` bits. `least`: the smallest allowed integer, or None for no limit."""

    def __init__(self, bits: int = 32, least: int | None = None) -> None:
        self.name = "a whole number" if least is None else f"a whole number of {least} or more"
        self._limit: int = 2 ** (bits - 1)
        self._least = -self._limit if least is None else least

    def parse(self, text: str) -> int:
        """Parse decimal digits with an optional sign."""
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if not self._least <= number < self._limit:
            raise ValueError(f"{text!r} is not between {self._least} and {self._limit - 1}")
        return number


class FloatType(ValueType[float]):
    """A number. `least` and `most`: the smallest and the largest allowed number, or None for no limit."""

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.name = "a number"
        if least is not None:
            self.name += f" of {least:g} or more" if most is None else f" from {least:g} to {most:g}"
        self._least = least
        self._most = most

    def parse(self, text: str) -> float:
        """Parse Python's syntax of floats."""
        try:
            number = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None
        # `not >=` instead of `<`, to refuse NaN as well.
        if self._least is not None and not number >= self._least:
            raise ValueError(f"{text!r} is not {self._least:g} or more")
        if self._most is not None and number > self._most:
            raise ValueError(f"{text!r} is more than {self._most:g}")
        return number


class DurationType(ValueType[int]):
    """A duration in whole milliseconds. `least_ms`: the shortest allowed duration; -1 allows -1 ms for no end."""

    def __init__(self, least_ms: int = 0) -> None:
        lengths = f"a duration of {least_ms} ms or more" if least_ms else "a duration"
        self.name = lengths if least_ms >= 0 else "a duration, or -1 ms for one without an end"
        self._least_ms = least_ms

    def parse(self, text: str) -> int:
        """Parse with `parse_duration`."""
        number = text.strip()
        is_negative = self._least_ms < 0 and number.startswith("-")
        duration_ms = -parse_duration(number[1:]) if is_negative else parse_duration(text)
        if duration_ms < self._least_ms:
            raise ValueError(f"{text!r} is less than {self._least_ms} ms")
        return duration_ms

    def format(self, value: Any) -> str:
        """Format an int of milliseconds, a Duration, Time, timedelta or text."""
        return super().format(f"{value} ms" if type(value) is int else value)


class MemorySizeType(ValueType[int]):
    """A size in bytes."""

    name = "a size"

    def parse(self, text: str) -> int:
        """Parse with `parse_memory_size`."""
        return parse_memory_size(text)


class ListType(ValueType[list[str]]):
    """A list of strings."""

    name = "a list"

    def parse(self, text: str) -> list[str]:
        """Parse with `parse_list`."""
        return parse_list(text)


class MapType(ValueType[dict[str, str]]):
    """A map from strings to strings."""

    name = "a list of name:value"

    def parse(self, text: str) -> dict[str, str]:
        """Parse Flink's syntax `a:1,b:2`, a JSON object, or YAML's `{a: 1, b: 2}`."""
        text = text.strip()
        if not (text.startswith("{") and text.endswith("}")):
            return self._parse_pairs(text)
        try:
            parsed = json.loads(text)
        except json.JSONDecodeError:
            return {_unquoted(name): _unquoted(value) for name, value in self._parse_pairs(text[1:-1]).items()}
        try:
            return {name: to_text(value) for name, value in parsed.items()}
        except TypeError as error:
            # A null of JSON.
            raise ValueError(f"{text!r:.200}: {error}") from None

    def _parse_pairs(self, text: str) -> dict[str, str]:
        pairs = [part.partition(":") for part in text.split(",") if part.strip()]
        if not all(colon for _, colon, _ in pairs):
            raise ValueError(f"{text!r} is not a list of name:value")
        return {name.strip(): value.strip() for name, _, value in pairs}


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


class EnumType(ValueType[E]):
    """A member of an enum, by name."""

    def __init__(self, enum_class: type[E]) -> None:
        self._enum_class = enum_class
        self.name = f"one of {', '.join(enum_class.__members__)}"

    def parse(self, text: str) -> E:
        """Parse, ignoring case and treating `-` and `_` as equal."""
        try:
            return self._enum_class[text.strip().upper().replace("-", "_")]
        except KeyError:
            raise ValueError(f"got {text!r}") from None
