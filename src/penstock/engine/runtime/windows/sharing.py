"""Contents that several windows share: they must be as they were when one of the windows has been put together.

A user's `merge` or `reduce` may change one of its two arguments and return it. What can't be changed needs no copy.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from penstock.common.functions.result_kinds import awaited
from penstock.common.values.copies import ATOMS, own_copy

_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})


def is_plain(value: Any) -> bool:
    """Whether `value` is one that `own_copy` copies at little cost: a number, text, or a builtin container."""
    return type(value) in ATOMS or type(value) in _CONTAINERS


def merged(parts: list[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge `parts`, two or more, from the first to the last, and leave them as they are."""
    kinds = set(map(type, parts))
    if kinds == {tuple}:
        kinds = set(map(type, itertools.chain.from_iterable(parts)))
    if kinds <= ATOMS:
        return awaited(functools.reduce(merge, parts))
    return awaited(functools.reduce(merge, map(own_copy, parts)))
