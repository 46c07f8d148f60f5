"""What is given to the API is pickled in that very call, so that what changes later has no effect on it.

PyFlink does so, too: lambdas in a loop have the value that a variable had in their round. An operator is pickled as a
whole when the call that makes it has all of its parts; what belongs to an earlier call, such as a key selector or a
trigger, is pickled in that one. The bytes are what workers get: nothing is pickled again when the job is deployed.
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

from penstock.common.errors.user_traceback import is_ours
from penstock.common.functions.driver_only import DriverOnly
from penstock.engine.plan.pickling import can_be_pickled, unpicklable
from penstock.engine.plan.program_pickler import ProgramPickler
from penstock.engine.runtime.operators.function import CapturedCall
from penstock.engine.runtime.operators.pickled import Pickled

# The call of the API that the program is making: its name, its arguments, and the line of the user's program.


class ApiCall:
    """A call from the user's code into penstock. It is described while it is under way."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame

    @property
    def name(self) -> str:
        """The name of the method or function."""
        return self._frame.f_code.co_name

    def __str__(self) -> str:
        """As errors name it: the method, the file and the line of the program."""
        user = self._frame.f_back
        return self.name if user is None else f"{self.name} at {user.f_code.co_filename}, line {user.f_lineno}"

    def argument(self, is_wanted: Callable[[Any], bool]) -> tuple[str, Any] | None:
        """Name and value of the first argument that `is_wanted`, the stream itself left out; None: there is none."""
        names, more, _, values = inspect.getargvalues(self._frame)
        for name in (*names, *([more] if more else [])):
            value = values.get(name)
            if name not in ("self", "cls") and not isinstance(value, DriverOnly) and is_wanted(value):
                return name, value
        return None


def current_api_call() -> ApiCall:
    """The call that this thread is in: the first function of penstock that the user's code has called."""
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back is not None and is_ours(frame.f_back.f_code.co_filename):
        frame = frame.f_back
    return ApiCall(frame)


_captures: ContextVar[bool] = ContextVar("captures", default=True)


class CapturedPart(NamedTuple):
    """An object, and what it was like. It is kept, since it is known by its id, which another one could have later."""

    given: Any
    pickled: Pickled


CapturedParts = dict[int, CapturedPart]
"""By id."""


def captured(value: Any, parts: Mapping[int, CapturedPart] | None = None) -> Pickled | None:
    """`value` as it is now, with the variables that it refers to. `parts`: objects in it, as they were before.

    None: it is pickled when the job is submitted, since it refers to a name that has no value yet, such as a helper
    that the script defines further below. Raises ProgramError, which names the call of the API and its argument, if it
    can't be pickled.
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
            what = f"the argument {argument}" if argument else "what it was given"
            raise unpicklable(error, given, f"{call}: {what} can't be pickled") from error
        return Pickled(file.getvalue()) if pickler.has_all else None


def captured_parts(parts: Iterable[Any]) -> CapturedParts:
    """Parts of an operator to be, as they are now. Without those that are pickled when the job is submitted."""
    return {id(part): CapturedPart(part, pickled) for part in parts if (pickled := captured(part)) is not None}


def captured_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which workers get as it is now; itself, if it is pickled when the job is submitted."""
    pickled = captured(call)
    return call if pickled is None else CapturedCall(call, pickled)


@contextlib.contextmanager
def without_capture() -> Iterator[None]:
    """What is given to the API meanwhile may be what can't be pickled: a program that runs in this process alone."""
    token = _captures.set(False)
    try:
        yield
    finally:
        _captures.reset(token)


class _CallPickler(ProgramPickler):
    """Notes whether all that the functions refer to is there."""

    has_all = True

    def __init__(self, file: io.BytesIO, parts: Mapping[int, CapturedPart]) -> None:
        super().__init__(file)
        self._parts = parts

    def reducer_override(self, obj: Any) -> Any:
        """As the pickler of programs."""
        part = self._parts.get(id(obj))
        if part is not None:
            return part.pickled.__reduce__()
        reduced = super().reducer_override(obj)
        if reduced is not NotImplemented and isinstance(obj, types.FunctionType) and _lacks_names(obj):
            self.has_all = False
        return reduced


def _lacks_names(function: types.FunctionType) -> bool:
    """Whether a variable that the function refers to has no value."""
    names = cloudpickle.cloudpickle._extract_code_globals(function.__code__)
    if any(name not in function.__globals__ and not hasattr(builtins, name) for name in names):
        return True
    try:
        for cell in function.__closure__ or ():
            _ = cell.cell_contents
    except ValueError:
        return True
    return False
