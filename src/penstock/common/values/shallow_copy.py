"""A second object with the attributes of another, which later assignments to that one do not change."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from copy import copy
from typing import Any, TypeVar

T = TypeVar("T")
_CONTAINERS = (list, dict, OrderedDict, defaultdict, set, bytearray)


def shallow_copy(value: T, own_containers: bool = False) -> T:
    """Return an object of the same class with all attributes of `value`.

    `own_containers`: copy lists, dicts and sets in the attributes, too, with those inside, each once; all else is the
    same object. `copy.copy` takes the attributes from `__getstate__` or `__reduce__`, and so loses what a class keeps
    out of its pickles, such as a client that only the driver has. It is called only if the class has a `__copy__`.
    """
    kind = type(value)
    if hasattr(kind, "__copy__"):
        return copy(value)
    state = object.__getstate__(value)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    copied: T = object.__new__(kind)
    known: dict[int, Any] = {}
    for name, attribute in {**(attributes or {}), **(slots or {})}.items():
        # Also where the class is frozen.
        object.__setattr__(copied, name, _own(attribute, known) if own_containers else attribute)
    return copied


def _own(value: Any, known: dict[int, Any]) -> Any:
    """`known`: by id, the copies of the containers that were met before."""
    if id(value) in known:
        return known[id(value)]
    kind = type(value)
    if kind in _CONTAINERS:
        new = known[id(value)] = value.copy()
        if kind is list:
            new[:] = [_own(item, known) for item in value]
        elif isinstance(value, dict):
            new.update((key, _own(item, known)) for key, item in value.items())
        return new
    return tuple([_own(item, known) for item in value]) if kind is tuple else value
