"""LIKE, with or without ESCAPE."""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.registry import Call, Family
from penstock.table.logical_types import BOOLEAN

FAMILY = Family()
_TEXT = "<CHARACTER_STRING>"


@FAMILY.kernel("LIKE", signatures=[f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, {_TEXT}"], result=BOOLEAN)
def like(call: Call) -> Column:
    """Tell whether text matches a pattern of `%` and `_`. Without ESCAPE, no character has another meaning."""
    text, pattern, *escape = call.columns
    if not escape and is_constant(pattern) and pattern.is_valid and "\\" not in pattern.as_py():
        return pc.match_like(text, pattern.as_py())
    return per_distinct(_matches, call.columns, pa.bool_())


@FAMILY.kernel("NOT LIKE", signatures=[f"{_TEXT}, {_TEXT}", f"{_TEXT}, {_TEXT}, {_TEXT}"], result=BOOLEAN)
def not_like(call: Call) -> Column:
    """Tell whether text does not match a pattern."""
    return pc.invert(like(call))


def _matches(text: str, pattern: str, escape: str = "") -> bool:
    return _expression(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=1000)
def _expression(pattern: str, escape: str) -> re.Pattern[str]:
    if len(escape) > 1 or escape == "\0":
        raise FunctionError(f"Invalid escape character '{escape}'")
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == escape:
            following = pattern[at + 1 : at + 2]
            if following not in ("_", "%", escape) or not following:
                raise FunctionError(f"Invalid escape sequence '{pattern}', {at}")
            parts.append(re.escape(following))
            at += 1
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
        at += 1
    return re.compile("".join(parts), re.DOTALL)
