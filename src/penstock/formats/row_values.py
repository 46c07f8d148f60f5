"""Combines the fields of a record into one value: a dict or a Row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types import Row


def row_maker(names: Sequence[str], as_row: bool) -> Callable[[Sequence[Any]], Any]:
    """Return a function from field values, in the order of `names`, to a dict (or a Row)."""
    if not as_row:
        return lambda values: dict(zip(names, values, strict=True))
    factory = Row(*names)
    return lambda values: factory(*values)
