"""Serialization of programs: each operator by cloudpickle separately, plus what the job's script defines.

Records whose class is defined in the script are pickled by reference to `__main__`, between tasks and in snapshots. The
classes of the script are therefore sent once and set into the worker's `__main__`, where such references resolve.
cloudpickle tracks the classes it has loaded: operators pickled by value refer to the same class objects. The script is
not run again, so it needs no `if __name__ == "__main__"`; notebooks work the same way (docs/internals/decisions/0001).
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import sys
from collections.abc import Iterable
from typing import Any, ForwardRef

from penstock.common.errors import ProgramError
from penstock.common.functions.driver_only import DriverOnly
from penstock.engine.plan import process_pools, program_pickler
from penstock.engine.plan.captured import to_blame
from penstock.engine.plan.script_names import ScriptNames, dumped_functions
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.vertex import ChainNode, LevelSpec, VertexSpec


@dataclasses.dataclass
class _PickledOperator:
    name: str
    data: bytes


def dump_level(level: LevelSpec) -> bytes:
    """Serialize the level. Raises ProgramError naming the operator whose function can't be pickled."""
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
    """Deserialize a level, with its own copies of the operators. Raises ProgramError that names what it can't load."""
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
    """The error for `value`, which can't be pickled, as `what` says: the part that is to blame, and a remedy."""
    captured = to_blame(value, can_be_pickled)
    if isinstance(captured.value, DriverOnly):
        advice = (
            "Let the function refer to values only, read from it before. Values of another stream come to a function "
            "by connect(), and to all of its subtasks by broadcast()"
        )
    else:
        advice = (
            "Usual cause: it refers to something open or bound to this process (a connection, lock, file, generator). "
            "Open it in the function's open() instead"
        )
    reason = f"{type(error).__name__}: {error}"
    if captured.name:
        reason = f"it refers to `{captured.name}` ({type(captured.value).__name__}). {reason}"
    return ProgramError(f"{what} and so can't be sent to workers: {reason}. {advice}")


def dump_main_classes() -> bytes:
    """Serialize the classes and functions defined in `__main__`, by name, and what type hints of the classes refer to.

    Of a class that can't be pickled the reason is sent, for the error of a worker that would need it.
    """
    main = sys.modules.get("__main__")
    defined = dict(vars(main)) if main is not None else {}
    own = {name: one for name, one in defined.items() if isinstance(one, type) and one.__module__ == "__main__"}
    left_out = {name: reason for name, one in own.items() if (reason := _why_not(one))}
    classes = {name: one for name, one in own.items() if name not in left_out}
    names = sorted(_names_in_hints(classes.values()) & defined.keys() - own.keys())
    hinted = {name: defined[name] for name in names if not _why_not(defined[name])}
    return program_pickler.dumps((classes, hinted, left_out, dumped_functions(defined)))


def load_main_classes(data: bytes) -> None:
    """Give this process's `__main__` the classes and functions of the driver's script, so that pickles find them.

    References to classes that could not be pickled raise a ProgramError which says why.
    """
    main = sys.modules["__main__"]
    classes, hinted, left_out, functions = program_pickler.loads(data, "the classes of the job's script")
    for name, value in {**hinted, **classes}.items():
        setattr(main, name, value)
    ScriptNames(functions, left_out).install()
    process_pools.install()


def _names_in_hints(classes: Iterable[type]) -> set[str]:
    """The names in type hints that are text, as they all are after `from __future__ import annotations`.

    What reads type hints, such as msgspec's decoders, looks them up in the module of the class.
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
    """Whether `value` can be sent to workers."""
    return not _why_not(value)


def _why_not(value: Any) -> str:
    """Why `value` can't be pickled; empty if it can be."""
    try:
        program_pickler.dumps(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""
