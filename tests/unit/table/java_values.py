"""Values in the text that Java's `toString` gives, read and written by their SQL types: the form of Flink's cases."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.table.functions import bitmap_values
from penstock.table.functions.arrow_types import arrow_type, unit_of
from penstock.table.functions.cast_numbers import WIDE
from penstock.table.functions.cast_text import raw
from penstock.table.functions.datetime_text import DAY_S, PER_SECOND, date_text, days_of
from penstock.table.functions.java_text import double_text, float_text
from penstock.table.functions.zones import utc_from_local
from penstock.table.logical_types import LogicalType, decimal, parse

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_OPEN, _CLOSE = "[{(<", "]})>"
_OBJECT = re.compile(r"(?:\[L)?[\w.]+;?@[0-9a-f]+")
"""An array or object whose values are not in the text."""


def split(text: str) -> list[str]:
    """Split the inside of `[a, [b, c], {d=e}]` at its outer commas."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth = max(depth - 1, 0)
        elif character == "," and depth == 0 and text.startswith(", ", at):
            parts.append(text[start:at])
            start = at + 2
    return [*parts, text[start:]] if text else []


def types_of(text: str | None, values: str | None) -> list[LogicalType]:
    if text is None:
        return [_type_of_literal(one) for one in split((values or "[]")[1:-1])]
    return [parse(one.removeprefix("[").removesuffix("]")) for one in split(text[1:-1])]


def _type_of_literal(text: str) -> LogicalType:
    if text in ("true", "false"):
        return LogicalType("BOOLEAN", nullable=False)
    if re.fullmatch(r"-?\d+", text):
        return LogicalType("INT", nullable=False)
    if re.fullmatch(r"-?\d+\.\d+", text):
        digits = text.lstrip("-").replace(".", "")
        return decimal(len(digits.lstrip("0")), len(text) - text.index(".") - 1).with_nullability(False)
    return LogicalType("CHAR", length=len(text), nullable=False)


@cache
def field_texts(text: str, types: tuple[LogicalType, ...]) -> list[str]:
    """Split a list of values. Text may contain commas: what is left over belongs to a string that has none yet."""
    inside = _OBJECT.sub("?", text[1:-1])
    if len(types) == 1:
        return [inside]
    parts = split(inside)
    if len(parts) != len(types):
        return _joined_numbers(inside, len(types))
    return parts


def _joined_numbers(inside: str, count: int) -> list[str]:
    """Split at all commas, but keep numbers with the bracket before them: text may have one that is not closed. What is
    left over belongs to the last value."""
    parts: list[str] = []
    for part in inside.split(", "):
        if parts and "[" in parts[-1] and re.fullmatch(r"\d+[\]}]?", part):
            parts[-1] += f", {part}"
        else:
            parts.append(part)
    if len(parts) < count:
        raise ValueError(f"cannot split {inside[:80]} into {count} values")
    return [*parts[: count - 1], ", ".join(parts[count - 1 :])]


def read(text: str, one: LogicalType, zone: str) -> Any:
    """Return the value that Arrow's Python conversion takes; dates and times as integers."""
    if text == "null":
        return None
    if text == "?":
        raise ValueError("the case does not have the value")
    if one.root in ("ARRAY", "ROW", "MAP", "STRUCTURED"):
        return _read_nested(text, one, zone)
    readers: dict[str, Callable[[str], Any]] = {
        "BOOLEAN": lambda value: {"true": True, "false": False}[value],
        "BINARY": lambda value: _read_bytes(value).ljust(one.length, b"\0"), "VARBINARY": _read_bytes,
        "FLOAT": float, "DOUBLE": float,
        "DECIMAL": lambda value: WIDE.quantize(Decimal(value), Decimal(1).scaleb(-one.scale)),
        "DATE": _read_date, "TIME": _read_time,
        "TIMESTAMP": lambda value: _read_timestamp(value, one, zone),
        "TIMESTAMP_LTZ": lambda value: _read_timestamp(value, one, zone),
        "INTERVAL_MONTH": _read_months, "INTERVAL_SECOND": _read_millis,
        "BITMAP": _read_bitmap,
    }  # fmt: skip
    if one.root in ("VARCHAR", "CHAR"):
        return text.ljust(one.length) if one.root == "CHAR" else text
    if one.root in _BITS:  # Flink's cases have shorts that Java has cut out of an int
        half = 1 << (_BITS[one.root] - 1)
        return (int(text) + half) % (2 * half) - half
    return readers[one.root](text)


def _read_nested(text: str, one: LogicalType, zone: str) -> Any:
    if one.root == "ARRAY":
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError(text)
        return [read(part, one.children[0], zone) for part in split(text[1:-1])]
    if one.root == "MAP":
        pairs = [part.split("=", 1) for part in split(text[1:-1])]
        return [(read(key, one.children[0], zone), read(value, one.children[1], zone)) for key, value in pairs]
    parts = split(text.removeprefix("+I")[1:-1])
    return {name: read(part, kind, zone) for name, part, kind in zip(one.names, parts, one.children, strict=True)}


def _read_bytes(text: str) -> bytes:
    if not text.startswith("["):
        raise ValueError(text)
    return bytes(int(part) & 0xFF for part in split(text[1:-1]))


def _read_bitmap(text: str) -> bytes:
    if text.endswith(",...}"):
        raise ValueError("the case does not have all values of a bitmap")
    return bitmap_values.encoded([int(part) for part in text[1:-1].split(",") if part])


def _read_date(text: str) -> int:
    days = days_of(*map(int, text.split("-")))
    if days is None:
        raise ValueError(text)
    return days


def _read_time(text: str) -> int:
    hours, minutes, seconds = (*text.split(":"), "0")[:3]
    return (int(hours) * 60 + int(minutes)) * 60_000 + int(Decimal(seconds) * 1000)


def _read_timestamp(text: str, one: LogicalType, zone: str) -> int:
    match = re.fullmatch(r"(\d+-\d+-\d+)[T ](\d+):(\d+)(?::(\d+)(?:\.(\d+))?)?(Z?)", text)
    if match is None:
        raise ValueError(text)
    per_second = PER_SECOND[unit_of(one.precision)]
    seconds = _read_date(match[1]) * DAY_S + int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)
    fraction = int((match[5] or "")[: one.precision].ljust(9, "0")) // (1_000_000_000 // per_second)
    value = seconds * per_second + fraction
    if one.root == "TIMESTAMP_LTZ" and not match[6]:
        return int(utc_from_local(np.array([value]), per_second, zone)[0])
    return value


def _read_months(text: str) -> int:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    match = re.fullmatch(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?", text)
    assert match is not None, text
    return int(match[1] or 0) * 12 + int(match[2] or 0)


def _read_millis(text: str) -> int:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    match = re.fullmatch(r"PT(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?", text)
    assert match is not None, text
    return int((Decimal(match[1] or 0) * 3600 + Decimal(match[2] or 0) * 60 + Decimal(match[3] or 0)) * 1000)


def column_of(text: str, one: LogicalType, zone: str) -> Any:
    """Return a column with the value, NULL if the type has it, and the value again."""
    value = read(text, one, zone)
    return pa.array([value, None if one.nullable else value, value], _reading_type(one)).cast(arrow_type(one))


def _reading_type(one: LogicalType) -> Any:
    return raw(pa.array([], arrow_type(one)), one).type


def texts(value: Any, one: LogicalType) -> Iterator[str]:
    """Yield the texts of a value of a raw column: several, as Java's maps have no order."""
    if value is None:
        yield "null"
    elif one.root == "ARRAY":
        for parts in itertools.product(*(list(texts(part, one.children[0])) for part in value)):
            yield f"[{', '.join(parts)}]"
    elif one.class_name.startswith("org.apache.flink."):  # an object of a Java class without a text
        yield f"{one.class_name}@{java_hash(value):x}"
    elif one.root in ("ROW", "STRUCTURED"):
        children = zip(value.values(), one.children, strict=True)
        for parts in itertools.product(*(list(texts(part, kind)) for part, kind in children)):
            yield f"+I[{', '.join(parts)}]"
    elif one.root == "MAP":
        for pairs in itertools.permutations(value):
            entries = [
                [f"{k}={v}" for k in texts(key, one.children[0]) for v in texts(item, one.children[1])]
                for key, item in pairs
            ]
            for chosen in itertools.product(*entries):
                yield "{" + ", ".join(chosen) + "}"
    else:
        yield _text(value, one)


def java_hash(value: Any) -> int:
    """`hashCode` of strings, integers, and of objects that combine those of their fields by `Objects.hash`."""
    if value is None:
        return 0
    found = 0
    if isinstance(value, str):
        for character in value:
            found = found * 31 + ord(character)
    elif isinstance(value, dict):
        found = 1
        for one in value.values():
            found = found * 31 + java_hash(one)
    else:
        found = int(value)
    return found & 0xFFFFFFFF


def _text(value: Any, one: LogicalType) -> str:
    writers: dict[str, Callable[[Any], str]] = {
        "BOOLEAN": lambda flag: str(flag).lower(),
        "BINARY": _bytes_text, "VARBINARY": _bytes_text,
        "FLOAT": float_text, "DOUBLE": double_text, "DATE": date_text,
        "TIME": lambda millis: _clock(millis, 1000, 3),
        "TIMESTAMP": lambda units: _timestamp(units, one), "TIMESTAMP_LTZ": lambda units: _instant(units, one),
        "INTERVAL_MONTH": lambda months: f"P{months}M" if months else "P0D",
        "INTERVAL_SECOND": _duration,
        "BITMAP": lambda data: bitmap_values.text_of(bitmap_values.decoded(data)),
    }  # fmt: skip
    return writers.get(one.root, str)(value)


def _bytes_text(data: bytes) -> str:
    return str([byte - 256 if byte > 127 else byte for byte in data])


def _clock(value: int, per_second: int, digits: int) -> str:
    seconds, rest = divmod(value, per_second)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}"
    if not rest and not seconds % 60:
        return text
    text += f":{seconds % 60:02d}"
    fraction = str(rest).rjust(digits, "0").rstrip("0")
    return text + (f".{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}" if fraction else "")


def _timestamp(value: int, one: LogicalType) -> str:
    unit = unit_of(one.precision)
    days, rest = divmod(value, PER_SECOND[unit] * DAY_S)
    return f"{date_text(days)}T{_clock(rest, PER_SECOND[unit], {'ms': 3, 'us': 6, 'ns': 9}[unit])}"


def _instant(value: int, one: LogicalType) -> str:
    text = _timestamp(value, one)
    return f"{text}:00Z" if text.count(":") == 1 else f"{text}Z"


def _duration(millis: int) -> str:
    if not millis:
        return "PT0S"
    seconds = millis / 1000
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{int(hours)}H" if hours else "", f"{int(minutes)}M" if minutes else "", f"{rest:g}S" if rest else ""]
    return "PT" + "".join(parts)
