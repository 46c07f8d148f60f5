"""Functions of the job's script as values: sent and stored by name, as Python does with functions of modules.

pickle takes a function by name only if it is the very object that its module has under this name. In a worker, the
functions of the script that an operator refers to are copies: they came with the operator.
`engine/plan/pickling.py` gives the worker's `__main__` the functions of the script, too, and a copy with the same
code is pickled as that one.
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
"""By function: its code, and that of another function which was found to be equal. Neither can be changed."""


def dumps(value: Any) -> bytes:
    """Pickle a value that is sent. Raises what pickle raises.

    A record with a function of the script takes 10 µs in a worker, 0.4 µs without one; 18 µs if the function has
    defaults, which are compared each time: they may change.
    """
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
            f"workers have no function '{name}' of the script with this code and these values: its name is that of "
            "another function, or it refers to large values. Rename it, give it values with functools.partial, or "
            "define it in a module"
        )
    # A call that returns its argument, which pickle takes by name.
    return _FIRST, ((found,),)


def is_function(value: Any) -> bool:
    """Whether `value` is a function that the script defines, with or without a decorator."""
    return isinstance(value, _FUNCTIONS) and value.__module__ == SCRIPT


def found_in_script(name: str) -> Any:
    """Return what `__main__` has under a qualified name, or None."""
    try:
        return operator.attrgetter(name)(sys.modules[SCRIPT])
    except AttributeError:
        return None


def same_function(one: Any, other: Any) -> bool:
    """Whether two functions, or what decorators made of them, do the same: one is a copy of the other.

    A function that is defined in a loop has the same code each time, and other defaults; what a decorator makes has the
    name of the function that it was given.
    """
    return is_function(one) and _is_copy(one, other, set())


def _is_copy(one: Any, other: Any, compared: set[tuple[int, int]]) -> bool:
    """`compared`: pairs that are equal if all else is, such as functions that refer to themselves."""
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
        # An array has no single answer.
        if one == other:
            return True
    try:
        return _are_copies(_taken_apart(one), _taken_apart(other), compared)
    except Exception:
        # What can't be pickled either.
        return False


def _are_copies(ones: Any, others: Any, compared: set[tuple[int, int]]) -> bool:
    return len(ones) == len(others) and all(_is_copy(*pair, compared) for pair in zip(ones, others, strict=True))


def _has_same_code(one: FunctionType, other: FunctionType) -> bool:
    """Each record with a copy asks, and to compare two codes takes 0.4 to 2 µs."""
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
    """What a function has beside its code, but for the variables of the script."""
    cells: list[Any] = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            # One without a value is the same in both, or there are more in one of them.
            cells.append(cell.cell_contents)
    return function.__defaults__, function.__kwdefaults__, cells, vars(function)


def _taken_apart(value: Any) -> Sequence[Any]:
    if isinstance(value, _Cached):
        return value.__wrapped__, value.cache_parameters()
    reduced = value.__reduce_ex__(2)
    return reduced if isinstance(reduced, tuple) else (reduced,)
