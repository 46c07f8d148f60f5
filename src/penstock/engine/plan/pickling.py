"""Serialize programs: each operator separately with cloudpickle, and the classes and functions of the job's script.

Records whose class is defined in the script are pickled by reference to `__main__`, between tasks and in snapshots. The
classes of the script are therefore sent once and set into the worker's `__main__`, where such references resolve.
cloudpickle tracks the classes it has loaded: operators pickled by value refer to the same class objects. The script
does not run again, so it does not need `if __name__ == "__main__"`; notebooks work the same way
(docs/internals/decisions/0001).
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import reduction
from types import CodeType, FunctionType, MethodType
from typing import Any, ForwardRef

from penstock.common.errors import ProgramError
from penstock.common.functions.driver_only import DriverOnly
from penstock.common.functions.script_functions import SCRIPT, found_in_script, is_script_function, same_function
from penstock.engine.plan import program_pickler
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.vertex import ChainNode, LevelSpec, VertexSpec

# Find the part of a function that cannot be pickled, and name it as the user's code does.
#
# A function is pickled with the variables that it refers to, an object with its attributes; pickle's error names only
# the type of the part on which it failed, which may be far behind the variable.

_STEPS_MAX = 50
_ITEMS_MAX = 1000


@dataclass(frozen=True)
class UnpicklablePart:
    """An object that cannot be pickled though its parts can. `name`: how code refers to it, or empty."""

    value: Any
    name: str


def find_unpicklable(value: Any, can_be_pickled: Callable[[Any], bool]) -> UnpicklablePart:
    """Return the innermost part of `value` that cannot be pickled."""
    name, seen = "", {id(value)}
    while len(seen) < _STEPS_MAX and not isinstance(value, DriverOnly):
        failing = (part for part in _parts(value) if id(part[1]) not in seen and not can_be_pickled(part[1]))
        found = next(failing, None)
        if found is None:
            break
        step, part = found
        # A variable needs no path; before the first one come only penstock's objects and the user's function.
        name = step if step.isidentifier() else (name or type(value).__name__) + step
        value = part
        seen.add(id(value))
    return UnpicklablePart(value, name)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts that are pickled with `value`: a variable's name, `.attribute` or `[key]`, and the object."""
    if isinstance(value, FunctionType):
        yield from _variables(value)
    elif isinstance(value, MethodType):
        yield "self", value.__self__
    elif isinstance(value, functools.partial):
        yield from _items([value.func, *value.args])
        yield from value.keywords.items()
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in list(value.items())[:_ITEMS_MAX])
    elif isinstance(value, (list, tuple)):
        yield from _items(value)
    else:
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _items(values: Any) -> Iterator[tuple[str, Any]]:
    return ((f"[{position}]", part) for position, part in enumerate(values[:_ITEMS_MAX]))


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            """The variable has no value yet."""
    for name in dict.fromkeys(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes that a function and the functions inside it refer to."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def install_in_process_pools() -> None:
    """Make `multiprocessing` send the script's functions and classes to the processes that a user's function starts.

    Pickles for these processes name functions and classes of `__main__`. After `fork` that is the worker's `__main__`,
    which has them. After `spawn` and `forkserver` it is a new module: so pickles also contain the function or class,
    which is set into the new `__main__` when it is first needed. Lambdas and nested functions are always sent by value.
    """
    _top_level.cache_clear()
    pickler: Any = reduction.ForkingPickler
    pickler.reducer_override = _reduce


def _reduce(pickler: Any, value: Any) -> Any:
    is_class = isinstance(value, type) and value.__module__ == SCRIPT
    if not is_class and not is_script_function(value):
        return NotImplemented
    name = value.__qualname__
    found = found_in_script(name)
    if found is value or (not is_class and same_function(found, value)):
        top = name.partition(".")[0]
        return script_object, (name, _top_level(top))
    return pickle.loads, (program_pickler.dumps(value),)


@functools.lru_cache(256)
def _top_level(name: str) -> bytes:
    return program_pickler.dumps(found_in_script(name))


def script_object(name: str, data: bytes) -> Any:
    """Return the script's function or class `name`.

    `data`: the pickled object of the first part of the name, for a process whose `__main__` does not have it.
    """
    found = found_in_script(name)
    if getattr(found, "__module__", None) != SCRIPT:
        install_in_process_pools()
        setattr(sys.modules[SCRIPT], name.partition(".")[0], pickle.loads(data))
        found = found_in_script(name)
    return found


_BYTES_MAX = 1_000_000
"""Limit of the pickled functions of a script, which may refer to large objects."""


@dataclasses.dataclass
class ScriptNames:
    """Look up functions of the script that a worker's `__main__` does not have yet (PEP 562), for pickle.

    Functions are loaded when a pickle first needs one: most are not used in values, and some import modules that only
    the driver has. Classes are set into `__main__` by `load_main_classes`.
    """

    functions: dict[str, bytes]
    left_out: dict[str, str]
    """The reasons why classes of the script could not be pickled, by name."""
    _loaded: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, name: str) -> Any:
        if name in self.functions:
            if name not in self._loaded:
                self._loaded[name] = program_pickler.loads(self.functions[name], f"the script's function '{name}'")
            return self._loaded[name]
        if name not in self.left_out:
            raise AttributeError(f"module '__main__' has no attribute '{name}'")
        # Not an AttributeError, which pickle would replace by one without the reason.
        raise ProgramError(
            f"the worker does not have class '{name}' of the job's script, because the driver could not pickle it: "
            f"{self.left_out[name]}. Remove objects from the class that are open or bound to a process, or move the "
            "class to a module that workers can import (env.add_python_file sends it)"
        )

    def install(self) -> None:
        """Make `__main__` of this process use this object, in place of an earlier one."""
        names = vars(sys.modules[SCRIPT])
        if self.functions or self.left_out:
            names["__getattr__"] = self
        elif isinstance(names.get("__getattr__"), ScriptNames):
            del names["__getattr__"]


def dump_functions(defined: dict[str, Any]) -> dict[str, bytes]:
    """Pickle the script's functions with the objects they refer to. Skip functions that fail or are too large."""
    received = defined.get("__getattr__")
    dumped = dict(received.functions) if isinstance(received, ScriptNames) else {}
    left = _BYTES_MAX
    for name, function in defined.items():
        if is_script_function(function) and function.__qualname__ == name:
            with _LimitedFile(left) as file:
                try:
                    program_pickler.ProgramPickler(file).dump(function)
                except Exception:
                    continue
                dumped[name] = file.getvalue()
            left -= len(dumped[name])
    return dumped


class _LimitedFile(io.BytesIO):
    """A buffer that refuses more than `bytes_max`: pickling a function that refers to gigabytes ends early."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__()
        self._left = bytes_max

    def write(self, data: Any) -> int:
        self._left -= memoryview(data).nbytes
        if self._left < 0:
            raise BufferError(f"larger than {_BYTES_MAX} bytes")
        return super().write(data)


@dataclasses.dataclass
class _PickledOperator:
    name: str
    data: bytes


def dump_level(level: LevelSpec) -> bytes:
    """Serialize a level. Raises ProgramError that names the operator whose function cannot be pickled."""
    vertices = []
    for vertex in level.vertices:
        nodes = [dataclasses.replace(node, operator=_dump_operator(node.operator)) for node in vertex.nodes]
        vertices.append(dataclasses.replace(vertex, nodes=nodes))
    sent = dataclasses.replace(level, vertices=vertices)
    try:
        return program_pickler.dumps(sent)
    except Exception as error:
        raise unpicklable(error, sent, "a key selector, partitioner or split can't be pickled") from error


def load_level(data: bytes) -> LevelSpec:
    """Deserialize a level with its own copies of the operators. Raises ProgramError that names the part that fails."""
    level: LevelSpec = program_pickler.loads(data, "a key selector, partitioner or split")
    return dataclasses.replace(level, vertices=[_load_vertex(vertex) for vertex in level.vertices])


def _load_vertex(vertex: VertexSpec) -> VertexSpec:
    return dataclasses.replace(vertex, nodes=[_load_node(node) for node in vertex.nodes])


def _load_node(node: ChainNode) -> ChainNode:
    pickled: Any = node.operator
    return dataclasses.replace(node, operator=program_pickler.loads(pickled.data, f"operator '{pickled.name}'"))


def _dump_operator(operator: Operator) -> Any:
    try:
        return _PickledOperator(operator.name, program_pickler.dumps(operator))
    except Exception as error:
        raise unpicklable(error, operator, f"operator '{operator.name}': its function can't be pickled") from error


def unpicklable(error: Exception, value: Any, what: str) -> ProgramError:
    """Return the error for a `value` that cannot be pickled. `what`: the beginning of its text.

    It names the part that cannot be pickled, and a remedy.
    """
    part = find_unpicklable(value, can_be_pickled)
    if isinstance(part.value, DriverOnly):
        advice = (
            "Read the values from it first, and let the function refer only to them. To use values of another stream "
            "in a function, call connect(); to send them to all of its subtasks, call broadcast()"
        )
    else:
        advice = (
            "Usual cause: it refers to something open or bound to this process (a connection, lock, file, generator). "
            "Open it in the function's open() instead"
        )
    reason = f"{type(error).__name__}: {error}"
    if part.name:
        reason = f"it refers to `{part.name}` ({type(part.value).__name__}). {reason}"
    return ProgramError(f"{what} and so can't be sent to workers: {reason}. {advice}")


def dump_main_classes() -> bytes:
    """Serialize the classes and functions defined in `__main__`, and the objects that the classes' type hints name.

    For a class that cannot be pickled, send the reason, for the error of a worker that needs the class.
    """
    main = sys.modules.get("__main__")
    defined = dict(vars(main)) if main is not None else {}
    own = {name: one for name, one in defined.items() if isinstance(one, type) and one.__module__ == "__main__"}
    left_out = {name: reason for name, one in own.items() if (reason := _why_not(one))}
    classes = {name: one for name, one in own.items() if name not in left_out}
    names = sorted(_names_in_hints(classes.values()) & defined.keys() - own.keys())
    hinted = {name: defined[name] for name in names if not _why_not(defined[name])}
    return program_pickler.dumps((classes, hinted, left_out, dump_functions(defined)))


def load_main_classes(data: bytes) -> None:
    """Set the classes and functions of the driver's script into this process's `__main__`, so that pickles find them.

    A reference to a class that could not be pickled raises a ProgramError with the reason.
    """
    main = sys.modules["__main__"]
    classes, hinted, left_out, functions = program_pickler.loads(data, "the classes of the job's script")
    for name, value in {**hinted, **classes}.items():
        setattr(main, name, value)
    ScriptNames(functions, left_out).install()
    install_in_process_pools()


def _names_in_hints(classes: Iterable[type]) -> set[str]:
    """Return the names in type hints that are text, as all are after `from __future__ import annotations`.

    Readers of type hints, such as msgspec's decoders, look the names up in the module of the class.
    """
    names: set[str] = set()
    for one in classes:
        for hint in vars(one).get("__annotations__", {}).values():
            text = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
            if isinstance(text, str):
                with contextlib.suppress(SyntaxError):
                    names.update(
                        node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)
                    )
    return names


def can_be_pickled(value: Any) -> bool:
    """Return whether `value` can be sent to workers."""
    return not _why_not(value)


def _why_not(value: Any) -> str:
    """Return why `value` cannot be pickled; empty if it can."""
    try:
        program_pickler.dumps(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
