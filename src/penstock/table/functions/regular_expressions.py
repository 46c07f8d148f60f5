"""REGEXP and its relatives, with Java's patterns. An invalid pattern gives NULL, as in Flink."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.java_regex import compiled, re2_pattern
from penstock.table.functions.registry import Call, Family
from penstock.table.logical_types import BOOLEAN, INT, STRING, array_of

FAMILY = Family()
_TEXT = "str <CHARACTER_STRING>, regex <CHARACTER_STRING>"
_PAIR = "<CHARACTER_STRING>, <CHARACTER_STRING>"


def _null_if_invalid(function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (re.error, IndexError):
            return None

    return checked


@FAMILY.values("REGEXP", _PAIR, result=BOOLEAN)
def regexp(text: str, pattern: str) -> bool:
    """Tell whether the pattern is found in the text; an empty or invalid one is not."""
    try:
        return bool(pattern) and compiled(pattern).search(text) is not None
    except re.error:
        return False


@FAMILY.values("SIMILAR TO", _PAIR, result=BOOLEAN)
def similar_to(text: str, pattern: str) -> bool:
    """Tell whether the whole text matches a pattern of SQL's SIMILAR TO. Raises FunctionError for an invalid one."""
    translated = re.sub(
        r"[%_.^$\\]", lambda match: {"%": "(?:.|\n)*", "_": "(?:.|\n)"}.get(match[0], "\\" + match[0]), pattern
    )
    try:
        return compiled(translated).fullmatch(text) is not None
    except re.error as error:
        raise FunctionError(f"{pattern!r} is not a pattern of SIMILAR TO: {error}") from None


_EXTRACT = [_PAIR, f"{_PAIR}, <INTEGER>"]


@FAMILY.kernel("REGEXP_EXTRACT", signatures=_EXTRACT, result=STRING, nullable=True)
def regexp_extract(call: Call) -> Column:
    """Return what the first match, or a group of it, is; NULL if there is none."""
    text, pattern = call.columns[:2]
    index = call.columns[2] if len(call.columns) > 2 else pa.scalar(0, pa.int32())
    fast = None
    if not is_constant(text) and is_constant(pattern) and is_constant(index) and pattern.is_valid and index.is_valid:
        fast = _extracted(text, pattern.as_py(), index.as_py())
    return per_distinct(_null_if_invalid(_group_of), call.columns, pa.string()) if fast is None else fast


def _group_of(text: str, pattern: str, index: int = 0) -> str | None:
    match = compiled(pattern).search(text)
    return match[index] if match and index >= 0 else None


def _extracted(text: Any, pattern: str, index: int) -> Any | None:
    """Return the groups by RE2, or None if it may not agree with Java."""
    named = re2_pattern(f"({pattern})" if index == 0 else pattern)
    count = compiled(pattern).groups if named else 0
    if named is None or not 0 <= index <= count:
        return None
    found = pc.extract_regex(text, named).field(0 if index == 0 else index - 1)
    return _with_absent_groups(text, found, pattern, index)


def _with_absent_groups(text: Any, found: Any, pattern: str, index: int) -> Any:
    """RE2 has no difference between a group that is empty and one that took no part: look again where it is empty."""
    empty = pc.equal(found, "")
    if not pc.any(empty).as_py():
        return found
    again = per_distinct(lambda one: _group_of(one, pattern, index), [text.filter(empty)], pa.string())
    return pc.replace_with_mask(found, empty.fill_null(False), again)


@FAMILY.values("REGEXP_REPLACE", f"{_PAIR}, <CHARACTER_STRING>", result=STRING, nullable=True)
@_null_if_invalid
def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """Replace each match by text, in which `$` and a backslash mean themselves."""
    return compiled(pattern).sub(lambda match: replacement, text)


@FAMILY.values("REGEXP_COUNT", _TEXT, result=INT, nullable=True)
@_null_if_invalid
def regexp_count(text: str, pattern: str) -> int:
    """Return the number of matches."""
    return sum(1 for _ in compiled(pattern).finditer(text))


@FAMILY.values("REGEXP_INSTR", _TEXT, result=INT, nullable=True)
@_null_if_invalid
def regexp_instr(text: str, pattern: str) -> int:
    """Return where the first match begins, 0 if there is none; counted in UTF-16 as Java does."""
    match = compiled(pattern).search(text)
    return 0 if match is None else len(text[: match.start()].encode("utf-16-le")) // 2 + 1


@FAMILY.values("REGEXP_SUBSTR", _TEXT, result=STRING, nullable=True)
@_null_if_invalid
def regexp_substr(text: str, pattern: str) -> str | None:
    """Return the first match, NULL if there is none."""
    match = compiled(pattern).search(text)
    return match and match[0]


@FAMILY.values(
    "REGEXP_EXTRACT_ALL", _TEXT, f"{_TEXT}, extractIndex <INTEGER_NUMERIC>", result=array_of(STRING), nullable=True
)
@_null_if_invalid
def regexp_extract_all(text: str, pattern: str, index: int = 1) -> list[str | None] | None:
    """Return a group of each match; by default the first group."""
    expression = compiled(pattern)
    if not 0 <= index <= expression.groups:
        return None
    return [match[index] for match in expression.finditer(text)]
