"""Serialization of programs: each operator by cloudpickle separately, plus the classes of the job's script.

Records whose class is defined in the script are pickled by reference to `__main__`, between tasks and in snapshots. The
classes of the script are therefore sent once and set into the worker's `__main__`, where such references resolve.
cloudpickle tracks the classes it has loaded: operators pickled by value refer to the same class objects. The script is
not run again, so it needs no `if __name__ == "__main__"`; notebooks work the same way (docs/decisions/0001).
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import pickle
import sys
from collections.abc import Callable, Iterable
from typing import Any, ForwardRef

from penstock.common.errors import ProgramError
from penstock.plan import program_pickler
from penstock.runtime.operators.operator import Operator
from penstock.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec


@dataclasses.dataclass
class _PickledNode:
    name: str
    operator: bytes
    uid: str
    links: list[ChainLink]
    state_id: str


def dump_level(level: LevelSpec) -> bytes:
    """Serialize the level. Raises ProgramError naming the operator whose function can't be pickled."""
    vertices = []
    for vertex in level.vertices:
        nodes: Any = [
            _PickledNode(node.operator.name, _dump_operator(node.operator), node.uid, node.links, node.state_id)
            for node in vertex.nodes
        ]
        vertices.append(dataclasses.replace(vertex, nodes=nodes))
    try:
        return program_pickler.dumps(dataclasses.replace(level, vertices=vertices))
    except Exception as error:
        raise _explained(error, "a key selector, partitioner or split can't be pickled") from error


def load_level(data: bytes) -> LevelSpec:
    """Deserialize a level, with its own copies of the operators. Raises ProgramError that names what it can't load."""
    level: LevelSpec = _loaded(data, "a key selector, partitioner or split")
    return dataclasses.replace(level, vertices=[_load_vertex(vertex) for vertex in level.vertices])


def _load_vertex(vertex: VertexSpec) -> VertexSpec:
    nodes: list[Any] = vertex.nodes
    return dataclasses.replace(
        vertex,
        nodes=[
            ChainNode(_loaded(node.operator, f"operator '{node.name}'"), node.uid, node.links, node.state_id)
            for node in nodes
        ],
    )


def _loaded(data: bytes, what: str) -> Any:
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ProgramError(
            f"a worker can't unpickle {what}: {type(error).__name__}: {error}. Usual causes: a module that "
            "workers can't import (env.add_python_file sends it), another version of a package, a failing __setstate__"
        ) from error


def _dump_operator(operator: Operator) -> bytes:
    try:
        return program_pickler.dumps(operator)
    except Exception as error:
        raise _explained(error, f"operator '{operator.name}': its function can't be pickled") from error


def _explained(error: Exception, what: str) -> ProgramError:
    return ProgramError(
        f"{what} and so can't be sent to workers: {type(error).__name__}: {error}. Usual cause: it refers to something "
        "open or bound to this process (a connection, lock, file, generator). Open it in the function's open() instead"
    )


def dump_main_classes() -> bytes:
    """Serialize the classes defined in `__main__` that can be pickled, by name, and what their type hints refer to."""
    main = sys.modules.get("__main__")
    defined = dict(vars(main)) if main is not None else {}
    classes = {
        name: value
        for name, value in defined.items()
        if isinstance(value, type) and value.__module__ == "__main__" and _can(program_pickler.dumps, value)
    }
    hinted = {
        name: defined[name]
        for name in sorted(_names_in_hints(classes.values()) & defined.keys() - classes.keys())
        if _can(program_pickler.dumps, defined[name])
    }
    return program_pickler.dumps((classes, hinted))


def load_main_classes(data: bytes) -> None:
    """Set the classes of the driver's script into this process's `__main__`, so that references to them resolve."""
    main = sys.modules["__main__"]
    classes, hinted = _loaded(data, "the classes of the job's script")
    for name, value in {**hinted, **classes}.items():
        setattr(main, name, value)


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


def _can(do: Callable[[Any], Any], value: Any) -> bool:
    try:
        do(value)
    except Exception:
        return False
    return True
