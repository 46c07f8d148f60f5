"""A second object with the attributes of another, which later assignments to that one do not change."""

from __future__ import annotations

from copy import copy
from typing import TypeVar

T = TypeVar("T")


def shallow_copy(value: T) -> T:
    """An object of the same class with all attributes of `value`.

    `copy.copy` asks `__getstate__` or `__reduce__` for them, and so loses what a class keeps out of its pickles, such
    as a client that only the driver has. Here it is asked only if the class has a `__copy__`.
    """
    kind = type(value)
    if hasattr(kind, "__copy__"):
        return copy(value)
    state = object.__getstate__(value)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    copied: T = object.__new__(kind)
    for name, attribute in {**(attributes or {}), **(slots or {})}.items():
        # Also where the class is frozen.
        object.__setattr__(copied, name, attribute)
    return copied
