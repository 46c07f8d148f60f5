"""Pickle the arguments of API calls during the call, so that later changes do not affect them.

PyFlink does the same: a lambda in a loop sees the value that a variable had in its iteration. The call that creates an
operator pickles it as a whole, once it has all of its parts; arguments of an earlier call, such as a key selector or a
trigger, are pickled in that call. Workers get these bytes: nothing is pickled again when the job is deployed.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import io
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import FrameType
from typing import Any, NamedTuple

import cloudpickle.cloudpickle

from penstock.common.errors.user_traceback import is_penstock_file
from penstock.common.functions.driver_only import DriverOnly
from penstock.engine.plan.pickling import can_be_pickled, unpicklable
from penstock.engine.plan.program_pickler import ProgramPickler
from penstock.engine.runtime.operators.function import CapturedCall
from penstock.engine.runtime.operators.pickled import Pickled


class ApiCall:
    """A call from the user's code into penstock that has not returned yet: name, arguments and line of the program."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    @property
    def name(self) -> str:
        """The name of the method or function."""
        return self._frame.f_code.co_name

    def __str__(self) -> str:
        """Return its name for errors: the method, and the file and line of the program."""
        user = self._frame.f_back
        return self.name if user is None else f"{self.name} at {user.f_code.co_filename}, line {user.f_lineno}"

    def argument(self, is_wanted: Callable[[Any], bool]) -> tuple[str, Any] | None:
        """Return name and value of the first argument that `is_wanted` accepts, except `self`, or None."""
        names, more, _, values = inspect.getargvalues(self._frame)
        for name in (*names, *([more] if more else [])):
            value = values.get(name)
            if name not in ("self", "cls") and not isinstance(value, DriverOnly) and is_wanted(value):
                return name, value
        return None


def current_api_call() -> ApiCall:
    """Return this thread's call: the first function of penstock that the user's code has called."""
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back is not None and is_penstock_file(frame.f_back.f_code.co_filename):
        frame = frame.f_back
    return ApiCall(frame)


_captures: ContextVar[bool] = ContextVar("captures", default=True)


class CapturedPart(NamedTuple):
    """An object and its pickle. Holding the object keeps its id unique."""

    given: Any
    pickled: Pickled


CapturedParts = dict[int, CapturedPart]
"""Parts by the object's id."""


def captured(value: Any, parts: Mapping[int, CapturedPart] | None = None) -> Pickled | None:
    """Pickle `value` with the variables that it refers to. `parts`: objects in it that were pickled before.

    Return None if `value` refers to a name without a value, such as a helper that the script defines further below: it
    is then pickled when the job is submitted. Raises ProgramError, which names the API call and its argument, if it
    cannot be pickled.
    """
    if not _captures.get():
        return None
    with io.BytesIO() as file:
        pickler = _CallPickler(file, parts or {})
        try:
            pickler.dump(value)
        except Exception as error:
            call = current_api_call()
            argument, given = call.argument(lambda one: not can_be_pickled(one)) or ("", value)
            what = f"the argument {argument}" if argument else "its argument"
            raise unpicklable(error, given, f"{call}: {what} can't be pickled") from error
        return Pickled(file.getvalue()) if pickler.is_complete else None


def captured_parts(parts: Iterable[Any]) -> CapturedParts:
    """Pickle parts of a future operator, except those that are pickled when the job is submitted."""
    return {id(part): CapturedPart(part, pickled) for part in parts if (pickled := captured(part)) is not None}


def captured_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call` with its pickle for workers, or `call` itself if it is pickled when the job is submitted."""
    pickled = captured(call)
    return call if pickled is None else CapturedCall(call, pickled)


@contextlib.contextmanager
def without_capture() -> Iterator[None]:
    """Do not pickle arguments of API calls in this context: the program runs in this process alone."""
    token = _captures.set(False)
    try:
        yield
    finally:
        _captures.reset(token)


class _CallPickler(ProgramPickler):
    """Pickle, and record whether all names that the functions refer to have values."""

    is_complete = True

    def __init__(self, file: io.BytesIO, parts: Mapping[int, CapturedPart]) -> None:
        super().__init__(file)
        self._parts = parts

    def reducer_override(self, obj: Any) -> Any:
        """Return how to rebuild `obj`, like ProgramPickler; insert parts that were pickled before."""
        part = self._parts.get(id(obj))
        if part is not None:
            return part.pickled.__reduce__()
        reduced = super().reducer_override(obj)
        if reduced is not NotImplemented and isinstance(obj, types.FunctionType) and _lacks_names(obj):
            self.is_complete = False
        return reduced


def _lacks_names(function: types.FunctionType) -> bool:
    """Return whether a variable that the function refers to has no value."""
    names = cloudpickle.cloudpickle._extract_code_globals(function.__code__)
    if any(name not in function.__globals__ and not hasattr(builtins, name) for name in names):
        return True
    try:
        for cell in function.__closure__ or ():
            _ = cell.cell_contents
    except ValueError:
        return True
    return False
