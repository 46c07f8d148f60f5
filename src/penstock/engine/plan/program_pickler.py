"""The pickler of programs: cloudpickle, with classes of the kinds that it does not rebuild, or not as they were.

cloudpickle sends a class of the job's script by value: first an empty class of the same metaclass, then all of its
attributes, one by one. That loses what a metaclass makes of the class body, and fails on what libraries keep in a class
for themselves. Here the empty class has the body that its metaclass needs, and what is derived is left out: it is
derived again where the class arrives.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import io
import types
import typing
from collections import ChainMap
from dataclasses import dataclass
from typing import Any, ClassVar

import cloudpickle
import msgspec

from penstock.engine.plan import decorator_pickling, enum_pickling
from penstock.engine.plan.class_maker import ClassMaker
from penstock.engine.plan.used_submodules import used_submodules
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.pickled import unpickled

_StructMeta: Any = type(msgspec.Struct)


class _WithFactory(msgspec.Struct):
    field: list[Any] = []


_Factory: Any = type(_WithFactory.__struct_defaults__[0])
# Spelled as StructMeta takes them. `tag` and `tag_field` depend on each other, `kw_only` and `rename` on the fields.
_STRUCT_SETTINGS = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash",
)  # fmt: skip
# Function, arguments, state, two iterators, setter of the state, as pickle has it. Python's own types have two of them.
_LENGTH_BY_VALUE = 6
_USUAL_CAUSES = (
    "Usual causes: a module that workers can't import (env.add_python_file sends it), another version of a package, a "
    "failing __setstate__"
)
_DERIVED = ("__msgspec_cache__",)
"""Attributes that libraries keep in classes, and make again if they are not there."""


def dumps(value: Any) -> bytes:
    """Pickle `value`; functions and classes of the script by value. Raises what the pickled objects raise."""
    with io.BytesIO() as file:
        ProgramPickler(file).dump(value)
        return file.getvalue()


def loads(data: bytes, what: str) -> Any:
    """Unpickle `what`, in a worker. Raises ProgramError that names it."""
    return unpickled(data, what, _USUAL_CAUSES)


def _as_submitted(operator: Operator, settings: dict[str, Any]) -> Operator:
    vars(operator).update(settings)
    return operator


def _reduced_code(code: types.CodeType) -> tuple[Any, ...]:
    """Code keeps the name of its file: tracebacks show the user's line, and what `dataclass` has made is known by it.

    cloudpickle leaves the name out since 3.1.3, so that equal functions of notebooks have equal pickles.
    """
    make, args = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return _made_of_file, (make, args, code.co_filename)


def _made_of_file(make: Any, args: tuple[Any, ...], filename: str) -> types.CodeType:
    code: types.CodeType = make(*args)
    return code.replace(co_filename=filename)


class ProgramPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles what a job consists of."""

    # What `dataclasses` compares by identity: as names, not as objects of their own. And code.
    dispatch_table: ClassVar[Any] = ChainMap(
        {
            type(dataclasses.MISSING): lambda _: "MISSING",
            type(dataclasses.KW_ONLY): lambda _: "KW_ONLY",
            types.CodeType: _reduced_code,
        },
        decorator_pickling.REDUCERS,
        cloudpickle.Pickler.dispatch_table,
    )

    def reducer_override(self, obj: Any) -> Any:
        """How `obj` is rebuilt; NotImplemented: as pickle would, for a class by reference."""
        if isinstance(obj, Operator) and obj.captured is not None:
            return _as_submitted, (obj.captured, {name: getattr(obj, name) for name in obj.set_on_submission})
        reduced = super().reducer_override(obj)
        if reduced is NotImplemented:
            return reduced
        if decorator_pickling.is_dispatcher(obj):
            return decorator_pickling.reduced_dispatcher(obj)
        if isinstance(obj, types.FunctionType):
            return _with_submodules(obj, reduced)
        if not isinstance(obj, type) or len(reduced) != _LENGTH_BY_VALUE:
            return reduced
        make, args, (attributes, slots), *rest = reduced
        attributes = {name: value for name, value in attributes.items() if name not in _DERIVED}
        attributes["__qualname__"] = obj.__qualname__
        if isinstance(obj, enum.EnumMeta):
            return _reduced_enum(obj, (make, args, (attributes, slots), *rest))
        args, attributes = _with_body(obj, args, attributes)
        metaclass, *others = args
        return (make, (ClassMaker.of(obj, metaclass, self._is_of_script), *others), (attributes, slots), *rest)

    def _is_of_script(self, kind: type) -> bool:
        reduced = super().reducer_override(kind)
        return reduced is not NotImplemented and len(reduced) == _LENGTH_BY_VALUE


def _with_submodules(function: types.FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """`reduced` is cloudpickle's: its state names modules to be imported where the function arrives."""
    make, args, (attributes, state), *rest = reduced
    submodules = used_submodules(function, state["__globals__"].values())
    return (make, args, (attributes, {**state, "_cloudpickle_submodules": submodules}), *rest)


def _reduced_enum(kind: Any, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """`reduced` is cloudpickle's: bases, name, qualified name, values by name, and three of its own."""
    make, args, (attributes, slots), *rest, setter = reduced
    bases, name, qualname, _, *others = args
    of_class = enum_pickling.attributes_of(kind, attributes), slots
    state = type(kind), of_class, enum_pickling.states_of(kind)
    args = (bases, name, qualname, enum_pickling.body_of(kind), *others)
    return (make, args, state, *rest, enum_pickling.EnumSetter(setter))


def _with_body(obj: Any, args: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that make the empty class, and the attributes that it gets then.

    `args`: of cloudpickle's skeleton classes: metaclass, name, bases, body, and two of its own.
    """
    metaclass, name, bases, body, *others = args
    # Made from the slots.
    attributes = {name: value for name, value in attributes.items() if not _is_slot(value, obj)}
    if isinstance(obj, _StructMeta):
        attributes.pop("__slots__", None)
        metaclass = _StructMaker.of(obj, metaclass)
    elif typing.is_typeddict(obj) and bases == (dict,):
        # It extends another one, of which it has kept the fields and not the name.
        bases = (typing.TypedDict,)
    elif issubclass(obj, tuple):
        if typing.Generic in obj.__bases__:
            # Of a NamedTuple: made from Generic among the bases.
            attributes.pop("__class_getitem__", None)
    elif "__slots__" in attributes:
        body = {**body, "__slots__": attributes.pop("__slots__")}
    return (metaclass, name, bases, body, *others), attributes


def _is_slot(value: Any, of: type) -> bool:
    return isinstance(value, types.MemberDescriptorType) and value.__objclass__ is of


@dataclass(frozen=True)
class _StructMaker:
    """Makes an empty class of msgspec's: with its fields, from which the layout of its instances follows."""

    metaclass: Any
    settings: dict[str, Any]
    fields: dict[str, tuple[str, Any, Any]]
    """The fields that are the class's own: the encoded name, the default, the factory of the default."""
    has_post_init: bool

    @staticmethod
    def of(struct: Any, metaclass: Any) -> _StructMaker:
        config = struct.__struct_config__
        settings = {name: getattr(config, name) for name in _STRUCT_SETTINGS}
        settings["tag"] = False if config.tag is None else config.tag
        if config.tag is not None:
            settings["tag_field"] = config.tag_field
        names = struct.__struct_fields__
        encoded = dict(zip(names, struct.__struct_encode_fields__, strict=True))
        defaults = dict(zip(reversed(names), reversed(struct.__struct_defaults__), strict=False))
        own = [name for name in inspect.get_annotations(struct) if name in encoded]
        settings["kw_only"] = bool(own) and not any(name in struct.__match_args__ for name in own)
        fields = {name: (encoded[name], *_default(defaults.get(name, msgspec.NODEFAULT))) for name in own}
        return _StructMaker(metaclass, settings, fields, hasattr(struct, "__post_init__"))

    def __call__(self, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        body = {**body, "__annotations__": dict.fromkeys(self.fields, Any)}
        for field, (encoded, default, factory) in self.fields.items():
            made: Any = msgspec.field
            body[field] = made(default=default, default_factory=factory, name=encoded)
        if self.has_post_init:
            # The metaclass keeps the method that it finds in the body; the true one is an attribute that comes later.
            body["__post_init__"] = _call_post_init
        return self.metaclass(name, bases, body, **self.settings)


def _default(value: Any) -> tuple[Any, Any]:
    return (msgspec.NODEFAULT, value.factory) if isinstance(value, _Factory) else (value, msgspec.NODEFAULT)


def _call_post_init(struct: Any) -> None:
    type(struct).__post_init__(struct)
