"""Shallow copies: objects with the same attributes, which later assignments to the original do not change."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from copy import copy
from typing import Any, TypeVar

T = TypeVar("T")
_CONTAINERS = (list, dict, OrderedDict, defaultdict, set, bytearray)


def shallow_copy(value: T, copy_containers: bool = False) -> T:
    """Return an object of the same class with all attributes of `value`.

    `copy_containers`: copy lists, dicts and sets in the attributes as well, with nested ones, each once. Other objects
    are shared. `copy.copy` would take the attributes from `__getstate__` or `__reduce__` and lose attributes that are
    not pickled, such as a client that exists only in the driver. It is called only if the class has a `__copy__`.
    """
    kind = type(value)
    if hasattr(kind, "__copy__"):
        return copy(value)
    state = object.__getstate__(value)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    copied: T = object.__new__(kind)
    known: dict[int, Any] = {}
    for name, attribute in {**(attributes or {}), **(slots or {})}.items():
        # `object.__setattr__` works for frozen classes as well.
        object.__setattr__(copied, name, _copy_of(attribute, known) if copy_containers else attribute)
    return copied


def _copy_of(value: Any, known: dict[int, Any]) -> Any:
    """`known`: id of a container -> its copy."""
    if id(value) in known:
        return known[id(value)]
    kind = type(value)
    if kind in _CONTAINERS:
        new = known[id(value)] = value.copy()
        if kind is list:
            new[:] = [_copy_of(item, known) for item in value]
        elif isinstance(value, dict):
            new.update((key, _copy_of(item, known)) for key, item in value.items())
        return new
    return tuple([_copy_of(item, known) for item in value]) if kind is tuple else value
