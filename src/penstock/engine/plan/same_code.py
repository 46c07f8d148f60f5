"""Compare the code of two values: functions and classes by what they do, not by where they are written.

A script makes new objects each time it runs, and lines move when it is edited. So functions of a script are compared by
their code without file and line, by their defaults and by the values they refer to; its classes by their attributes.
Functions and classes of importable modules are compared by name, because pickles contain only their names.
"""

from __future__ import annotations

import dis
import inspect
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeVar

import cloudpickle.cloudpickle

from penstock.engine.plan.decorator_pickling import is_dispatcher, reduced_dispatcher
from penstock.engine.plan.program_pickler import ProgramPickler
from penstock.engine.runtime.operators.function import CapturedCall
from penstock.engine.runtime.operators.pickled import Pickled

_CLOUDPICKLE = cloudpickle.cloudpickle


def load_separately(pickled: Pickled) -> Any:
    """Unpickle an object to look at it, not to run it. Raises any error of unpickling.

    cloudpickle would load a class of the script as the existing class, and set its attributes again from the pickle.
    Here each load makes its own classes, and the script's do not change.
    """
    return _loads(pickled.data)


def _loads(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, name: str) -> Any:
        """Return the object that the pickle names, or its replacement."""
        return _REPLACEMENTS.get((module_name, name)) or super().find_class(module_name, name)


def _new_class(make: Any, name: str, bases: Any, body: Any, number: Any, extra: Any) -> Any:
    return _CLOUDPICKLE._make_skeleton_class(make, name, bases, body, class_tracker_id=None, extra=extra)


def _new_enum(bases: Any, name: str, qualname: str, members: Any, module: str, number: Any, extra: Any) -> Any:
    return _CLOUDPICKLE._make_skeleton_enum(
        bases, name, qualname, members, module=module, class_tracker_id=None, extra=extra
    )


_REPLACEMENTS: dict[tuple[str, str], Any] = {
    (_CLOUDPICKLE.__name__, "_make_skeleton_class"): _new_class,
    (_CLOUDPICKLE.__name__, "_make_skeleton_enum"): _new_enum,
    ("_pickle", "loads"): _loads,
    ("pickle", "loads"): _loads,
}


_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
_DERIVED = frozenset(
    (
        "__abstractmethods__", "__annotate_func__", "__dict__", "__doc__", "__firstlineno__", "__module__",
        "__msgspec_cache__", "__pydantic_core_schema__", "__pydantic_parent_namespace__", "__pydantic_serializer__",
        "__pydantic_validator__", "__slotnames__", "__static_attributes__", "__weakref__", "_abc_impl", "_use_args_",
    )
)  # fmt: skip
"""Attributes of classes that Python or libraries derive, or that say where the class is written."""
_REFERRING = frozenset(op for name, op in dis.opmap.items() if name in ("LOAD_GLOBAL", "LOAD_NAME"))
_WITHOUT_EFFECT = frozenset(dis.opmap[name] for name in ("CACHE", "EXTENDED_ARG", "NOP"))
"""Instructions without effect. They depend on how a statement is split into lines and on the distance of a jump."""
_READ_LOCALS = frozenset(("dir", "eval", "exec", "locals", "query", "vars"))
"""Functions, one of them pandas', to which the names of variables matter."""
_ADDRESSES = ("cls_ref",)
"""Address of the class in memory, in Pydantic's data about validators."""
_STATE_WITH_SLOTS_LENGTH = 2
"""pickle's state of an object with slots is a pair."""
_HAS_DOCSTRING = 0x4000000
"""A flag of code since Python 3.13. Before, the first constant of a function is its docstring, or None."""


def same_code(one: Any, other: Any, except_for: Iterable[tuple[Any, Any]] = ()) -> bool:
    """Return whether both have the same code. `except_for`: pairs of objects in them that may differ."""
    pairs = list(except_for)
    return bool(describe(one, [a for a, _ in pairs]) == describe(other, [b for _, b in pairs]))


def describe(value: Any, except_for: Iterable[Any] = ()) -> Any:
    """Return tuples of atoms to compare. Objects in `except_for` are described only by their position in it."""
    known = {id(one): (one, ("left out", number)) for number, one in enumerate(except_for)}
    return _Description(known).of(value)


class _Description:
    """Describe objects. `known`: objects and their descriptions by id; it holds the objects, so ids stay unique."""

    def __init__(self, known: dict[int, tuple[Any, Any]]) -> None:
        self._known = known
        self._within: dict[int, int] = {}
        """Depths of the objects being described, to recognize objects that refer to themselves."""

    def of(self, value: Any) -> Any:
        if type(value) in _ATOMS:
            # With the type, since 1, 1.0 and True are equal; repr distinguishes -0.0 and nan.
            return type(value).__name__, repr(value) if isinstance(value, float | complex) else value
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        depth = self._within.get(id(value))
        if depth is not None:
            return "itself", len(self._within) - depth
        self._within[id(value)] = len(self._within)
        try:
            description = self._of_object(value)
        finally:
            del self._within[id(value)]
        self._known[id(value)] = value, description
        return description

    def _all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(self.of(value) for value in values)

    def _of_object(self, value: Any) -> Any:
        for kind, describe in _KINDS:
            if isinstance(value, kind):
                return describe(self, value)
        return self._reduced(value)

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        return "dict", self._all(value.keys()), self._all(value.values())

    def _set(self, value: Iterable[Any]) -> Any:
        return type(value).__name__, tuple(sorted(self._all(value), key=repr))

    def _code(self, code: CodeType) -> Any:
        variables, free, cells = code.co_varnames, code.co_freevars, code.co_cellvars
        count = code.co_argcount + code.co_kwonlyargcount
        reads_locals = not _READ_LOCALS.isdisjoint(code.co_names)
        return (
            code.co_name, _instructions(code), code.co_exceptiontable, code.co_names,
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_HAS_DOCSTRING,
            # Arguments by name, since calls may use it; other variables by order, as instructions do.
            variables[:count], len(variables), len(free), tuple(map(variables.count, cells)),
            (variables, free, cells) if reads_locals else (),
            self._all(_constants(code)),
        )  # fmt: skip

    def _function(self, function: FunctionType) -> Any:
        if is_sent_by_name(function):
            return "by name", function.__module__, function.__qualname__
        if is_dispatcher(function):
            _, functions, registry, *_ = reduced_dispatcher(function)
            return "dispatcher", self._all(functions), self.of(registry)
        names = sorted(_global_names(function.__code__))
        return (
            "function",
            self._code(function.__code__),
            self.of(function.__defaults__),
            self.of(function.__kwdefaults__),
            tuple(self._cell(cell) for cell in function.__closure__ or ()),
            tuple((name, self.of(function.__globals__[name])) for name in names if name in function.__globals__),
            self.of(vars(function)),
        )

    def _cell(self, cell: Any) -> Any:
        try:
            return self.of(cell.cell_contents)
        except ValueError:
            return "empty"

    def _class(self, kind: type) -> Any:
        if is_sent_by_name(kind):
            return "by name", kind.__module__, kind.__qualname__
        attributes = {name: value for name, value in vars(kind).items() if name not in _DERIVED}
        return (
            "class",
            kind.__qualname__,
            self._all(kind.__bases__),
            self._all([type(kind)]),
            tuple((name, self.of(value)) for name, value in sorted(attributes.items())),
            # msgspec's classes keep fields and defaults outside their attributes.
            self._all(getattr(kind, "__struct_fields__", ())),
            self._all(getattr(one, "factory", one) for one in getattr(kind, "__struct_defaults__", ())),
        )

    def _reduced(self, value: Any) -> Any:
        """Describe an object by its pickled parts."""
        # A type variable is pickled with a number that each process draws again.
        reducer = None if isinstance(value, TypeVar) else ProgramPickler.dispatch_table.get(type(value))
        try:
            reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
        except Exception as error:
            # It cannot be pickled either: two such objects are never equal.
            return "not described", type(value).__qualname__, str(error), id(value)
        if isinstance(reduced, str):
            return "by name", type(value).__module__, reduced
        default = _ADDRESSES if type(value).__module__.startswith("pydantic.") else ()
        run_attributes = getattr(type(value), "run_attributes", default)
        parts = [list(part) if isinstance(part, Iterator) else _without(run_attributes, part) for part in reduced]
        return "object", type(value).__qualname__, self._all(parts)


def _without(names: tuple[str, ...], state: Any) -> Any:
    """Return the state of an object without the attributes `names`, which identify the object."""
    if isinstance(state, dict):
        return {name: value for name, value in state.items() if name not in names}
    if isinstance(state, tuple) and len(state) == _STATE_WITH_SLOTS_LENGTH:
        return tuple(_without(names, part) if isinstance(part, dict) else part for part in state)
    return state


def is_sent_by_name(value: Any) -> bool:
    """Return whether a function or class is found by its name in a module other than the script."""
    if value.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(value.__module__ or "")
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _instructions(code: CodeType) -> tuple[tuple[int, int | None], ...]:
    """Return the instructions with an effect: operation and argument, which is the target's number for a jump."""
    found: list[dis.Instruction] = []
    numbers: dict[int, int] = {}
    for one in dis.get_instructions(code):
        numbers[one.offset] = len(found)
        if one.opcode not in _WITHOUT_EFFECT:
            found.append(one)
    jumps = {*dis.hasjrel, *dis.hasjabs}
    return tuple((one.opcode, numbers[one.argval] if one.opcode in jumps else one.arg) for one in found)


def _constants(code: CodeType) -> tuple[Any, ...]:
    """Return the constants without the docstring."""
    constants = code.co_consts
    if sys.version_info >= (3, 13):
        has_docstring = bool(code.co_flags & _HAS_DOCSTRING)
    else:
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")
        has_docstring = is_function and bool(constants) and isinstance(constants[0], str)
    return (None, *constants[1:]) if has_docstring else constants


def _global_names(code: CodeType) -> set[str]:
    """Return the names of globals that a function and the functions inside it refer to."""
    names = {one.argval for one in dis.get_instructions(code) if one.opcode in _REFERRING}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names


_KINDS: list[tuple[Any, Callable[[Any, Any], Any]]] = [
    (CapturedCall, lambda description, value: description.of(load_separately(value.pickled))),
    (FunctionType, _Description._function),
    (type, _Description._class),
    (CodeType, lambda self, code: ("code", self._code(code))),
    (ModuleType, lambda self, module: ("module", module.__name__)),
    (BuiltinFunctionType, lambda self, one: ("built in", one.__qualname__, self.of(_owner(one)))),
    (MethodType, lambda self, one: ("method", one.__name__, self.of(one.__self__))),
    ((staticmethod, classmethod), lambda self, one: (type(one).__name__, self.of(one.__func__))),
    (property, lambda self, one: ("property", self._all((one.fget, one.fset, one.fdel)))),
    ((MemberDescriptorType, GetSetDescriptorType), lambda self, one: ("slot", one.__name__)),
    ((dict, MappingProxyType), _Description._mapping),
    ((set, frozenset), _Description._set),
    (tuple, lambda self, values: (_kind(values, tuple), self._all(values))),
    (list, lambda self, values: (_kind(values, list), self._all(values))),
]


def _owner(function: Any) -> Any:
    owner = getattr(function, "__self__", None)
    return None if isinstance(owner, ModuleType) else owner


def _kind(value: Any, kind: type) -> str:
    return kind.__name__ if type(value) is kind else type(value).__qualname__
