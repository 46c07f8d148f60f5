"""Functions of the job's script as values: sent and stored by name, as Python does with functions of modules.

pickle takes a function by name only if it is the very object that its module has under this name. In a worker, the
functions of the script that an operator refers to are copies: they came with the operator. `plan/script_names.py` gives
the worker's `__main__` the functions of the script, too, and a copy with the same code is pickled as that one.
"""

from __future__ import annotations

import functools
import io
import operator
import pickle
import sys
from types import FunctionType
from typing import Any

SCRIPT = "__main__"
_FIRST = operator.itemgetter(0)
_Cached: Any = type(functools.lru_cache(len))


def dumps(value: Any) -> bytes:
    """Pickle a value that is sent. Raises what pickle raises."""
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError):
        with io.BytesIO() as file:
            _Pickler(file, protocol=5).dump(value)
            return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return reduced(value)


def reduced(value: Any) -> Any:
    """Return how a function of the script is pickled; NotImplemented for all else.

    Raises PicklingError, with a remedy, if a process that reads the pickle would not find the function.
    """
    if not is_function(value):
        return NotImplemented
    name = value.__qualname__
    if "<" in name:
        raise pickle.PicklingError(
            f"{name} has no name by which another process finds it: define the function with `def` at the top of the "
            "script or of a module, and give it values with functools.partial"
        )
    found = found_in_script(name)
    if found is value:
        return NotImplemented
    if not same_function(found, value):
        raise pickle.PicklingError(
            f"workers have no function '{name}' of the script with this code: its name is that of another function, "
            "or it refers to large values. Rename it, or define it in a module"
        )
    # A call that returns its argument, which pickle takes by name.
    return _FIRST, ((found,),)


def is_function(value: Any) -> bool:
    """Whether `value` is a function that the script defines, with or without a decorator."""
    return isinstance(value, FunctionType | _Cached) and value.__module__ == SCRIPT


def found_in_script(name: str) -> Any:
    """Return what `__main__` has under a qualified name, or None."""
    try:
        return operator.attrgetter(name)(sys.modules[SCRIPT])
    except AttributeError:
        return None


def same_function(one: Any, other: Any) -> bool:
    """Whether two functions, or what decorators made of them, have the same code."""
    code = _code(one)
    return code is not None and code == _code(other)


def _code(function: Any) -> Any:
    return getattr(getattr(function, "__wrapped__", function), "__code__", None)
