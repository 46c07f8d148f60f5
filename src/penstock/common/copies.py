"""Copies that share nothing that can be changed with their original; what can't be changed is not copied.

A value that was emitted, or stored, must stay as it was, whatever a function does with its own reference to it. Flink
serialises records for that, or copies them with their serialiser. Here most values can't be changed at all: numbers,
text, and tuples and frozen classes of them. They are distinguished by their exact types, because a subclass may add
attributes. docs/decisions/0011-values-that-may-change.md has the alternatives and their cost.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import ipaddress
import pathlib
import pickle
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


def own_copy(value: Any) -> Any:
    """A copy that shares nothing that can be changed with `value`; `value` itself if nothing of it can.

    What can't be copied, a socket for example, is returned as it is. It can't be sent or stored either.
    """
    kind = type(value)
    # Nearly all values that are not recognised without a call. Each further call would cost a third of this.
    if kind in ATOMS or (kind is tuple and _are_atoms(map(type, value))):
        return value
    try:
        return (_COPIERS.get(kind) or _copier_of(kind))(value)
    except RecursionError:
        # A value that contains itself. deepcopy remembers what it has copied, which costs ten times as much.
        return _deep_copy(value)


def pair_of_atoms(values: list[Any], known: tuple[type, type]) -> tuple[type, type]:
    """The types of the last value if it is a pair of atoms, else `known`: most of a chunk's values are alike."""
    last = values[-1] if values else None
    if type(last) is tuple and len(last) == 2 and _are_atoms(map(type, last)):
        return type(last[0]), type(last[1])
    return known


def own_copies(values: list[Any]) -> list[Any]:
    """`own_copy` of each value. Atoms, and pairs of them, are recognised without a call."""
    atoms = ATOMS
    return [
        value
        if (type(value) is tuple and len(value) == 2 and type(value[0]) in atoms and type(value[1]) in atoms)
        or type(value) in atoms
        else own_copy(value)
        for value in values
    ]


def _copy(value: Any) -> Any:
    kind = type(value)
    return value if kind in ATOMS else (_COPIERS.get(kind) or _copier_of(kind))(value)


def copied_by(kind: type, copier: Callable[[Any], Any]) -> None:
    """Have instances of exactly this class copied so."""
    _COPIERS[kind] = copier


def never_copied(kind: type) -> type:
    """A class decorator: the instances of this class are not changed once they are made."""
    _COPIERS[kind] = as_it_is
    return kind


def as_it_is(value: Any) -> Any:
    """The value itself, in place of `own_copy`."""
    return value


def _deep_copy(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        return _copy_by_pickling(value)


def _copy_by_pickling(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        return value


def _of_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    if _are_atoms(map(type, value)):
        return value
    parts = [_copy(part) for part in value]
    return value if all(map(is_, parts, value)) else tuple(parts)


def _of_list(value: list[Any]) -> list[Any]:
    return value.copy() if _are_atoms(map(type, value)) else [_copy(item) for item in value]


def _of_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    if _are_atoms(map(type, value)):
        return _of_items(value)
    # What has a hash may be changed nevertheless: a hash by identity says nothing of what is in an object. (Keys that
    # are tuples cost 0.2 µs each.)
    return {_copy(key): _copy(item) for key, item in value.items()}


def _of_items(value: dict[str, Any]) -> dict[str, Any]:
    """For dicts whose keys can't be changed: attributes, for example."""
    if _are_atoms(map(type, value.values())):
        return value.copy()
    return {key: _copy(item) for key, item in value.items()}


def _of_set(value: set[Any]) -> set[Any]:
    return value.copy() if _are_atoms(map(type, value)) else {_copy(item) for item in value}


def _of_frozenset(value: frozenset[Any]) -> frozenset[Any]:
    if _are_atoms(map(type, value)):
        return value
    parts = [_copy(item) for item in value]
    return value if all(map(is_, parts, value)) else frozenset(parts)


_COPIERS: dict[type, Callable[[Any], Any]] = {
    tuple: _of_tuple,
    list: _of_list,
    dict: _of_dict,
    set: _of_set,
    frozenset: _of_frozenset,
    bytearray: bytearray.copy,
}
"""How values of a type are copied, by exact type; classes are added when they are first seen."""


def _copier_of(kind: type) -> Callable[[Any], Any]:
    copier = _COPIERS[kind] = _made_for(kind)
    return copier


def _made_for(kind: type) -> Callable[[Any], Any]:
    if issubclass(kind, (enum.Enum, type, BaseException)) or _is_immutable_elsewhere(kind):
        return as_it_is
    if issubclass(kind, tuple):
        # Without attributes of its own there is nothing in it but its items.
        return _deep_copy if kind.__dictoffset__ else _for_subclass_of_tuple(kind)
    fields = _fields_of(kind)
    if fields is not None and _is_frozen(kind):
        return _unless_frozen_whole(fields)
    if fields is not None and _is_struct(kind):
        return _for_struct(fields)
    return _of_object if _is_copied_by_its_dict(kind) else _deep_copy


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass or msgspec.Struct; None for other classes."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return getattr(kind, "__struct_fields__", None)


def _is_frozen(kind: type) -> bool:
    if dataclasses.is_dataclass(kind):
        # Its own parameters: a subclass that is no dataclass itself may have further attributes, which can be changed.
        return "__dataclass_params__" in vars(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return _is_struct(kind) and bool(kind.__struct_config__.frozen)  # type: ignore[attr-defined]


_PROTOCOLS = (
    "__new__", "__deepcopy__", "__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__",
    "__getnewargs__", "__getnewargs_ex__",
)  # fmt: skip


def _is_copied_by_its_dict(kind: type) -> bool:
    """Whether an instance has nothing but its `__dict__`, and its class says nothing of how it is copied."""
    overridden = any(getattr(kind, name, None) is not getattr(object, name, None) for name in _PROTOCOLS)
    slots = any(vars(base).get("__slots__") for base in kind.__mro__)
    return not overridden and not slots and kind.__dictoffset__ != 0 and kind.__basicsize__ == _Plain.__basicsize__


class _Plain:
    """A class that has nothing: its instances are as large as those that have attributes only."""


def _of_object(value: Any) -> Any:
    new = object.__new__(type(value))
    new.__dict__.update(_of_items(value.__dict__))
    return new


def _is_struct(kind: type) -> bool:
    return hasattr(kind, "__struct_config__")


def _is_immutable_elsewhere(kind: type) -> bool:
    """Scalars of numpy and all of Arrow's values. Their packages are not imported for that."""
    package = kind.__module__.partition(".")[0]
    names = {base.__name__ for base in kind.__mro__}
    # A record of a structured array is a view: its fields can be set.
    return package == "pyarrow" or (package == "numpy" and "generic" in names and "void" not in names)


def _for_subclass_of_tuple(kind: type) -> Callable[[Any], Any]:
    make = getattr(kind, "_make", None)

    def copied(value: Any) -> Any:
        if _are_atoms(map(type, value)):
            return value
        parts = [_copy(part) for part in value]
        if all(map(is_, parts, value)):
            return value
        return make(parts) if make is not None else _deep_copy(value)

    return copied


def _unless_frozen_whole(fields: tuple[str, ...]) -> Callable[[Any], Any]:
    """For frozen classes: as it is if all fields are, else a deep copy."""
    all_atoms = _compiled(fields)

    def copied(value: Any) -> Any:
        if all_atoms(value) or all(_copy(part) is part for part in (getattr(value, field) for field in fields)):
            return value
        return _deep_copy(value)

    return copied


def _for_struct(fields: tuple[str, ...]) -> Callable[[Any], Any]:
    all_atoms = _compiled(fields)

    def copied(value: Any) -> Any:
        new = copy.copy(value)
        if not all_atoms(value):
            for field in fields:
                setattr(new, field, _copy(getattr(value, field)))
        return new

    return copied


def _compiled(fields: tuple[str, ...]) -> Callable[[Any], bool]:
    """A function that says whether all these fields are atoms: a loop over them would cost three times as much."""
    test = " and ".join(f"type(value.{field}) in atoms" for field in fields) or "True"
    return eval(f"lambda value: {test}", {"atoms": ATOMS, "type": type})  # type: ignore[no-any-return]
