"""Tracebacks for users: without penstock's frames above the user's code."""

from __future__ import annotations

import inspect
import os
import re
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

_PACKAGE_DIRECTORY = f"{Path(__file__).parents[2]}{os.sep}"
_FRAME = re.compile(r'\s*File ".*", line \d+')
_RAISED = re.compile(r"[\w.]+: ")

Error = TypeVar("Error", bound=BaseException)


def user_traceback(error: BaseException, called: Callable[..., Any] | None = None) -> str:
    """Return the traceback from the first frame of the user's code on, as Python prints it.

    `called`: the user's function. If the traceback has no frame of the user's code, it shows the definition of that
    function instead of penstock's frames for a TypeError, which may come from its parameters or results, and no frames
    if the function has no Python code, such as `int`.
    """
    summary = traceback.TracebackException.from_exception(error)
    stack = summary.stack
    # Only penstock's frames above the user's code are left out. Frames below it show what the user's code called.
    first = next((index for index, frame in enumerate(stack) if not is_penstock_file(frame.filename)), 0)
    definition = _definition_of(called) if is_about_a_call(error) else None
    if first:
        summary.stack = traceback.StackSummary.from_list(stack[first:])
    elif definition is not None:
        summary.stack = traceback.StackSummary.from_list([definition])
    elif called is not None and _code_of(called) is None and _has_only_our_frames(error):
        summary.stack = traceback.StackSummary.from_list([])
    return "".join(summary.format()).rstrip()


def without_our_frames(error: Error) -> Error:
    """Return an error about a user's value, without traceback and causes if no frame is from the user's code.

    The place in penstock that found the wrong value does not help to correct it.
    """
    if _has_only_our_frames(error):
        error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def is_about_a_call(error: BaseException) -> bool:
    """Return whether it is a TypeError without a frame of the user's code: wrong parameters or a wrong result."""
    return isinstance(error, TypeError) and _has_only_our_frames(error)


def _definition_of(called: Any) -> traceback.FrameSummary | None:
    """Return where a user's function begins; None if it has no Python code, such as a builtin, or is penstock's."""
    code = _code_of(called)
    if code is None or is_penstock_file(code.co_filename):
        return None
    return traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)


def _code_of(called: Any) -> CodeType | None:
    called = inspect.unwrap(getattr(called, "func", called))
    code = getattr(called, "__code__", None)
    if code is None and callable(called):
        code = getattr(type(called).__call__, "__code__", None)
    return code


def _has_only_our_frames(error: BaseException) -> bool:
    return all(is_penstock_file(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__))


def is_penstock_file(filename: str) -> bool:
    """Return whether a Python file is part of penstock."""
    return filename.startswith(_PACKAGE_DIRECTORY)


def raised_line(text: str) -> str:
    """Return the line of an error's text with the exception, such as `ValueError: 3`; empty if there is none.

    It is for places with room for one line. The first line of the text does not count. In a
    traceback it follows the last frame. Lines after it tell the place, such as `LINE 1: …` from a database.
    """
    _, _, below = text.partition("\n")
    lines = textwrap.dedent(below).splitlines()
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if frames:
        return next((line for line in lines[frames[-1] + 1 :] if line[:1].strip()), "")
    return next((line for line in lines if _RAISED.match(line)), "")
