"""Pickle programs: with cloudpickle, extended by kinds of classes that it does not rebuild, or not exactly.

cloudpickle sends a class of the job's script by value: first an empty class of the same metaclass, then all of its
attributes, one by one. That loses what a metaclass derives from the class body, and fails on attributes that libraries
keep in a class for themselves. Here the empty class has the body that its metaclass needs, and derived attributes are
left out: the receiver derives them again.
"""

from __future__ import annotations

import contextlib
import copyreg
import dataclasses
import enum
import inspect
import io
import sys
import threading
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import cloudpickle
import msgspec

from penstock.engine.plan import decorator_pickling
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.pickled import unpickled

# Make a class of the script again without running the script's code for new classes.
#
# `__init_subclass__` and metaclasses may need arguments, which Python does not keep, and may refuse or count a class
# that they see twice. The effects of the script's own hooks arrive with the classes, so these hooks are not called
# again. Hooks of libraries are called, since a library may register the class in a module of its own.

_HOOK = "__init_subclass__"
_lock = threading.RLock()


@dataclass(frozen=True)
class ClassMaker:
    """Make an empty class, in place of its metaclass."""

    make: Callable[[str, tuple[type, ...], dict[str, Any]], Any]
    """The metaclass, or a callable that replaces it."""
    library_type: type | None
    """If `make` is a metaclass of the script: its first base from a library, which makes the class instead."""
    suspended: tuple[type, ...]
    """Classes whose `__init_subclass__` is not called."""

    @staticmethod
    def of(kind: type, make: Any, is_of_script: Callable[[type], bool]) -> Any:
        """Return the maker of `kind`: a ClassMaker, or `make` if there is nothing to suspend."""
        library_type = None
        if make is type(kind) and is_of_script(make):
            library_type = next(one for one in inspect.getmro(make) if not is_of_script(one))
        suspended = tuple(
            one for one in kind.__mro__[1:] if _HOOK in vars(one) and (is_of_script(one) or _needs_arguments(one))
        )
        return ClassMaker(make, library_type, suspended) if library_type or suspended else make

    def __call__(self, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        with _lock, contextlib.ExitStack() as stack:
            for one in self.suspended:
                stack.enter_context(_without_hook(one))
            if self.library_type is None:
                return self.make(name, bases, body)
            library_type: Any = self.library_type
            made = library_type.__new__(self.make, name, bases, body)
            library_type.__init__(made, name, bases, body)
            return made


def _needs_arguments(kind: type) -> bool:
    hook = vars(kind)[_HOOK]
    try:
        _, *parameters = inspect.signature(hook.__func__).parameters.values()
    except (AttributeError, TypeError, ValueError):
        # The hook is written in C.
        return False
    return any(one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


@contextlib.contextmanager
def _without_hook(kind: Any) -> Iterator[None]:
    """Call the next class's `__init_subclass__` instead of the one of `kind`."""
    hook = vars(kind).get(_HOOK)
    if hook is None:
        # Not set yet: `kind` refers to the class being made.
        yield
        return
    type.__setattr__(kind, _HOOK, classmethod(lambda made, **_: getattr(super(kind, made), _HOOK)()))
    try:
        yield
    finally:
        type.__setattr__(kind, _HOOK, hook)


# Pickle enums of the script with all of their names, and members with their attributes.
#
# cloudpickle sends the values of the members that an enum iterates over, and makes members of them again, without the
# enum's own `__new__` and `__init__`. That loses aliases, named combinations of a Flag, attributes set by `__init__` or
# `__new__`, and the content of members whose `_value_` is something else. Here each name is sent, and each member as
# `copyreg` reduces it. Attributes follow after the class, since they may refer to it.

_TEMPORARY = ("__init__", "__new_member__")
"""Attributes that a class has from this module until its own are set."""


@dataclass(frozen=True)
class MemberMaker:
    """Make an enum's member from its number, in place of the enum's `__new__`."""

    members: list[tuple[tuple[Any, ...], Any]]
    """Arguments for `__new__` of the data type, and the value, by number."""

    def __call__(self, kind: Any, number: Any) -> Any:
        # The number of an enum of tuples is a tuple, as all of its values.
        args, value = self.members[number[0] if isinstance(number, tuple) else number]
        data_type = kind._member_type_
        member = object.__new__(kind) if data_type is object else data_type.__new__(kind, *args)
        member._value_ = value
        return member


def enum_body(kind: type[enum.Enum]) -> dict[str, Any]:
    """Return a class body that makes the members of `kind` under all of their names. Raises TypeError if it cannot."""
    if not kind.__members__:
        return {}
    numbers: dict[int, int] = {}
    made: list[tuple[tuple[Any, ...], Any]] = []
    for member in kind.__members__.values():
        if id(member) not in numbers:
            numbers[id(member)] = len(made)
            made.append((_reduce_member(member)[0], member._value_))
    names = {name: numbers[id(member)] for name, member in kind.__members__.items()}
    return {"__new__": MemberMaker(made), "__init__": _initialize_later, **names}


def enum_attributes(kind: type[enum.Enum], attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of the class `kind` without its members."""
    return {name: value for name, value in attributes.items() if name not in kind.__members__}


def enum_states(kind: type[enum.Enum]) -> dict[str, Any]:
    """Return the state that members have in addition to their value, by name."""
    states = {name: _reduce_member(member)[1] for name, member in kind.__members__.items() if name == member._name_}
    return {name: state for name, state in states.items() if state}


@dataclass(frozen=True)
class EnumSetter:
    """Set the attributes of an enum with `set_class`, then the state of its members."""

    set_class: Callable[[Any, Any], Any]

    def __call__(self, kind: Any, state: tuple[type, Any, dict[str, Any]]) -> Any:
        metaclass, of_class, of_members = state
        if type(kind) is not metaclass:
            # cloudpickle uses the metaclass of the last base.
            kind.__class__ = metaclass
        for name in _TEMPORARY:
            if isinstance(vars(kind).get(name), MemberMaker) or vars(kind).get(name) is _initialize_later:
                delattr(kind, name)
        self.set_class(kind, of_class)
        for name, of_member in of_members.items():
            _set_state(kind.__members__[name], of_member)
        return kind


def _initialize_later(member: Any, number: Any) -> None:
    """Do nothing, in place of an enum's `__init__`: EnumSetter sets the attributes later."""


def _reduce_member(member: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the arguments for `__new__` of the data type, and the state without the metaclass's own attributes."""
    reduced: Any = object.__reduce_ex__(member, 2)
    make, args, *rest = reduced
    if make is copyreg.__newobj__:  # type: ignore[attr-defined]
        args = args[1:]
    elif make is not type(member):
        raise TypeError(f"cannot pickle the enum member {member!r}: its data type is rebuilt by {make!r}")
    state = rest[0] if rest else None
    if isinstance(state, tuple):
        return args, (_without_reserved(state[0] or {}), state[1])
    return args, _without_reserved(state) if isinstance(state, dict) else state


def _without_reserved(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if not (name.startswith("_") and name.endswith("_"))}


def _set_state(member: Any, state: Any) -> None:
    if hasattr(member, "__setstate__"):
        member.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    vars(member).update(attributes)
    for name, value in slots.items():
        object.__setattr__(member, name, value)


# Find submodules that functions use as attributes of packages: `import xml.dom.minidom`, then `xml.dom.minidom.parse`.
#
# A function of the script is sent by value, with the modules that its code names: here, `xml`. The code does not say
# that the script also imported the submodule, so all imported modules are searched for it. cloudpickle searches the
# names in the function's own code, but not in lambdas, comprehensions and functions inside it.


def used_submodules(function: FunctionType, named: Iterable[Any]) -> list[ModuleType]:
    """Return the imported submodules whose names `function` uses. `named`: the globals, packages included, it names."""
    values = [*named, *map(_content_of, function.__closure__ or ())]
    packages = [
        value.__name__ + "." for value in values if isinstance(value, ModuleType) and hasattr(value, "__path__")
    ]
    if not packages:
        return []
    names = _names_in(function.__code__)
    return [
        module
        for name, module in list(sys.modules.items())
        for package in packages
        if name.startswith(package) and names.issuperset(name.removeprefix(package).split("."))
    ]


def _content_of(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # The cell is empty: its variable is not assigned yet.
        return None


def _names_in(code: CodeType) -> set[str]:
    inside = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names_in, inside))


_StructMeta: Any = type(msgspec.Struct)


class _WithFactory(msgspec.Struct):
    field: list[Any] = []


_Factory: Any = type(_WithFactory.__struct_defaults__[0])

# In StructMeta's spelling. `tag` and `tag_field` depend on each other, `kw_only` and `rename` on the fields.
_STRUCT_SETTINGS = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults", "forbid_unknown_fields",
    "weakref", "dict", "cache_hash",
)  # fmt: skip

# As pickle defines it: function, arguments, state, two iterators, setter of the state. Python's own types have two
# parts.
_LENGTH_BY_VALUE = 6
_USUAL_CAUSES = (
    "Usual causes: a module that workers can't import (env.add_python_file sends it), another version of a package, a "
    "failing __setstate__"
)
_DERIVED = ("__msgspec_cache__",)
"""Attributes that libraries keep in classes, and derive again if they are missing."""


def dumps(value: Any) -> bytes:
    """Pickle `value`; functions and classes of the script by value. Raises any error of the pickled objects."""
    with io.BytesIO() as file:
        ProgramPickler(file).dump(value)
        return file.getvalue()


def loads(data: bytes, what: str) -> Any:
    """Unpickle in a worker. Raises ProgramError that names the object as `what`."""
    return unpickled(data, what, _USUAL_CAUSES)


def _with_attributes(operator: Operator, settings: dict[str, Any]) -> Operator:
    vars(operator).update(settings)
    return operator


def _reduced_code(code: types.CodeType) -> tuple[Any, ...]:
    """Keep the file name of code: tracebacks need it to show the user's line, and it marks code made by `dataclass`.

    cloudpickle 3.1.3 and later leave the name out, so that equal functions of notebooks have equal pickles.
    """
    make, args = cloudpickle.Pickler.dispatch_table[types.CodeType](code)
    return _code_of_file, (make, args, code.co_filename)


def _code_of_file(make: Any, args: tuple[Any, ...], filename: str) -> types.CodeType:
    code: types.CodeType = make(*args)
    return code.replace(co_filename=filename)


class ProgramPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickle the parts of a job."""

    # The markers of `dataclasses`, which it compares by identity, are pickled by name.
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
        """Return how to rebuild `obj`, or NotImplemented to leave it to pickle, which sends classes by reference."""
        if isinstance(obj, Operator) and obj.captured is not None:
            return _with_attributes, (obj.captured, {name: getattr(obj, name) for name in obj.set_on_submission})
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
    """Add submodules to cloudpickle's `reduced`, whose state names the modules that the receiver imports."""
    make, args, (attributes, state), *rest = reduced
    submodules = used_submodules(function, state["__globals__"].values())
    return (make, args, (attributes, {**state, "_cloudpickle_submodules": submodules}), *rest)


def _reduced_enum(kind: Any, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace parts of cloudpickle's `reduced`: bases, name, qualified name, values by name, and three of its own."""
    make, args, (attributes, slots), *rest, setter = reduced
    bases, name, qualname, _, *others = args
    of_class = enum_attributes(kind, attributes), slots
    state = type(kind), of_class, enum_states(kind)
    args = (bases, name, qualname, enum_body(kind), *others)
    return (make, args, state, *rest, EnumSetter(setter))


def _with_body(obj: Any, args: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that make the empty class, and the attributes to set afterwards.

    `args` are those of cloudpickle's skeleton classes: metaclass, name, bases, body, and two of its own.
    """
    metaclass, name, bases, body, *others = args
    # Python derives the descriptors of slots from `__slots__`.
    attributes = {name: value for name, value in attributes.items() if not _is_slot(value, obj)}
    if isinstance(obj, _StructMeta):
        attributes.pop("__slots__", None)
        metaclass = _StructMaker.of(obj, metaclass)
    elif typing.is_typeddict(obj) and bases == (dict,):
        # It extends another TypedDict, and has kept that one's fields but not its name.
        bases = (typing.TypedDict,)
    elif issubclass(obj, tuple):
        if typing.Generic in obj.__bases__:
            # A NamedTuple's method, which is derived from Generic among the bases.
            attributes.pop("__class_getitem__", None)
    elif "__slots__" in attributes:
        body = {**body, "__slots__": attributes.pop("__slots__")}
    return (metaclass, name, bases, body, *others), attributes


def _is_slot(value: Any, of: type) -> bool:
    return isinstance(value, types.MemberDescriptorType) and value.__objclass__ is of


@dataclass(frozen=True)
class _StructMaker:
    """Make an empty msgspec Struct class with its fields, which define the layout of its instances."""

    metaclass: Any
    settings: dict[str, Any]
    fields: dict[str, tuple[str, Any, Any]]
    """The class's own fields: encoded name, default, factory of the default."""
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
            # The metaclass keeps the method that it finds in the body; the class's own is set later, as an attribute.
            body["__post_init__"] = _call_post_init
        return self.metaclass(name, bases, body, **self.settings)


def _default(value: Any) -> tuple[Any, Any]:
    return (msgspec.NODEFAULT, value.factory) if isinstance(value, _Factory) else (value, msgspec.NODEFAULT)


def _call_post_init(struct: Any) -> None:
    type(struct).__post_init__(struct)
