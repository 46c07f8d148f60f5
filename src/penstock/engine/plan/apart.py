"""What was captured, unpickled beside the running script: to be looked at, not run.

cloudpickle loads a class of the script as the class that is there, and sets its attributes once more, from the pickle.
Here each load makes classes of its own, and the script's stay as they are.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import cloudpickle.cloudpickle

from penstock.engine.runtime.operators.pickled import Pickled

_CLOUDPICKLE = cloudpickle.cloudpickle


def loaded_apart(pickled: Pickled) -> Any:
    """The object. Raises what unpickling it raises."""
    return _loads(pickled.data)


def _loads(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, name: str) -> Any:
        """What the pickle names, or what takes its place."""
        return _INSTEAD.get((module_name, name)) or super().find_class(module_name, name)


def _new_class(make: Any, name: str, bases: Any, body: Any, number: Any, extra: Any) -> Any:
    return _CLOUDPICKLE._make_skeleton_class(make, name, bases, body, None, extra)


def _new_enum(bases: Any, name: str, qualname: str, members: Any, module: str, number: Any, extra: Any) -> Any:
    return _CLOUDPICKLE._make_skeleton_enum(bases, name, qualname, members, module, None, extra)


_INSTEAD: dict[tuple[str, str], Any] = {
    (_CLOUDPICKLE.__name__, "_make_skeleton_class"): _new_class,
    (_CLOUDPICKLE.__name__, "_make_skeleton_enum"): _new_enum,
    ("_pickle", "loads"): _loads,
    ("pickle", "loads"): _loads,
}
