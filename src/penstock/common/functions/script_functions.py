"""Functions of the job's script as values: sent and stored by name, as pickle does with functions of modules.

pickle stores a function by name only if its module has exactly this object under the name. In a worker, the functions
of the script to which an operator refers are copies, which came with the operator. `engine/plan/pickling.py` adds the
functions of the script to the worker's `__main__`, and a copy with the same code is pickled as the function there.
"""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import pickle
import sys
from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from penstock.common.values.container_copies import ATOMS

SCRIPT = "__main__"
_FIRST = operator.itemgetter(0)
_Cached: Any = type(functools.lru_cache(len))
_FUNCTIONS = (FunctionType, _Cached)
_same_codes: WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]] = WeakKeyDictionary()
"""Function -> its code and the equal code of another function. Code objects are immutable."""


def dumps(value: Any) -> bytes:
    """Pickle a value that is sent. Raises pickle's errors.

    A record without a function of the script takes 0.4 µs; with one, 10 µs in a worker, or 18 µs if the function has
    defaults, which are compared each time because they may change.
    """
    try:
        return pickle.dumps(value, protocol=5)
    except (pickle.PicklingError, AttributeError):
        with io.BytesIO() as file:
            _Pickler(file, protocol=5).dump(value)
            return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return reduce_function(value)


def reduce_function(value: Any) -> Any:
    """Return how to pickle a function of the script; NotImplemented for other values.

    Raises PicklingError, with advice, if the process that reads the pickle would not find the function.
    """
    if not is_script_function(value):
        return NotImplemented
    name = value.__qualname__
    if "<" in name:
        raise pickle.PicklingError(
            f"another process can't find {name} by its name: define the function with `def` at the top level of the "
            "script or of a module, and bind values with functools.partial"
        )
    found = found_in_script(name)
    if found is value:
        return NotImplemented
    if not same_function(found, value):
        raise pickle.PicklingError(
            f"workers have no function '{name}' of the script with this code and these values: another function has "
            "this name, or it refers to large values. Rename it, bind values with functools.partial, or define it in a "
            "module"
        )
    # A call that returns its argument, which pickle stores by name.
    return _FIRST, ((found,),)


def is_script_function(value: Any) -> bool:
    """Return whether `value` is a function that the script defines, with or without a decorator."""
    return isinstance(value, _FUNCTIONS) and value.__module__ == SCRIPT


def found_in_script(name: str) -> Any:
    """Return the object with a qualified name in `__main__`, or None."""
    try:
        return operator.attrgetter(name)(sys.modules[SCRIPT])
    except AttributeError:
        return None


def same_function(one: Any, other: Any) -> bool:
    """Return whether one function is a copy of the other, with or without decorators.

    Code alone is not enough: functions defined in a loop have the same code and different defaults. The name is not
    enough either: a decorated function has the name of the original one.
    """
    return is_script_function(one) and _is_copy(one, other, set())


def _is_copy(one: Any, other: Any, compared: set[tuple[int, int]]) -> bool:
    """`compared`: pairs already under comparison, as functions may refer to themselves. They count as equal."""
    if one is other or (id(one), id(other)) in compared:
        return True
    kind = type(one)
    if kind is not type(other):
        return False
    if kind in ATOMS and kind is not FunctionType:
        return bool(one == other)
    compared.add((id(one), id(other)))
    if isinstance(one, FunctionType):
        if not _has_same_code(one, other):
            return False
        if not (_has_state(one) or _has_state(other)):
            return True
        return _are_copies(_state_of(one), _state_of(other), compared)
    if isinstance(one, (tuple, list)):
        return _are_copies(one, other, compared)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_copy(part, other[key], compared) for key, part in one.items())
    with contextlib.suppress(Exception):
        # Suppress errors: the comparison of arrays has no single result.
        if one == other:
            return True
    try:
        return _are_copies(_parts_of(one), _parts_of(other), compared)
    except Exception:
        # Such values can't be pickled either.
        return False


def _are_copies(ones: Any, others: Any, compared: set[tuple[int, int]]) -> bool:
    return len(ones) == len(others) and all(_is_copy(*pair, compared) for pair in zip(ones, others, strict=True))


def _has_same_code(one: FunctionType, other: FunctionType) -> bool:
    """Compare code, with a cache: each record with a copy needs it, and a comparison takes 0.4 to 2 µs."""
    codes = one.__code__, other.__code__
    known = _same_codes.get(other)
    if known is not None and known[0] is codes[0] and known[1] is codes[1]:
        return True
    if codes[0] != codes[1]:
        return False
    _same_codes[other] = codes
    return True


def _has_state(function: FunctionType) -> bool:
    return bool(function.__closure__ or function.__defaults__ or function.__kwdefaults__ or function.__dict__)


def _state_of(function: FunctionType) -> tuple[Any, ...]:
    """Return the values that a function has in addition to its code, except the script's variables."""
    cells: list[Any] = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            # Empty cells are left out; if only one function has them, the numbers of values differ.
            cells.append(cell.cell_contents)
    return function.__defaults__, function.__kwdefaults__, cells, vars(function)


def _parts_of(value: Any) -> Sequence[Any]:
    if isinstance(value, _Cached):
        return value.__wrapped__, value.cache_parameters()
    reduce_function = value.__reduce_ex__(2)
    return reduce_function if isinstance(reduce_function, tuple) else (reduce_function,)
