"""The traceback of an error as its user wants to read it: without the frames of ours above the user's own code."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_PACKAGE_DIRECTORY = f"{Path(__file__).parents[2]}{os.sep}"

Error = TypeVar("Error", bound=BaseException)


def user_traceback(error: BaseException, called: Callable[..., Any] | None = None) -> str:
    """The traceback from the first frame of the user's code on, as Python prints it.

    `called`: the function of the user's whose results or parameters a TypeError may be about. If no frame is the user's
    the place of its definition is shown, not ours.
    """
    summary = traceback.TracebackException.from_exception(error)
    stack = summary.stack
    # Only our frames above the user's code are left out. Those below it stay: they show what the user's code called.
    first = next((index for index, frame in enumerate(stack) if not is_ours(frame.filename)), 0)
    definition = _definition_of(called) if is_about_a_call(error) else None
    if first:
        summary.stack = traceback.StackSummary.from_list(stack[first:])
    elif definition is not None:
        summary.stack = traceback.StackSummary.from_list([definition])
    return "".join(summary.format()).rstrip()


def without_our_frames(error: Error) -> Error:
    """`error`, raised over a value of the user's: without traceback and causes if none of its frames is the user's.

    Where in penstock a value was found to be wrong helps nobody to mend it.
    """
    if _is_all_ours(error):
        error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def is_about_a_call(error: BaseException) -> bool:
    """Whether it is a TypeError without a frame of the user's: parameters do not fit, or what was returned."""
    return isinstance(error, TypeError) and _is_all_ours(error)


def _definition_of(called: Any) -> traceback.FrameSummary | None:
    """Where a function of the user's begins. None: it has no code in Python, as a builtin, or is ours."""
    called = inspect.unwrap(getattr(called, "func", called))
    code = getattr(called, "__code__", None)
    if code is None and callable(called):
        code = getattr(type(called).__call__, "__code__", None)
    if code is None or is_ours(code.co_filename):
        return None
    return traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)


def _is_all_ours(error: BaseException) -> bool:
    return all(is_ours(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def is_ours(filename: str) -> bool:
    """Whether a file of Python is one of penstock."""
    return filename.startswith(_PACKAGE_DIRECTORY)
