"""Immutable types, the copiers of containers, and the table of all copiers.

Other modules import `copies`, which adds the copiers of classes.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import ipaddress
import pathlib
import re
import types
import uuid
from collections.abc import Callable
from operator import is_
from typing import Any

ATOMS = frozenset(
    {
        int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range,
        datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
        decimal.Decimal, fractions.Fraction, uuid.UUID, re.Pattern,
        pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath,
        ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
        type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType,
    }
)  # fmt: skip
"""Types of immutable values, and of functions and classes, which are pickled by name. Hot loops test inline for these
types and for tuples of two of them, and call `independent_copy` for all other values."""

_are_atoms = ATOMS.issuperset
_CHECKED_TOGETHER_MIN = 3
"""Length from which the items of a list are checked together."""


Memo = dict[int, Any]
"""Id of the original -> its copy, in the form that `copy.deepcopy` passes to `__deepcopy__`."""
Copier = Callable[[Any, "Memo | None"], Any]
"""Copies a value with a memo, which is None for a whole record."""


def copy_of_part(value: Any, memo: Memo) -> Any:
    """Return the copy of a part of a value, from the memo if it was copied before."""
    return value if type(value) in ATOMS else COPIERS[type(value)](value, memo)


def itself(value: Any, memo: Memo | None) -> Any:
    """Return the value: the copier of immutable types."""
    return value


# The copiers of containers repeat code, because a call would cost as much as the copy of a short list.


def with_parts(value: Any, memo: Memo | None, make: Callable[[list[Any]], Any] = tuple) -> Any:
    """Return a copy of a tuple or frozenset, or `value` itself if all its parts are immutable."""
    atoms = ATOMS
    for part in value:
        if type(part) not in atoms:
            break
    else:
        return value
    if memo is None:
        memo = {}
    elif memo and (known := memo.get(id(value))) is not None:
        return known
    copiers = COPIERS
    parts = [part if type(part) in atoms else copiers[type(part)](part, memo) for part in value]
    if id(value) in memo:
        # A part refers to the value, whose copy was created with the part.
        return memo[id(value)]
    new = memo[id(value)] = value if all(map(is_, parts, value)) else make(parts)
    return new


def _of_list(value: list[Any], memo: Memo | None) -> list[Any]:
    if memo and (known := memo.get(id(value))) is not None:
        return known  # type: ignore[no-any-return]
    new = value.copy()
    if memo is not None:
        memo[id(value)] = new
    atoms = ATOMS
    for item in value:
        if type(item) not in atoms:
            break
    else:
        return new
    flat = _of_flat(value, memo) if len(value) >= _CHECKED_TOGETHER_MIN else None
    if flat is not None:
        new[:] = flat
        return new
    if memo is None:
        memo = {id(value): new}
    copiers = COPIERS
    new[:] = [item if type(item) in atoms else copiers[type(item)](item, memo) for item in value]
    return new


def _of_flat(items: list[Any], memo: Memo | None) -> list[Any] | None:
    """Return copies of lists, dicts or tuples that are all of one type and contain only atoms; else None.

    Many small containers cost a third as much without a call for each.
    """
    kinds = {*map(type, items)}
    kind = kinds.pop()
    atoms = ATOMS
    if kinds:
        return None
    if kind is dict:
        for item in items:
            for key, part in item.items():
                if type(part) not in atoms or type(key) not in atoms:
                    return None
    elif kind is list or kind is tuple:
        for item in items:
            for part in item:
                if type(part) not in atoms:
                    return None
    else:
        return None
    if kind is tuple:
        return items
    identities = {*map(id, items)}
    if len(identities) < len(items) or not (memo is None or identities.isdisjoint(memo)):
        return None
    copies = [item.copy() for item in items]
    if memo is not None:
        memo.update(zip(map(id, items), copies, strict=True))
    return copies


def _of_dict(value: dict[Any, Any], memo: Memo | None) -> dict[Any, Any]:
    if memo and (known := memo.get(id(value))) is not None:
        return known  # type: ignore[no-any-return]
    new = value.copy()
    if memo is not None:
        memo[id(value)] = new
    atoms, copiers = ATOMS, COPIERS
    for key, item in value.items():
        if type(item) not in atoms:
            if memo is None:
                memo = {id(value): new}
            new[key] = copiers[type(item)](item, memo)
        if type(key) is not str and type(key) not in atoms:
            if memo is None:
                memo = {id(value): new}
            if copiers[type(key)](key, memo) is not key:
                return _with_copied_keys(value, new, memo)
    return new


def _with_copied_keys(value: dict[Any, Any], new: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    """Copy the keys, too: an object with a hash can be mutable if its hash is by identity."""
    new.clear()
    for key, item in value.items():
        new[copy_of_part(key, memo)] = copy_of_part(item, memo)
    return new


def _of_set(value: set[Any], memo: Memo | None) -> set[Any]:
    if memo and (known := memo.get(id(value))) is not None:
        return known  # type: ignore[no-any-return]
    new = value.copy()
    if memo is None:
        memo = {}
    memo[id(value)] = new
    if not _are_atoms(map(type, value)):
        new.clear()
        new.update([copy_of_part(item, memo) for item in value])
    return new


def _of_frozenset(value: frozenset[Any], memo: Memo | None) -> frozenset[Any]:
    return with_parts(value, memo, frozenset)  # type: ignore[no-any-return]


def _of_bytearray(value: bytearray, memo: Memo | None) -> bytearray:
    if memo and (known := memo.get(id(value))) is not None:
        return known  # type: ignore[no-any-return]
    new = value.copy()
    if memo is not None:
        memo[id(value)] = new
    return new


class _Copiers(dict[type, Copier]):
    """Copiers by exact type. A class is added when its first instance is copied."""

    of_class: Callable[[type], Copier]
    """Returns the copier of a class. `copies` sets it."""

    def __missing__(self, kind: type) -> Copier:
        copier = self[kind] = self.of_class(kind)
        return copier


COPIERS = _Copiers(
    {
        tuple: with_parts,
        list: _of_list,
        dict: _of_dict,
        set: _of_set,
        frozenset: _of_frozenset,
        bytearray: _of_bytearray,
    }
)
