"""Contents that several windows share: they must be as they were when one of the windows has been put together.

A user's `merge` or `reduce` may change one of its two arguments and return it. What can't be changed needs no copy.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable
from typing import Any

_IMMUTABLE = frozenset({int, float, complex, bool, str, bytes, type(None)})
_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})


def is_plain(value: Any) -> bool:
    """Whether `value` is one that `own_copy` copies at little cost: a number, text, or a builtin container."""
    return type(value) in _IMMUTABLE or type(value) in _CONTAINERS


def merged(parts: list[Any], merge: Callable[[Any, Any], Any]) -> Any:
    """Merge `parts`, two or more, from the first to the last, and leave them as they are."""
    kinds = set(map(type, parts))
    if kinds == {tuple}:
        kinds = set(map(type, itertools.chain.from_iterable(parts)))
    if kinds <= _IMMUTABLE:
        return functools.reduce(merge, parts)
    return functools.reduce(merge, map(own_copy, parts))


def own_copy(value: Any) -> Any:
    """A copy that shares nothing that can be changed with `value`; `value` itself if nothing of it can."""
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is tuple and _IMMUTABLE.issuperset(map(type, value)):
        return value
    if (kind is list or kind is set) and _IMMUTABLE.issuperset(map(type, value)):
        return value.copy()
    if kind is dict and _IMMUTABLE.issuperset(map(type, value.values())):
        return value.copy()
    return copy.deepcopy(value)
