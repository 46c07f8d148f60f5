"""Lists and dicts as keys: copies that can't be changed, which are found by their canonical bytes.

A key selector may return a list or dict, or a tuple or Row with one in it, as in PyFlink. What is kept as the key is a
`ListKey` or `DictKey`: equal to the list or dict, and hashable. What a function emits or stores of it is a plain list
or dict again. Most keys are neither, so one call finds out for all keys of a chunk whether any has to be converted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, NoReturn

from penstock.common.stored import stored_as
from penstock.common.types import Row
from penstock.common.values.copies import ATOMS, copied_by, own_copy
from penstock.engine.state.keys import PLAIN, KeyTypeError, encode_key, encoded_by, encoded_dict, encoded_list

_LOOKED_UP = PLAIN | {float}
"""Types of keys that are what they are looked up by."""


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("a key can't be changed, because its state would not be found again. Change a copy of it")


@stored_as("list-key", fields=lambda key: (list(key),))
class ListKey(list[Any]):
    """A list that is a key."""

    __slots__ = ("_hash",)

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(map(as_key, items))
        self._hash = hash(encoded_list(self))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


@stored_as("dict-key", fields=lambda key: (dict(key),))
class DictKey(dict[Any, Any]):
    """A dict that is a key."""

    __slots__ = ("_hash",)

    def __init__(self, items: dict[Any, Any]) -> None:
        super().__init__({as_key(key): as_key(value) for key, value in items.items()})
        self._hash = hash(encoded_dict(self))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash

    clear = pop = popitem = setdefault = update = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse


encoded_by(ListKey, encoded_list)
encoded_by(DictKey, encoded_dict)
# What is in a key can't be changed, so it needs no memo of a record's other parts.
copied_by(ListKey, lambda key, _: [own_copy(item) for item in key])
copied_by(DictKey, lambda key, _: {own_copy(name): own_copy(value) for name, value in key.items()})


def as_key(key: Any) -> Any:
    """The key that is kept for `key`: itself, unless it can be changed, as a list, a dict or a Row can, then a copy.

    Raises KeyTypeError for a list or dict with something in it that has no canonical bytes.
    """
    kind: Any = type(key)
    if kind in _LOOKED_UP or kind is ListKey or kind is DictKey:
        return key
    if isinstance(key, list) and kind.__eq__ is list.__eq__ and kind is not ListKey:
        return ListKey(key)
    if isinstance(key, dict) and kind.__eq__ is dict.__eq__ and kind is not DictKey:
        return DictKey(key)
    if kind is tuple:
        parts = tuple(map(as_key, key))
        return key if all(map(is_, parts, key)) else parts
    if kind is Row:
        row = Row.of_kind(key.get_row_kind(), *map(as_key, key))
        if key._fields is not None:
            row.set_field_names(key._fields)
        return row
    return own_copy(key)


def as_keys(keys: list[Any]) -> list[Any]:
    """`as_key` of each. Most chunks need none, which their types tell.

    A key may be a part of its record, which the function may change: its state would not be found again. Of tuples, and
    of each other kind, two are looked at for that, since a selector gives them one shape: all would cost 1 µs each.
    """
    others = {*map(type, keys)} - ATOMS
    if not others:
        return keys
    if len(others) == 1:
        first, last = next(key for key in keys if type(key) in others), keys[-1]
        if as_key(first) is first and as_key(last) is last:
            with contextlib.suppress(TypeError):
                hash(tuple(keys))
                return keys
    return [as_key(key) for key in keys]


def own_key(key: Any) -> Any:
    """What is kept of a key of a map, which its function may go on with and change. Raises TypeError without a hash."""
    if type(key) in ATOMS:
        return key
    hash(key)
    return as_key(key)


def converting(select: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A key selector whose keys are converted."""
    return lambda value: as_key(select(value))


def is_convertible(key: Any) -> bool:
    """Whether the key could not be looked up as it is, and can be converted."""
    try:
        hash(key)
    except TypeError:
        try:
            encode_key(as_key(key))
        except KeyTypeError:
            return False
        return True
    return False
