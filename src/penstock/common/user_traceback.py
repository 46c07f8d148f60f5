"""The traceback of an error as its user wants to read it: without the frames of ours above the user's own code."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PACKAGE_DIRECTORY = f"{Path(__file__).parents[1]}{os.sep}"


def user_traceback(error: BaseException, called: Callable[..., Any] | None = None) -> str:
    """The traceback from the first frame of the user's code on, as Python prints it.

    `called`: the function of the user's whose results or parameters a TypeError may be about. If no frame is the user's
    the place of its definition is shown, not ours.
    """
    summary = traceback.TracebackException.from_exception(error)
    stack = summary.stack
    # Only our frames above the user's code are left out. Those below it stay: they show what the user's code called.
    first = next((index for index, frame in enumerate(stack) if not _is_ours(frame.filename)), 0)
    definition = _definition_of(called) if is_about_a_call(error) else None
    if first:
        summary.stack = traceback.StackSummary.from_list(stack[first:])
    elif definition is not None:
        summary.stack = traceback.StackSummary.from_list([definition])
    return "".join(summary.format()).rstrip()


def is_about_a_call(error: BaseException) -> bool:
    """Whether it is a TypeError without a frame of the user's: parameters do not fit, or what was returned."""
    frames = traceback.walk_tb(error.__traceback__)
    return isinstance(error, TypeError) and all(_is_ours(frame.f_code.co_filename) for frame, _ in frames)


def _definition_of(called: Any) -> traceback.FrameSummary | None:
    """Where a function of the user's begins. None: it has no code in Python, as a builtin, or is ours."""
    called = inspect.unwrap(getattr(called, "func", called))
    code = getattr(called, "__code__", None)
    if code is None and callable(called):
        code = getattr(type(called).__call__, "__code__", None)
    if code is None or _is_ours(code.co_filename):
        return None
    return traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)


def _is_ours(filename: str) -> bool:
    return filename.startswith(_PACKAGE_DIRECTORY)
