"""Users' classes in state: values are stored by the names of their fields, members of enums by their own names.

Pickle stores NamedTuples, Structs and frozen dataclasses with slots by position, and members of enums by value: a new
field before another would shift all values. In state, each pickle contains a `StoredClass` before the values of a
class, which restores them from names. It sets fields that the class has gained to their defaults, drops fields that it
no longer has, and refuses values that it can't restore. The reasons are in
docs/internals/decisions/0039-classes-in-state.md.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import msgspec

from penstock.common.errors import CheckpointError
from penstock.common.stored import stored_as

Default = Callable[[Any], Any]
"""Returns the value of a missing field of an instance."""
UNSET = None
"""Key in the fields of an instance for the names of fields that were never set."""
COMPUTED = 0
"""Key for the names of cached properties with a value, to which a function may have added since."""


dropped_fields: set[type] = set()
"""Classes whose values were stored with fields that they no longer have: different values may be equal now."""
_restores: dict[type, Callable[..., Any]] = {}


def _restore_of(kind: Any) -> Callable[..., Any]:
    return _restores.get(kind) or StoredClass(kind).restore


@stored_as("class", fields=lambda stored: (stored.kind,), restored_by=_restore_of)
class StoredClass:
    """Restores the values of a class from names. There is one instance for each class in a process.

    A pickle contains it as a call that returns its `restore`, which is called for each value: with the name of a
    member, with the fields of a record by name, or with an object and its fields.
    """

    _known: ClassVar[dict[type, StoredClass]] = {}

    __slots__ = ("defaults", "gets_state", "has_dict", "is_model", "kind", "names", "restore", "sets_state", "slots")

    def __new__(cls, kind: Any) -> StoredClass:
        """Return the instance for this class."""
        known = cls._known.get(kind)
        if known is None:
            known = object.__new__(cls)
            known._describe(kind)
            if isinstance(kind, type):
                cls._known[kind] = known
                _restores[kind] = known.restore
        return known

    def _describe(self, kind: Any) -> None:
        self.kind = kind
        self.defaults: dict[str, Default | None] = defaults_of(kind) or {}
        self.names = list(self.defaults)
        self.is_model = is_pydantic(kind)
        self.slots = frozenset(slots_of(kind))
        self.has_dict = getattr(kind, "__dictoffset__", 0) != 0
        self.sets_state = hasattr(kind, "__setstate__") and not is_generated(kind.__setstate__)
        self.gets_state = not self.is_model and has_own_getstate(kind)
        if "_attrs_cached_hash" in self.slots:
            self.sets_state = True
        self.restore = _restorer(self)

    def __call__(self, *stored: Any) -> Any:
        """Restore a value. Pickle needs a callable here."""
        return self.restore(*stored)

    def member(self, name: str | int, *names: str) -> Any:
        """Return the member of an enum, or the flag of these bits without a name and these names."""
        members = self.kind._member_map_
        missing = [one for one in (name, *names) if isinstance(one, str) and one not in members]
        if missing:
            raise CheckpointError(
                f"the state contains {self}.{missing[0]}, but the enum now has the members {', '.join(members)}. Keep "
                "the name, at least as an alias of another member, or transform the state first"
            )
        if isinstance(name, str):
            return members[name]
        return functools.reduce(operator.or_, map(members.__getitem__, names), self.kind(name))

    def named_tuple(self, fields: dict[str, Any]) -> Any:
        """Return a NamedTuple with these fields."""
        if list(fields) != self.names:
            fields = self.completed(fields)
        # Not by its `__new__`, which may have other parameters from which it computes the fields.
        return tuple.__new__(self.kind, fields.values())

    def struct(self, fields: dict[str, Any]) -> Any:
        """Return a Struct with these fields."""
        if list(fields) != self.names:
            fields = self.completed(fields)
        return self.kind(**fields)

    def new_object(self, fields: dict[str, Any]) -> Any:
        """Return an object with these fields, whose class was a NamedTuple or Struct when it was stored."""
        made = self.kind.__new__(self.kind)
        self.set_fields(made, fields)
        return made

    def set_fields(self, one: Any, state: Any) -> None:
        """Set the fields of an object. `state`: the result of its `__getstate__`, or its fields by name."""
        unset: Iterable[str] = ()
        computed: Iterable[str] = ()
        if type(state) is dict and not self.gets_state:
            # A dict of the class's own `__getstate__` may have these keys, too: it is left as it is.
            unset, computed = state.pop(UNSET, ()), state.pop(COMPUTED, ())
            stored = state.get("__dict__", {}) if self.is_model else state
            if self.names and not stored.keys() - self.slots - {*computed} <= self.defaults.keys():
                dropped_fields.add(self.kind)
        if self.sets_state:
            one.__setstate__(state)
        elif type(state) is dict:
            self._set_attributes(one, state, computed)
        else:
            for part in state if isinstance(state, tuple) else (state,):
                if part:
                    self._set_attributes(one, part)
        if self.defaults and not self._is_whole(state):
            self.complete(one, unset, computed)

    def _is_whole(self, state: Any) -> bool:
        if type(state) is not dict:
            return False
        if self.is_model:
            private = state.get("__pydantic_private__") or {}
            known = self.kind.__private_attributes__.keys()
            return bool(state.get("__dict__", {}).keys() == self.defaults.keys() and private.keys() == known)
        return self.defaults.keys() <= state.keys()

    def _set_attributes(self, one: Any, fields: dict[str, Any], computed: Iterable[str] = ()) -> None:
        if self.has_dict:
            attributes = one.__dict__
            for name, value in fields.items():
                if name in self.slots:
                    object.__setattr__(one, name, value)
                else:
                    # Interned names, so that objects share them and their key table.
                    attributes[sys.intern(name)] = value
            if self.defaults and len(fields) > len(self.defaults):
                _drop_derived(self, attributes, computed)
            return
        for name, value in fields.items():
            if name in self.slots:
                object.__setattr__(one, name, value)

    def complete(self, one: Any, unset: Iterable[str] = (), computed: Iterable[str] = ()) -> None:
        """Set missing fields of an object to their defaults, except those in `unset`."""
        for name, default in self.defaults.items():
            if name in unset or self._has(one, name):
                continue
            if default is None:
                raise self._lacks([name for name in self.names if self._has(one, name)], name)
            object.__setattr__(one, name, default(one))
        if self.is_model:
            _complete_model(self.kind, one, computed)

    def _has(self, one: Any, name: str) -> bool:
        if self.has_dict and name in one.__dict__:
            return True
        # Only for a slot or a descriptor: otherwise the attribute of the class is the default.
        return hasattr(getattr(self.kind, name, None), "__set__") and hasattr(one, name)

    def completed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the fields that the class has now, in order.

        Raises CheckpointError if a field without a default is missing.
        """
        if fields.keys() - self.defaults.keys():
            dropped_fields.add(self.kind)
        completed = {}
        for name, default in self.defaults.items():
            if name in fields:
                completed[name] = fields[name]
            elif default is None:
                raise self._lacks(list(fields), name)
            else:
                completed[name] = default(None)
        return completed

    def _lacks(self, stored: list[str], name: str) -> CheckpointError:
        return CheckpointError(
            f"the state contains values of {self} with the fields {', '.join(stored)}, but the class now has the "
            f"fields {', '.join(self.names)}. Give the field '{name}' a default or its former name, or transform the "
            "state first"
        )

    def __str__(self) -> str:
        return f"{self.kind.__module__}.{self.kind.__qualname__}"


def _restorer(stored: StoredClass) -> Callable[..., Any]:
    kind = stored.kind
    if not isinstance(kind, type):
        raise CheckpointError(f"the state contains values of a class that is now {kind!r}, which is not a class")
    if issubclass(kind, enum.Enum):
        return stored.member
    if issubclass(kind, msgspec.Struct):
        return stored.struct
    if issubclass(kind, tuple):
        return stored.named_tuple
    if stored.sets_state or stored.is_model or not (stored.has_dict or stored.slots):
        return functools.partial(_object, stored)
    if stored.has_dict and not stored.slots and not stored.names:
        return functools.partial(_plain_object, stored)
    if stored.has_dict and not stored.slots:
        return functools.partial(_object_with_dict, stored, stored.names)
    return functools.partial(_object_with_slots, stored, stored.names)


def _object(stored: StoredClass, one: Any, *state: Any) -> Any:
    """Set the fields of an object, or create one if its class was of another kind when it was stored."""
    if type(one) in (int, str):
        # A member of an enum that can't be imported, whose class is a placeholder.
        return stored.kind(one, *state)
    return stored.set_fields(one, *state) if state else stored.new_object(one)


def _plain_object(stored: StoredClass, one: Any, *state: Any) -> Any:
    if state and type(state[0]) is dict:
        attributes = one.__dict__
        for name, value in state[0].items():
            # Interned names, so that objects of several pickles share them and their key table.
            attributes[sys.intern(name)] = value
        return None
    return _object(stored, one, *state)


def _object_with_dict(stored: StoredClass, names: list[str], one: Any, *state: Any) -> Any:
    if state and [*state[0]] == names:
        attributes = one.__dict__
        for name, value in zip(names, state[0].values(), strict=True):
            attributes[name] = value
        return None
    return _object(stored, one, *state)


def _object_with_slots(stored: StoredClass, names: list[str], one: Any, *state: Any) -> Any:
    if state and [*state[0]] == names:
        for name, value in zip(names, state[0].values(), strict=True):
            object.__setattr__(one, name, value)
        return None
    return _object(stored, one, *state)


def is_generated(method: Any) -> bool:
    """Return whether `dataclass` or attrs has generated this method, which pickles only the fields."""
    return getattr(method, "__module__", None) in ("dataclasses", "attr._make")


def has_own_getstate(kind: Any) -> bool:
    """Return whether the class, or one of its bases, defines what is stored of its objects."""
    method: Any = getattr(kind, "__getstate__", None)
    return method is not getattr(object, "__getstate__", None) and not is_generated(method)


def is_pydantic(kind: Any) -> bool:
    """Return whether the class is a pydantic model or dataclass."""
    return hasattr(kind, "__pydantic_fields__") and hasattr(kind, "__pydantic_private__")


def slots_of(kind: Any) -> Iterable[str]:
    """Return the names of all slots of a class, as attribute names."""
    for base in getattr(kind, "__mro__", ()):
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__dict__", "__weakref__"):
                continue
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{base.__name__.lstrip('_')}{name}"
            yield name


def defaults_of(kind: Any) -> dict[str, Default | None] | None:
    """Return the fields that a class declares, in order, with their defaults; None if it declares no fields."""
    if not isinstance(kind, type):
        return None
    if issubclass(kind, msgspec.Struct):
        return {field.name: _of_struct(field) for field in _struct_fields(kind)}
    if issubclass(kind, tuple):
        given = getattr(kind, "_field_defaults", {})
        return {name: _same(given[name]) if name in given else None for name in getattr(kind, "_fields", ())}
    models: Any = getattr(kind, "__pydantic_fields__", None)
    if dataclasses.is_dataclass(kind) and models:
        return {field.name: _of_model(models[field.name]) for field in dataclasses.fields(kind)}
    if dataclasses.is_dataclass(kind):
        return {field.name: _of_dataclass(field) for field in dataclasses.fields(kind)}
    if hasattr(kind, "__attrs_attrs__"):
        return {attribute.name: _of_attrs(attribute) for attribute in kind.__attrs_attrs__}
    if is_pydantic(kind):
        return {name: _of_model(field) for name, field in models.items()}
    return None


def _same(value: Any) -> Default:
    return lambda _: value


class _StructField(msgspec.Struct):
    name: str
    default: Any


def _struct_fields(kind: Any) -> list[_StructField]:
    # Not msgspec.structs.fields, which evaluates type hints.
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = len(names) - len(defaults)
    return [
        _StructField(name, defaults[at - required] if at >= required else msgspec.NODEFAULT)
        for at, name in enumerate(names)
    ]


def _of_struct(field: _StructField) -> Default | None:
    default = field.default
    if default is msgspec.NODEFAULT:
        return None
    factory = getattr(default, "factory", None) if type(default).__module__.startswith("msgspec") else None
    return _same(default) if factory is None else lambda _: factory()


def _of_dataclass(field: dataclasses.Field[Any]) -> Default | None:
    if field.default is not dataclasses.MISSING:
        return _same(field.default)
    factory = field.default_factory
    return None if factory is dataclasses.MISSING else lambda _: factory()


def _of_attrs(attribute: Any) -> Default | None:
    import attr

    default = attribute.default
    if default is attr.NOTHING:
        return None
    convert = attribute.converter if isinstance(attribute.converter, Callable) else None  # type: ignore[arg-type]
    if isinstance(convert, attr.Converter):
        convert = None

    def made(one: Any) -> Any:
        value = default
        if isinstance(default, attr.Factory):  # type: ignore[arg-type]
            value = default.factory(one) if default.takes_self else default.factory()
        return convert(value) if convert is not None else value

    return made


def _of_model(field: Any) -> Default | None:
    if field.is_required():
        return None

    def made(one: Any) -> Any:
        if field.default_factory is not None and field.default_factory_takes_validated_data:
            return field.get_default(call_default_factory=True, validated_data=one.__dict__)
        return field.get_default(call_default_factory=True)

    return made


def _drop_derived(stored: StoredClass, attributes: dict[str, Any], computed: Iterable[str]) -> None:
    """Drop attributes that are cached properties of the class now and were fields before.

    `computed`: names of properties that were cached properties already when the object was stored.
    """
    for name in [*attributes]:
        if name not in stored.defaults and name not in computed and name in cached_properties(stored.kind):
            del attributes[name]


@functools.cache
def cached_properties(kind: type) -> frozenset[str]:
    """Return the names of the cached properties of a class."""
    found = {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}
    return frozenset(name for name, value in found.items() if isinstance(value, functools.cached_property))


def _complete_model(kind: Any, model: Any, computed: Iterable[str]) -> None:
    """Drop fields that a model no longer has, and add private attributes that it has gained."""
    for name in [name for name in model.__dict__ if name not in kind.__pydantic_fields__ and name not in computed]:
        del model.__dict__[name]
    private = getattr(model, "__pydantic_private__", None) or {}
    gained = {name: one.get_default() for name, one in kind.__private_attributes__.items() if name not in private}
    if gained:
        object.__setattr__(model, "__pydantic_private__", {**gained, **private})
