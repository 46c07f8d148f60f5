"""Pickle stored values: objects of users' classes by the names of their fields (`common/values/stored_class.py`).

`pickle.loads` reads them. Only stored values are written this way: values that travel between tasks are read by the
program that wrote them.
"""

from __future__ import annotations

import copyreg
import enum
import io
import pickle
from collections.abc import Callable
from operator import attrgetter, methodcaller
from typing import Any, ClassVar

import msgspec

from penstock.common.functions import script_functions
from penstock.common.values.stored_class import COMPUTED, UNSET, StoredClass, cached_properties, has_own_getstate

PROTOCOL = 5
_REUSED_BYTES = 4_096
_Reduce = Callable[[Any], Any]
_usual: _Reduce = methodcaller("__reduce_ex__", PROTOCOL)
_object: Any = object


class _Reducers(dict[type, _Reduce]):
    """Type -> the function that reduces its values, determined when the first one is stored."""

    def __missing__(self, kind: type) -> _Reduce:
        reduce = self[kind] = _reducer_of(kind)
        return reduce


class StatePickler(pickle.Pickler):
    """Pickles stored values."""

    dispatch_table: ClassVar[Any] = _Reducers()  # type: ignore[misc]


class _WithFunctions(StatePickler):
    """A slower StatePickler for values that contain copies of the script's functions."""

    def reducer_override(self, value: Any) -> Any:
        return script_functions.reduce_function(value)


_free: list[tuple[io.BytesIO, StatePickler]] = []
"""Unused picklers. Creating one costs twice as much as pickling a number."""


def dumps(value: Any) -> bytes:
    """Pickle a value of state. Raises the errors of pickle."""
    # Tasks and the threads that write snapshots pickle at the same time: each removes its own pickler.
    try:
        file, pickler = _free.pop()
    except IndexError:
        file = io.BytesIO()
        pickler = StatePickler(file, PROTOCOL)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, AttributeError):
        with io.BytesIO() as file:
            _WithFunctions(file, PROTOCOL).dump(value)
            return file.getvalue()
    data = file.getvalue()
    # A pickler is not reused after an error, since its file holds a partial pickle, nor after a large value, since its
    # memo does not shrink and is cleared entry by entry.
    if len(data) <= _REUSED_BYTES:
        pickler.clear_memo()
        file.seek(0)
        file.truncate()
        _free.append((file, pickler))
    return data


def _reducer_of(kind: Any) -> _Reduce:
    registered: Any = copyreg.dispatch_table.get(kind)
    if registered is not None:
        return registered  # type: ignore[no-any-return]
    if issubclass(kind, type):
        # Instances of metaclasses are classes: by name.
        return lambda one: one.__qualname__
    if issubclass(kind, enum.Enum):
        return _member_reducer(kind) if kind.__reduce_ex__ is enum.Enum.__reduce_ex__ else _usual
    if kind.__reduce_ex__ is not _object.__reduce_ex__:
        return _usual
    if issubclass(kind, msgspec.Struct):
        return _struct_reducer(kind) if kind.__reduce__ is msgspec.Struct.__reduce__ else _usual
    if kind.__reduce__ is not _object.__reduce__:
        return _usual
    if issubclass(kind, tuple):
        return _tuple_reducer(kind) if hasattr(kind, "_fields") and hasattr(kind, "_field_defaults") else _usual
    return _object_reducer(kind)


def _member_reducer(kind: Any) -> _Reduce:
    stored, members = StoredClass(kind), kind._member_map_

    def reduce(member: Any) -> Any:
        name = member._name_
        if name in members:
            return stored, (name,)
        if not isinstance(member, enum.Flag):
            # Created by `_missing_`: the enum does not know its name.
            return _usual(member)
        single = [one for one in kind if one._value_ & member._value_]
        rest = member._value_
        for one in single:
            rest &= ~one._value_
        return stored, (rest, *(one._name_ for one in single))

    return reduce


def _struct_reducer(kind: Any) -> _Reduce:
    stored, fields_of = StoredClass(kind), msgspec.structs.asdict
    return lambda struct: (stored, (fields_of(struct),))


def _tuple_reducer(kind: Any) -> _Reduce:
    stored, names = StoredClass(kind), kind._fields
    if kind.__dictoffset__:
        return lambda record: (stored, (dict(zip(names, record, strict=True)),), record.__dict__ or None)
    return lambda record: (stored, (dict(zip(names, record, strict=True)),))


def _object_reducer(kind: Any) -> _Reduce:
    stored = StoredClass(kind)
    own_getstate = has_own_getstate(kind)
    names, required = stored.names, stored.defaults.keys()
    if not names and (own_getstate or stored.sets_state):
        # The class itself defines what is stored and how it is read.
        return _usual
    if not own_getstate and _has_only_fields(kind, stored) and (names or kind.__dictoffset__):
        return _fields_reducer(kind, stored)
    properties = cached_properties(kind) - required if kind.__dictoffset__ else frozenset()
    by_position = getattr(kind.__getstate__, "__module__", None) == "dataclasses"

    def reduce(one: Any) -> Any:
        make, args, state, items, entries = one.__reduce_ex__(PROTOCOL)
        if stored.is_model and type(state) is dict:
            state = _with_computed(state, one, properties)
        if own_getstate or (state is None and not names):
            return make, args, state, items, entries, stored
        if by_position:
            state = dict(zip(names, state, strict=True))
        elif state is None:
            state = {}
        elif type(state) is tuple:
            state = {**(state[0] or {}), **state[1]}
        if not required <= state.keys():
            state = {**state, UNSET: [name for name in names if name not in state]}
        return make, args, _with_computed(state, one, properties), items, entries, stored

    return reduce


def _with_computed(state: dict[Any, Any], one: Any, properties: frozenset[str]) -> dict[Any, Any]:
    """Return the fields of an object, and the names of cached properties that have a value in it."""
    if not properties or properties.isdisjoint(one.__dict__):
        return state
    return {**state, COMPUTED: [name for name in one.__dict__ if name in properties]}


def _has_only_fields(kind: Any, stored: StoredClass) -> bool:
    """Whether the state of its objects is in attributes only: in a dict, or in slots that are fields."""
    if kind.__new__ is not _object.__new__:
        return False
    if stored.slots if kind.__dictoffset__ else not stored.slots <= stored.defaults.keys():
        return False
    return not any(hasattr(kind, name) for name in ("__getnewargs__", "__getnewargs_ex__"))


def _fields_reducer(kind: Any, stored: StoredClass) -> _Reduce:
    """Return a reducer that skips the lookups that `__reduce_ex__` makes for each object."""
    names, required, args = stored.names, stored.defaults.keys(), (kind,)
    make: Any = copyreg.__newobj__  # type: ignore[attr-defined]
    values_of = attrgetter(*names) if names else None
    properties = cached_properties(kind) - required if names else frozenset()

    def reduce_with_dict(one: Any) -> Any:
        state = one.__dict__
        if not state and not names:
            return make, args
        if not required <= state.keys():
            state = {**state, UNSET: [name for name in names if name not in state]}
        if properties:
            state = _with_computed(state, one, properties)
        return make, args, state, None, None, stored

    def reduce_with_slots(one: Any) -> Any:
        try:
            values = values_of(one)  # type: ignore[misc]
        except AttributeError:
            state: Any = {name: getattr(one, name) for name in names if hasattr(one, name)}
            state[UNSET] = [name for name in names if name not in state]
            return make, args, state, None, None, stored
        return make, args, dict(zip(names, values if len(names) > 1 else (values,), strict=True)), None, None, stored

    return reduce_with_dict if kind.__dictoffset__ else reduce_with_slots
