"""What copies are made with: types whose values can't be changed, the copiers of containers, and the table of all.

Users of copies import `copies`, which adds the copiers of classes.
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
"""Types whose values can't be changed, and functions and classes, which are pickled by name. Hot loops test for these
and for tuples of two of them inline; everything else is for `own_copy`."""

_are_atoms = ATOMS.issuperset
_MANY = 3
"""So many items of a list are looked at together."""


Memo = dict[int, Any]
"""By identity of the original: its copy. It has the form that `copy.deepcopy` passes to a class's `__deepcopy__`."""
Copier = Callable[[Any, "Memo | None"], Any]
"""Copies a value by a memo, which is None for a whole record."""


def copy_of_part(value: Any, memo: Memo) -> Any:
    """`own_copy` of a part of a value: what `memo` has a copy of is not copied again."""
    return value if type(value) in ATOMS else COPIERS[type(value)](value, memo)


def itself(value: Any, memo: Memo | None) -> Any:
    """The value, as the copier of a type whose values can't be changed."""
    return value


# The copiers of containers, written out: each further call would cost as much as the copy of a short list.


def with_parts(value: Any, memo: Memo | None, make: Callable[[list[Any]], Any] = tuple) -> Any:
    """A copy of a tuple or frozenset, made of its parts at once; `value` itself if each part is its own copy."""
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
        # A part refers to the value, and has copied it.
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
    flat = _of_flat(value, memo) if len(value) >= _MANY else None
    if flat is not None:
        new[:] = flat
        return new
    if memo is None:
        memo = {id(value): new}
    copiers = COPIERS
    new[:] = [item if type(item) in atoms else copiers[type(item)](item, memo) for item in value]
    return new


def _of_flat(items: list[Any], memo: Memo | None) -> list[Any] | None:
    """Copies of lists, dicts or tuples, all of one type, with nothing in them but atoms; None if `items` are others.

    Many small ones cost a third as much without a call for each.
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
                return _with_own_keys(value, new, memo)
    return new


def _with_own_keys(value: dict[Any, Any], new: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    """What has a hash may be changed nevertheless: a hash by identity says nothing of what is in an object."""
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
    """How values of a type are copied, by exact type; a class is added when an instance is first seen."""

    of_class: Callable[[type], Copier]
    """Makes the copier of a class. `copies` sets it."""

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
