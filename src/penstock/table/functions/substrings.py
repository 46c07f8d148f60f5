"""Parts of text: SUBSTRING, LEFT, RIGHT, POSITION, OVERLAY, SPLIT_INDEX and SPLIT. Positions start at 1."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.java_regex import compiled
from penstock.table.functions.registry import Arguments, Call, Family
from penstock.table.logical_types import INT, MAX_LENGTH, STRING, LogicalType, array_of, map_of

FAMILY = Family()
_TEXT = "<CHARACTER_STRING>"


def _part(arguments: Arguments) -> LogicalType:
    return LogicalType("VARCHAR", length=arguments.types[0].length or MAX_LENGTH)


@FAMILY.kernel(
    "SUBSTRING",
    "SUBSTR",
    signatures=[f"{_TEXT}, <INTEGER>", f"{_TEXT}, <INTEGER>, <INTEGER>"],
    result=_part,
    nullable=True,
)
def substring(call: Call) -> Column:
    """Return the characters from a position on, counted from the end if it is negative; NULL for a negative length."""
    start, *length = call.columns[1:]
    if is_constant(start) and start.is_valid and start.as_py() >= 0 and all(
        is_constant(one) and one.is_valid and one.as_py() >= 0 for one in length
    ):  # fmt: skip
        first = min(max(start.as_py() - 1, 0), MAX_LENGTH)
        end = min(first + length[0].as_py(), MAX_LENGTH) if length else None
        return pc.utf8_slice_codeunits(call.columns[0], first, end)
    return per_distinct(part_of, call.columns, pa.string())


def part_of(text: str, position: int, length: int | None = None) -> str | None:
    """Return a part of text as SQL counts."""
    if length is not None and length < 0:
        return None
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    if start < 0:
        return ""
    return text[start:] if length is None else text[start : start + length]


@FAMILY.values("LEFT", f"{_TEXT}, <INTEGER>", result=_part, nullable=True)
def left(text: str, count: int) -> str:
    """Return the first characters."""
    return text[: max(count, 0)]


@FAMILY.values("RIGHT", f"{_TEXT}, <INTEGER>", result=_part, nullable=True)
def right(text: str, count: int) -> str:
    """Return the last characters."""
    return text[-count:] if count > 0 else ""


@FAMILY.values("POSITION", f"{_TEXT}, {_TEXT}", result=INT)
@FAMILY.values("LOCATE", f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, <INTEGER>", result=INT)
def position(part: str, text: str, start: int = 1) -> int:
    """Return where a part begins, 0 if it does not occur: POSITION(part IN text)."""
    return _position(part, text, start)


def _position(part: str, text: str, start: int) -> int:
    return text.find(part, max(start - 1, 0)) + 1 if part else 1


@FAMILY.values(
    "INSTR", f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, <INTEGER>", f"{_TEXT}, {_TEXT}, <INTEGER>, <INTEGER>", result=INT
)
def instr(text: str, part: str, start: int = 1, occurrence: int = 1) -> int:
    """Return where the n-th occurrence of a part begins, searched backwards from a negative start."""
    return _instr(text, part, start, occurrence)


def _instr(text: str, part: str, start: int, occurrence: int) -> int:
    if occurrence <= 0:
        raise FunctionError("nthAppearance must be positive!")
    if start < 0:
        at = _instr(text[::-1], part[::-1], -start, occurrence)
        return at and len(text) + 2 - at - len(part)
    at = start if start == 0 else start - 1
    for _ in range(occurrence if start else 0):
        at = _position(part, text, at + 1)
        if not at:
            break
    return at


@FAMILY.values("OVERLAY", f"{_TEXT}, {_TEXT}, <INTEGER>", f"{_TEXT}, {_TEXT}, <INTEGER>, <INTEGER>", result=STRING)
def overlay(text: str, other: str, start: int, length: int | None = None) -> str:
    """Replace the characters from a position by other text."""
    if start <= 0 or start > len(text):
        return text
    count = len(other) if length is None else length
    rest = text[start - 1 + count :] if count > 0 and start + count <= len(text) else ""
    return text[: start - 1] + other + rest


@FAMILY.kernel(
    "SPLIT_INDEX",
    signatures=[f"{_TEXT}, {_TEXT}, <INTEGER>", f"{_TEXT}, <INTEGER>, <INTEGER>"],
    result=STRING,
    nullable=True,
)
def split_index(call: Call) -> Column:
    """Return the part at an index from 0 between separators, NULL if there is none. 10 is the newline."""
    text, separator, index = call.columns
    if is_constant(text) or not (is_constant(separator) and is_constant(index)):
        return per_distinct(_part_at, call.columns, pa.string())
    if not (separator.is_valid and index.is_valid) or index.as_py() < 0:
        return pa.nulls(len(text), pa.string())
    wanted = separator.as_py()
    if not isinstance(wanted, str) or not wanted:
        return per_distinct(_part_at, call.columns, pa.string())
    parts = pc.split_pattern(text, wanted, max_splits=index.as_py() + 1)
    return _elements(parts, index.as_py(), pc.equal(text, ""))


def _elements(parts: Any, index: int, empty: Any) -> Any:
    """Return the element at an index of each list, NULL if it is too short or `empty` is true."""
    offsets = parts.offsets.to_numpy()
    at = offsets[:-1] + index
    missing = (at >= offsets[1:]) | pc.fill_null(empty, True).to_numpy(zero_copy_only=False)
    return parts.values.take(pa.array(at.astype(np.int64), mask=missing))


def _part_at(text: str, separator: str | int, index: int) -> str | None:
    if isinstance(separator, int):
        if not 0 < separator < 256:
            return None
        separator = chr(separator)
    parts = (text.split(separator) if separator else re.split(r"\s", text)) if text else []
    return parts[index] if 0 <= index < len(parts) else None


@FAMILY.values("SPLIT", f"{_TEXT}, {_TEXT}", result=array_of(STRING))
def split(text: str, separator: str) -> list[str]:
    """Return the parts between separators; without a separator the characters."""
    return text.split(separator) if separator else list(text)


@FAMILY.values(
    "STR_TO_MAP", _TEXT, f"{_TEXT}, {_TEXT}, {_TEXT}", result=map_of(STRING, STRING)
)  # fmt: skip
def str_to_map(text: str, between: str = ",", inside: str = "=") -> list[tuple[str, str | None]]:
    """Read a map from `a=1,b=2`. The separators are patterns of Java."""
    found: dict[str, str | None] = {}
    try:
        between_pattern, inside_pattern = compiled(between), compiled(inside)
    except re.error as error:
        raise FunctionError(f"STR_TO_MAP: a separator is not a pattern: {error}") from None
    parts = between_pattern.split(text) if text else []
    while parts and not parts[-1]:
        parts.pop()
    for part in parts:
        key, *value = inside_pattern.split(part, 1)
        found[key] = value[-1] if value else None
    return list(found.items())
