"""What a function is when it is given to the API: pickled then, so that what changes later has no effect on it.

PyFlink pickles a function in the very call, and so lambdas in a loop have the value that a variable had in their round.
The bytes are what workers get: the function is not pickled again when the job is deployed.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import types
from collections.abc import Callable
from typing import Any

import cloudpickle.cloudpickle

from penstock.plan.program_pickler import ProgramPickler
from penstock.runtime.operators.function import CapturedCall, CapturedFunction


def captured(function: Any) -> CapturedFunction | None:
    """`function` as it is now, with the variables that it refers to.

    None: it is pickled when the job is submitted, since it refers to a name that has no value yet, such as a helper
    that the script defines further below, or since it can't be pickled, which the submission reports with a remedy.
    """
    with io.BytesIO() as file, contextlib.suppress(Exception):
        pickler = _CallPickler(file)
        pickler.dump(function)
        if pickler.has_all:
            return CapturedFunction(file.getvalue())
    return None


def captured_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which workers get as it is now; itself, if it is pickled when the job is submitted."""
    taken = captured(call)
    return call if taken is None else CapturedCall(call, taken)


class _CallPickler(ProgramPickler):
    """Notes whether all that the functions refer to is there."""

    has_all = True

    def reducer_override(self, obj: Any) -> Any:
        """As the pickler of programs."""
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
