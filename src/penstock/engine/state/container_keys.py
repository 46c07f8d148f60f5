"""Lists and dicts as keys: immutable copies, which are compared by their canonical bytes.

A key selector may return a list or dict, or a tuple or Row that contains one, as in PyFlink. The stored key is a
`ListKey` or `DictKey`: equal to the list or dict, and hashable. Copies of it that a function emits or stores are plain
lists or dicts. Most keys are of other types, so one call decides for all keys of a chunk whether any must be converted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, NoReturn

from penstock.common.stored import stored_as
from penstock.common.types import Row
from penstock.common.values.copies import ATOMS, copied_by, independent_copy
from penstock.engine.state.keys import PLAIN, KeyTypeError, encode_key, encoded_dict, encoded_list, register_encoder

_UNCHANGED = PLAIN | {float}
"""Types of keys that are stored without conversion."""


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError("a key can't be changed, because its state would not be found again: change a copy of it")


@stored_as("list-key", fields=lambda key: (list(key),))
class ListKey(list[Any]):
    """A list as a key."""

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
    """A dict as a key."""

    __slots__ = ("_hash",)

    def __init__(self, items: dict[Any, Any]) -> None:
        super().__init__({as_key(key): as_key(value) for key, value in items.items()})
        self._hash = hash(encoded_dict(self))

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash

    clear = pop = popitem = setdefault = update = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse


register_encoder(ListKey, encoded_list)
register_encoder(DictKey, encoded_dict)
# The content of a key is immutable, so the copy needs no memo of the record's other parts.
copied_by(ListKey, lambda key, _: [independent_copy(item) for item in key])
copied_by(DictKey, lambda key, _: {independent_copy(name): independent_copy(value) for name, value in key.items()})


def as_key(key: Any) -> Any:
    """Return the key to store for `key`: itself, or an immutable copy of a list, dict, Row or other mutable value.

    Raises KeyTypeError for a list or dict that contains a value without canonical bytes.
    """
    kind: Any = type(key)
    if kind in _UNCHANGED or kind is ListKey or kind is DictKey:
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
    return independent_copy(key)


def as_keys(keys: list[Any]) -> list[Any]:
    """Convert each key with `as_key`. The types show that most chunks need no conversion.

    A key may be a part of its record, which the function may change: then its state would not be found again. If all
    keys have one type, such as tuple, only two are checked, since a selector returns one shape; each costs 1 µs.
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


def stored_map_key(key: Any) -> Any:
    """Return the key to store for a map key, which its function may change later. Raises TypeError if unhashable."""
    if type(key) in ATOMS:
        return key
    hash(key)
    return as_key(key)


def converting(select: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a key selector that converts its keys."""
    return lambda value: as_key(select(value))


def is_convertible(key: Any) -> bool:
    """Whether the key is not hashable and can be converted."""
    try:
        hash(key)
    except TypeError:
        try:
            encode_key(as_key(key))
        except KeyTypeError:
            return False
        return True
    return False
