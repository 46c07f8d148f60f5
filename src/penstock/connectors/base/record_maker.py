"""Records of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types import Row


def record_maker(kind: Callable[..., Any], names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """What makes a record of a row's values: a Row with these names, a tuple, a dict, or what `kind` makes of them."""
    if kind is Row:
        named = Row(*names)
        return lambda values: named(*values)
    if kind is tuple:
        return tuple
    if kind is dict:
        return lambda values: dict(zip(names, values, strict=True))
    return lambda values: kind(*values)
