"""Copies that share nothing that can be changed with their original; what can't be changed is not copied.

A value that was emitted, or stored, must stay as it was, whatever a function does with its own reference to it. Flink
serialises records for that, or copies them with their serialiser. Here most values can't be changed at all: numbers,
text, and tuples and frozen classes of them. They are distinguished by their exact types, because a subclass may add
attributes. docs/decisions/0011-values-that-may-change.md has the alternatives and their cost.
"""

from __future__ import annotations

import copy
import copyreg
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
from itertools import chain
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
_MANY = 4
"""So many items of a list are looked at together."""


Memo = dict[int, Any]
"""By identity of the original: its copy. It has the form that `copy.deepcopy` passes to a class's `__deepcopy__`."""
Copier = Callable[[Any, "Memo | None"], Any]
"""Copies a value by a memo, which is None for a whole record."""


def own_copy(value: Any) -> Any:
    """A copy that shares nothing that can be changed with `value`; `value` itself if nothing of it can.

    What occurs twice in `value` is one object in the copy, too. What can't be copied, a socket for example, is returned
    as it is. It can't be sent or stored either.
    """
    kind = type(value)
    # Nearly all values that are not recognised without a call. Each further call would cost a third of this.
    if kind in ATOMS or (kind is tuple and _are_atoms(map(type, value))):
        return value
    try:
        return _COPIERS[kind](value, None)
    except RecursionError:
        # The value is nested too deep for functions in Python.
        return _copy_by_pickling(value)


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


def copy_of_part(value: Any, memo: Memo) -> Any:
    """`own_copy` of a part of a value: what `memo` has a copy of is not copied again."""
    return value if type(value) in ATOMS else _COPIERS[type(value)](value, memo)


def copied_by(kind: type, copier: Copier) -> None:
    """Have instances of exactly this class copied so: by a value and a memo, which is None for a whole record.

    The copier looks into the memo first, and adds its copy before it copies parts, which may refer to the value.
    """
    _COPIERS[kind] = copier


def never_copied(kind: type) -> type:
    """A class decorator: the instances of this class are not changed once they are made."""
    _COPIERS[kind] = _itself
    return kind


def as_it_is(value: Any) -> Any:
    """The value itself, in place of `own_copy`."""
    return value


def _itself(value: Any, memo: Memo | None) -> Any:
    return value


def _copy_by_pickling(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        return value


# The copiers of containers, written out: each further call would cost as much as the copy of a short list.


def _of_tuple(value: tuple[Any, ...], memo: Memo | None) -> tuple[Any, ...]:
    return _with_parts(value, memo, tuple)  # type: ignore[no-any-return]


def _with_parts(value: Any, memo: Memo | None, make: Callable[[list[Any]], Any]) -> Any:
    """A copy of a tuple or frozenset, made of its parts at once; `value` itself if each part is its own copy."""
    atoms = ATOMS
    for part in value:
        if type(part) not in atoms:
            break
    else:
        return value
    if memo is None:
        memo = {}
    elif (known := memo.get(id(value))) is not None:
        return known
    copiers, is_changed, parts = _COPIERS, False, []
    for part in value:
        if type(part) in atoms:
            parts.append(part)
        else:
            own = copiers[type(part)](part, memo)
            is_changed = is_changed or own is not part
            parts.append(own)
    if id(value) in memo:
        # A part refers to the value, and has copied it.
        return memo[id(value)]
    new = memo[id(value)] = make(parts) if is_changed else value
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
    if memo is None:
        memo = {id(value): new}
    flat = _of_flat(value, memo) if len(value) >= _MANY else None
    if flat is not None:
        new[:] = flat
    else:
        copiers = _COPIERS
        new[:] = [item if type(item) in atoms else copiers[type(item)](item, memo) for item in value]
    return new


def _of_flat(items: list[Any], memo: Memo) -> list[Any] | None:
    """Copies of lists, dicts or tuples, all of one type, with nothing in them but atoms; None if `items` are others.

    Many small ones cost half as much without a loop in Python.
    """
    kinds = {*map(type, items)}
    kind: Any = kinds.pop()
    if kinds or kind not in (tuple, list, dict) or not _are_atoms(map(type, chain.from_iterable(items))):
        return None
    if kind is tuple:
        return items
    if kind is dict and not _are_atoms(map(type, chain.from_iterable(map(dict.values, items)))):
        return None
    identities = list(map(id, items))
    if len({*identities}) < len(items) or not memo.keys().isdisjoint(identities):
        return None
    copies = list(map(kind.copy, items))
    memo.update(zip(identities, copies, strict=True))
    return copies


def _of_dict(value: dict[Any, Any], memo: Memo | None) -> dict[Any, Any]:
    if memo and (known := memo.get(id(value))) is not None:
        return known  # type: ignore[no-any-return]
    new = value.copy()
    if memo is not None:
        memo[id(value)] = new
    atoms, copiers = ATOMS, _COPIERS
    for key, item in value.items():
        if type(item) not in atoms:
            if memo is None:
                memo = {id(value): new}
            new[key] = copiers[type(item)](item, memo)
        if type(key) not in atoms:
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
    return _with_parts(value, memo, frozenset)  # type: ignore[no-any-return]


def _of_bytearray(value: bytearray, memo: Memo | None) -> bytearray:
    if memo and (known := memo.get(id(value))) is not None:
        return known  # type: ignore[no-any-return]
    new = value.copy()
    if memo is not None:
        memo[id(value)] = new
    return new


class _Copiers(dict[type, Copier]):
    """How values of a type are copied, by exact type; a class is added when an instance is first seen."""

    def __missing__(self, kind: type) -> Copier:
        copier = self[kind] = _made_for(kind)
        return copier


def _made_for(kind: type) -> Copier:
    if kind in ATOMS or issubclass(kind, (enum.Enum, type, BaseException)) or _is_immutable_elsewhere(kind):
        return _itself
    if hasattr(kind, "__deepcopy__"):
        return _by_its_method
    if issubclass(kind, tuple):
        # Without attributes of its own there is nothing in it but its items.
        return _by_reduction if kind.__dictoffset__ else _for_subclass_of_tuple(kind)
    fields = _fields_of(kind)
    if fields is not None and _is_struct(kind):
        return _for_struct(fields, _is_frozen(kind))
    slots = _slots_of(kind)
    copier: Copier
    if slots is None:
        copier = _by_reduction
    elif not slots:
        # Without attributes either there is nothing in it that can be changed.
        copier = _of_object if kind.__dictoffset__ else _itself
    else:
        copier = _for_object(slots)
    return _unless_frozen_whole(fields, copier) if fields is not None and _is_frozen(kind) else copier


_COPIERS = _Copiers(
    {
        tuple: _of_tuple,
        list: _of_list,
        dict: _of_dict,
        set: _of_set,
        frozenset: _of_frozenset,
        bytearray: _of_bytearray,
    }
)


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
    "__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__",
)  # fmt: skip


def _slots_of(kind: type) -> list[Any] | None:
    """The slots of a class whose instances have nothing but attributes, in slots or in their `__dict__`.

    None if an instance has something else, or its class says how it is copied.
    """
    if kind in copyreg.dispatch_table or any(_is_overridden(kind, name) for name in _PROTOCOLS):
        return None
    slots = [one for base in kind.__mro__ for one in vars(base).values() if isinstance(one, types.MemberDescriptorType)]
    names = [f"slot_{number}" for number in range(len(slots))]
    names += ["__dict__"] * bool(kind.__dictoffset__) + ["__weakref__"] * bool(kind.__weakrefoffset__)
    # A class with as many attributes and nothing else: a type written in C may keep more in its instances.
    alike = type("Alike", (), {"__slots__": names})
    return slots if kind.__basicsize__ == alike.__basicsize__ else None


def _is_overridden(kind: type, protocol: str) -> bool:
    method = getattr(kind, protocol, None)
    # A frozen dataclass with slots has methods for its state that store its fields, and nothing else.
    return method is not getattr(object, protocol, None) and getattr(method, "__module__", "") != "dataclasses"


def _of_object(value: Any, memo: Memo | None) -> Any:
    if memo and (known := memo.get(id(value))) is not None:
        return known
    new = object.__new__(type(value))
    if memo is not None:
        memo[id(value)] = new
    new.__dict__.update(value.__dict__)
    own = new.__dict__
    atoms, copiers = ATOMS, _COPIERS
    for name, part in value.__dict__.items():
        if type(part) not in atoms:
            if memo is None:
                memo = {id(value): new}
            own[name] = copiers[type(part)](part, memo)
    return new


def _for_object(slots: list[Any]) -> Copier:
    access = [(slot.__get__, slot.__set__) for slot in slots]

    def copied(value: Any, memo: Memo | None) -> Any:
        if memo is None:
            memo = {}
        elif (known := memo.get(id(value))) is not None:
            return known
        new = memo[id(value)] = object.__new__(type(value))
        atoms, copiers = ATOMS, _COPIERS
        for get, set_ in access:
            try:
                part = get(value)
            except AttributeError:
                # It has no value.
                continue
            set_(new, part if type(part) in atoms else copiers[type(part)](part, memo))
        for name, part in getattr(value, "__dict__", {}).items():
            new.__dict__[name] = copy_of_part(part, memo)
        return new

    return copied


def _by_its_method(value: Any, memo: Memo | None) -> Any:
    """For classes with `__deepcopy__`; where that fails, what pickle would do."""
    if memo is None:
        memo = {}
    elif (known := memo.get(id(value))) is not None:
        return known
    try:
        new = memo[id(value)] = value.__deepcopy__(memo)
    except RecursionError:
        raise
    except Exception:
        return _by_reduction(value, memo)
    return new


def _by_reduction(value: Any, memo: Memo | None) -> Any:
    """For classes that say how they are pickled, and those written in C: made again of copies of what pickle stores."""
    if memo is None:
        memo = {}
    elif (known := memo.get(id(value))) is not None:
        return known
    try:
        return _made_again(value, memo)
    except RecursionError:
        raise
    except Exception:
        memo[id(value)] = value
        return value


def _made_again(value: Any, memo: Memo) -> Any:
    reduce = copyreg.dispatch_table.get(type(value))
    # Protocol 5 would give arrays away as buffers outside of the pickle.
    reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return value
    # Parts that live only as long as the reduction must not lend their identity to others.
    memo.setdefault(id(memo), []).append(reduced)
    make, args, state, items, pairs, set_state = (*reduced, None, None, None, None)[:6]
    new = make(*[copy_of_part(arg, memo) for arg in args])
    if id(value) in memo:
        # An argument refers to the value, and has copied it.
        return memo[id(value)]
    memo[id(value)] = new
    if state is not None:
        _give_state(new, copy_of_part(state, memo), set_state)
    for item in items or ():
        new.append(_kept_part(item, memo))
    for key, item in pairs or ():
        new[_kept_part(key, memo)] = _kept_part(item, memo)
    return new


def _kept_part(value: Any, memo: Memo) -> Any:
    """A copy of what an iterator has given, which may be the only one to know it."""
    memo[id(memo)].append(value)
    return copy_of_part(value, memo)


def _give_state(new: Any, state: Any, set_state: Callable[[Any, Any], object] | None) -> None:
    """As pickle does it."""
    if set_state is not None:
        set_state(new, state)
    elif hasattr(new, "__setstate__"):
        new.__setstate__(state)
    else:
        attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if attributes:
            new.__dict__.update(attributes)
        for name, part in (slots or {}).items():
            setattr(new, name, part)


def _is_struct(kind: type) -> bool:
    return hasattr(kind, "__struct_config__")


def _is_immutable_elsewhere(kind: type) -> bool:
    """Scalars of numpy and all of Arrow's values. Their packages are not imported for that."""
    package = kind.__module__.partition(".")[0]
    names = {base.__name__ for base in kind.__mro__}
    # A record of a structured array is a view: its fields can be set.
    return package == "pyarrow" or (package == "numpy" and "generic" in names and "void" not in names)


def _for_subclass_of_tuple(kind: type) -> Copier:
    make = getattr(kind, "_make", None)

    def copied(value: Any, memo: Memo | None) -> Any:
        if make is not None:
            return _with_parts(value, memo, make)
        # Copied once, for its parts are in the memo then.
        memo = {} if memo is None else memo
        parts = [copy_of_part(part, memo) for part in value]
        return value if all(map(is_, parts, value)) else _by_reduction(value, memo)

    return copied


def _unless_frozen_whole(fields: tuple[str, ...], copier: Copier) -> Copier:
    """For frozen classes: as it is if all fields are, else as any object."""
    all_atoms = _compiled(fields)

    def copied(value: Any, memo: Memo | None) -> Any:
        try:
            if all_atoms(value):
                return value
        except AttributeError:
            # A field has no value.
            return copier(value, memo)
        if memo is None:
            memo = {}
        elif (known := memo.get(id(value))) is not None:
            return known
        new = copier(value, memo)
        if all(getattr(new, field) is getattr(value, field) for field in fields):
            new = memo[id(value)] = value
        return new

    return copied


def _for_struct(fields: tuple[str, ...], is_frozen: bool) -> Copier:
    from msgspec.structs import force_setattr

    all_atoms = _compiled(fields)

    def copied(value: Any, memo: Memo | None) -> Any:
        is_flat = all_atoms(value)
        if is_flat and is_frozen:
            return value
        if memo and (known := memo.get(id(value))) is not None:
            return known
        if memo is None:
            memo = {}
        new = memo[id(value)] = copy.copy(value)
        if is_flat:
            return new
        is_changed = False
        for field in fields:
            part = getattr(value, field)
            if (own := copy_of_part(part, memo)) is not part:
                is_changed = True
                force_setattr(new, field, own)
        if is_frozen and not is_changed:
            new = memo[id(value)] = value
        return new

    return copied


def _compiled(fields: tuple[str, ...]) -> Callable[[Any], bool]:
    """A function that says whether all these fields are atoms: a loop over them would cost three times as much."""
    test = " and ".join(f"type(value.{field}) in atoms" for field in fields) or "True"
    return eval(f"lambda value: {test}", {"atoms": ATOMS, "type": type})  # type: ignore[no-any-return]
