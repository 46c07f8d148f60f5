"""Copiers of instances of classes. A copier is created once for each class, from its definition.

`container_copies` has the copiers of containers, and the table of all copiers.
"""

from __future__ import annotations

import copy
import copyreg
import dataclasses
import enum
import types
from collections.abc import Callable
from operator import is_
from typing import Any

from penstock.common.values.container_copies import ATOMS, COPIERS, Copier, Memo, copy_of_part, itself, with_parts


def copier_of(kind: type) -> Copier:
    """Return the copier of instances of this class."""
    if kind in ATOMS or issubclass(kind, (enum.Enum, type, BaseException)) or _is_immutable_elsewhere(kind):
        return itself
    if hasattr(kind, "__deepcopy__"):
        return _of_frame if _is_frame(kind) else _by_its_method
    if issubclass(kind, tuple):
        # Without a `__dict__` it has only its items.
        return _by_reduction if kind.__dictoffset__ else _for_subclass_of_tuple(kind)
    fields = _fields_of(kind)
    if fields is not None and _is_struct(kind):
        return _for_struct(fields, _is_frozen(kind))
    slots = _slots_of(kind)
    copier: Copier
    if slots is None:
        copier = _by_reduction
    elif not slots:
        # Without a `__dict__` as well, nothing in it can be changed.
        copier = _of_object if kind.__dictoffset__ else itself
    else:
        copier = _for_object(slots)
    return _unless_frozen_whole(fields, copier) if fields is not None and _is_frozen(kind) else copier


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """Return the fields of a dataclass or msgspec.Struct, or None for other classes."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    return getattr(kind, "__struct_fields__", None)


def _is_frozen(kind: type) -> bool:
    if dataclasses.is_dataclass(kind):
        # `vars`, because a subclass that is not a dataclass itself may have further attributes, which can be changed.
        return "__dataclass_params__" in vars(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return _is_struct(kind) and bool(kind.__struct_config__.frozen)  # type: ignore[attr-defined]


_PROTOCOLS = (
    "__new__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__",
)  # fmt: skip


def _slots_of(kind: type) -> list[Any] | None:
    """Return the slots of a class whose instances have only attributes, in slots or `__dict__`.

    Returns None if instances contain something else, or the class defines how to copy or pickle them.
    """
    if kind in copyreg.dispatch_table or any(_is_overridden(kind, name) for name in _PROTOCOLS):
        return None
    slots = [one for base in kind.__mro__ for one in vars(base).values() if isinstance(one, types.MemberDescriptorType)]
    names = [f"slot_{number}" for number in range(len(slots))]
    names += ["__dict__"] * bool(kind.__dictoffset__) + ["__weakref__"] * bool(kind.__weakrefoffset__)
    # Compare with a class that has only these attributes: instances of types written in C may contain more.
    alike = type("Alike", (), {"__slots__": names})
    return slots if kind.__basicsize__ == alike.__basicsize__ else None


def _is_overridden(kind: type, protocol: str) -> bool:
    method = getattr(kind, protocol, None)
    # The generated methods of a frozen dataclass with slots store only its fields.
    return method is not getattr(object, protocol, None) and getattr(method, "__module__", "") != "dataclasses"


def _of_object(value: Any, memo: Memo | None) -> Any:
    if memo and (known := memo.get(id(value))) is not None:
        return known
    new = object.__new__(type(value))
    if memo is not None:
        memo[id(value)] = new
    new.__dict__.update(value.__dict__)
    attributes = new.__dict__
    atoms, copiers = ATOMS, COPIERS
    for name, part in value.__dict__.items():
        if type(part) not in atoms:
            if memo is None:
                memo = {id(value): new}
            attributes[name] = copiers[type(part)](part, memo)
    return new


def _for_object(slots: list[Any]) -> Copier:
    access = [(slot.__get__, slot.__set__) for slot in slots]

    def copied(value: Any, memo: Memo | None) -> Any:
        if memo is None:
            memo = {}
        elif (known := memo.get(id(value))) is not None:
            return known
        new = memo[id(value)] = object.__new__(type(value))
        atoms, copiers = ATOMS, COPIERS
        for get, set_ in access:
            try:
                part = get(value)
            except AttributeError:
                # The slot has no value.
                continue
            set_(new, part if type(part) in atoms else copiers[type(part)](part, memo))
        for name, part in getattr(value, "__dict__", {}).items():
            new.__dict__[name] = copy_of_part(part, memo)
        return new

    return copied


def _by_its_method(value: Any, memo: Memo | None) -> Any:
    """Copy by `__deepcopy__`, or, if that fails, as pickle does."""
    if memo is None:
        memo = {}
    elif (known := memo.get(id(value))) is not None:
        return known
    before = len(memo)
    try:
        new = memo[id(value)] = value.__deepcopy__(memo)
    except RecursionError:
        raise
    except Exception:
        # `copy.deepcopy` adds a container to the memo before it copies its items: these copies are incomplete.
        while len(memo) > before:
            memo.popitem()
        return _by_reduction(value, memo)
    return new


def _is_frame(kind: type) -> bool:
    """Return whether the class is a DataFrame or Series of pandas, without importing pandas."""
    return any(
        base.__name__ in ("DataFrame", "Series") and base.__module__.partition(".")[0] == "pandas"
        for base in kind.__mro__
    )


def _of_frame(value: Any, memo: Memo | None) -> Any:
    """Copy a frame of pandas. The copies of pandas share the lists and other objects in cells."""
    dtypes = value.dtypes if value.ndim > 1 else [value.dtype]
    has_objects = any(dtype.kind == "O" for dtype in dtypes)
    return (_by_reduction if has_objects else _by_its_method)(value, memo)


def _by_reduction(value: Any, memo: Memo | None) -> Any:
    """Copy as pickle does, for classes that define their pickling and for classes written in C."""
    if memo is None:
        memo = {}
    elif (known := memo.get(id(value))) is not None:
        return known
    try:
        return _rebuilt(value, memo)
    except RecursionError:
        raise
    except Exception:
        memo[id(value)] = value
        return value


def _rebuilt(value: Any, memo: Memo) -> Any:
    reduce = copyreg.dispatch_table.get(type(value))
    # Protocol 5 would pass arrays as buffers outside of the pickle.
    reduced = reduce(value) if reduce is not None else value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return value
    # Keep temporary parts alive, so that no other object gets the same id while the memo is in use.
    memo.setdefault(id(memo), []).append(reduced)
    make, args, state, items, pairs, set_state = (*reduced, None, None, None, None)[:6]
    new = make(*[copy_of_part(arg, memo) for arg in args])
    if id(value) in memo:
        # An argument refers to the value, whose copy was created with the argument.
        return memo[id(value)]
    memo[id(value)] = new
    if state is not None:
        _set_state(new, copy_of_part(state, memo), set_state)
    for item in items or ():
        new.append(_copy_of_temporary(item, memo))
    for key, item in pairs or ():
        new[_copy_of_temporary(key, memo)] = _copy_of_temporary(item, memo)
    return new


def _copy_of_temporary(value: Any, memo: Memo) -> Any:
    """Return a copy of an item of an iterator. The memo keeps the item alive, as its id is a key of the memo."""
    memo[id(memo)].append(value)
    return copy_of_part(value, memo)


def _set_state(new: Any, state: Any, set_state: Callable[[Any, Any], object] | None) -> None:
    """Set the state as pickle does."""
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
    """Return whether it is a scalar of numpy or a class of Arrow, without importing their packages."""
    package = kind.__module__.partition(".")[0]
    names = {base.__name__ for base in kind.__mro__}
    # A record of a structured array is a view, whose fields can be set.
    return package == "pyarrow" or (package == "numpy" and "generic" in names and "void" not in names)


def _for_subclass_of_tuple(kind: type) -> Copier:
    make = getattr(kind, "_make", None)

    def copied(value: Any, memo: Memo | None) -> Any:
        if make is not None:
            return with_parts(value, memo, make)
        # `_by_reduction` finds the copies of the parts in the memo.
        memo = {} if memo is None else memo
        parts = [copy_of_part(part, memo) for part in value]
        return value if all(map(is_, parts, value)) else _by_reduction(value, memo)

    return copied


def _unless_frozen_whole(fields: tuple[str, ...], copier: Copier) -> Copier:
    """Return a copier for frozen classes: it returns the value itself if all fields are immutable."""
    all_atoms = _compiled(fields)

    def copied(value: Any, memo: Memo | None) -> Any:
        try:
            if all_atoms(value):
                return value
        except AttributeError:
            # A field without a value.
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
            if (copied_part := copy_of_part(part, memo)) is not part:
                is_changed = True
                force_setattr(new, field, copied_part)
        if is_frozen and not is_changed:
            new = memo[id(value)] = value
        return new

    return copied


def _compiled(fields: tuple[str, ...]) -> Callable[[Any], bool]:
    """Return a function that tests whether all fields are atoms. A loop over them would cost three times as much."""
    test = " and ".join(f"type(value.{field}) in atoms" for field in fields) or "True"
    return eval(f"lambda value: {test}", {"atoms": ATOMS, "type": type})  # type: ignore[no-any-return]
