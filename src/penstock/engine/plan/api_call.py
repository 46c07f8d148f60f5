"""The call of the API that the program is making: its name, its arguments, and the line of the user's program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FrameType
from typing import Any

from penstock.common.errors.user_traceback import is_ours
from penstock.common.functions.driver_only import DriverOnly


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
